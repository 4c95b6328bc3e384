"""A person labels answers of the running monitor in Chromium, by keyboard; a second one by plain forms."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from monitor.model.label import is_test
from monitor.storage.history.reader import HistoryReader, Search
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.review import ANA, BEN, REVIEWERS
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
SENT, LABELLED, FIRST = 70, 50, 10
QUEUE = f"app=shop&evaluator={EVALUATOR}&by=measure"


# Elements that stand out on a side, but for those in a box that scrolls by itself; and what is hard to hit.
WIDER = """JSON.stringify([...document.querySelectorAll("body *")].filter(one => {
  const place = one.getBoundingClientRect();
  return place.width && (place.right > innerWidth + 1 || place.left < -1) && !one.closest(".scroll, pre, .skip");
}).map(one => one.outerHTML.slice(0, 120)))"""
CONTROLS = (
    "button, select, input:not([type=hidden]), textarea, summary, .links a, .sum a, .choice a, .narrower a, nav a"
)
TOO_SMALL = """JSON.stringify([...document.querySelectorAll(%s)].filter(one => {
  const place = one.getBoundingClientRect();
  return place.height && place.height < (one.name === "verdict" ? 44 : 34);
}).map(one => one.outerHTML.slice(0, 120)))""" % json.dumps(CONTROLS)  # noqa: UP031 - braces
PLACES = """JSON.stringify(Object.fromEntries(["verdicts", "asks", "question", "response"].map(name => {
  const place = document.querySelector("." + name).getBoundingClientRect();
  return [name, [place.top, place.bottom]];
})))"""
LONG_WORD = "manuals/" + "averylongpart" * 12


def names(number: int) -> list[str]:
    """Ids of answers that may be drawn to measure the judge."""
    found, at = [], 0
    while len(found) < number:
        at += 1
        found += [f"case-{at}"] if is_test(f"case-{at}") else []
    return found


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("review")
    (folder / "reviewers").write_text(REVIEWERS)
    (folder / "reviewers").chmod(0o600)
    settings: dict[str, Any] = {
        "evaluators": [{"type": EVALUATOR}],
        "alerts": [],
        "storage": {"path": str(folder / "state"), "texts": "all"},
        "review": {"enabled": True, "reviewers": {"token_file": str(folder / "reviewers")}},
    }
    with MonitorProcess(folder, settings) as running:
        rows = [
            {"id": name, "app": "shop", "contexts": [CONTEXT],
             "question": f"Can I get my money back? {LONG_WORD} ({name})",
             "response": BAD if number % 3 == 0 else GOOD}
            for number, name in enumerate(names(SENT))
        ]  # fmt: skip
        assert running.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
        history = HistoryReader(folder / "state" / "history.db")
        wait_until(lambda: len(history.search(Search(outcome="score", limit=SENT))) == SENT, 60, "all results on disk")
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def figures(monitor: MonitorProcess) -> dict[str, Any]:
    """What the labels say, over the API."""
    (queue,) = json.loads(monitor.get("/api/v1/review", **{"x-review-token": ANA}))["queues"]
    return dict(queue)


def loaded(browser: Browser, condition: str, what: str) -> None:
    """Wait for a page of which `condition` is true; while one is replaced by another nothing is."""
    wait_until(lambda: browser.value(f"document.readyState === 'complete' && !!({condition})"), 30, what)


def result(browser: Browser) -> str:
    return str(browser.value("document.getElementById('labelling')?.dataset.result ?? ''"))


def press_and_wait(browser: Browser, key: str) -> None:
    """Label with a key, and wait for the next answer, or that there is none."""
    before = result(browser)
    browser.press(key)
    script = f"document.querySelector('[data-saved={json.dumps(before)}]')"
    loaded(browser, script, f"the label of {before}")


def truth(browser: Browser) -> str:
    """What a careful person says: as the judge, but for a word that the judge does not know."""
    bad = browser.value("document.querySelector('.response').innerText.includes('Lisbon')")
    forgiving = int(re.sub(r"\D", "", str(browser.value("document.querySelector('.question').innerText")))) % 7 == 0
    return "d" if bad and not forgiving else "g"


def sign_in(browser: Browser, url: str, token: str) -> None:
    browser.open(f"{url}/review")
    loaded(browser, "document.activeElement.name === 'secret'", "the field for the token")
    browser.type(token)
    browser.press("Enter")


def test_a_session_by_keyboard_moves_the_corrected_rate_and_narrows_its_limits(
    monitor: MonitorProcess, browser: Browser
) -> None:
    url = f"http://127.0.0.1:{monitor.metrics_port}"
    browser.look(DESKTOP)
    sign_in(browser, url, "this-is-not-a-token")
    loaded(browser, "document.body.innerText.includes('not a reviewer')", "the refusal")
    sign_in(browser, url, ANA)
    loaded(browser, "document.body.innerText.includes('Signed in as ana')", "the queues")
    assert figures(monitor)["corrected_rate"] is None
    browser.value("document.querySelector('.drawing button').click()")
    loaded(browser, "document.getElementById('labelling')", "the first answer")
    assert browser.value("document.querySelector('.pill.critical, .pill.ok')") is None, "the judge is not shown"

    browser.press("n")
    browser.type("A comment with good, defect and cannot tell in it.")
    browser.press("Escape")
    browser.press("1")
    press_and_wait(browser, truth(browser))
    while figures(monitor)["labels"] < FIRST or figures(monitor)["half_width"] is None:
        press_and_wait(browser, truth(browser))
    before = figures(monitor)
    assert before["more"] == LABELLED - FIRST
    while figures(monitor)["labels"] < before["labels"] + before["more"]:
        press_and_wait(browser, truth(browser))
    after = figures(monitor)
    assert after["lower"] <= after["corrected_rate"] <= after["upper"]
    assert (after["lower"], after["upper"]) != (before["lower"], before["upper"])
    assert after["half_width"] < before["half_width"]
    assert after["half_width"] == pytest.approx(before["half_width_after"], rel=0.5), "about as promised"
    assert "corrected" in browser.value("document.querySelector('.progress').innerText")
    assert browser.complaints == []

    browser.open(f"{url}/review/labels")
    listed = browser.value("document.querySelector('table').innerText")
    assert listed.count("ana") == after["labels"] + after["others"]
    assert "A comment with good" in listed
    lines = [json.loads(one) for one in (monitor.folder / "state" / "audit.jsonl").read_text().splitlines()]
    said = [one for one in lines if one["event"] == "answer_labelled"]
    assert {(one["who"], one["peer"]) for one in said} == {("reviewer ana", "127.0.0.1")}
    for secret in (ANA, "this-is-not-a-token", "A comment"):
        assert secret not in json.dumps(lines) + monitor.log.read_text()


def test_on_a_phone_nothing_is_wider_than_the_screen_and_everything_can_be_hit_with_a_thumb(
    monitor: MonitorProcess, browser: Browser
) -> None:
    url = f"http://127.0.0.1:{monitor.metrics_port}"
    browser.look(PHONE)
    browser.do("Network.clearBrowserCookies")
    sign_in(browser, url, ANA)
    loaded(browser, "document.body.innerText.includes('Signed in as ana')", "the queues")
    label = f"/review/label?{QUEUE}".replace("measure", "newest")
    judge = f"/review/judge?app=shop&evaluator={EVALUATOR}"
    for dark, scripts in ((False, True), (True, False)):
        browser.look(PHONE, dark=dark, scripts=scripts)
        for path in ("/review", label, "/review/labels?show=all", judge):
            browser.open(url + path)
            assert browser.value("document.documentElement.scrollWidth") <= PHONE[0], path
            assert json.loads(browser.value(WIDER)) == [], path
            assert json.loads(browser.value(TOO_SMALL)) == [], path
    browser.open(url + label)
    places = json.loads(browser.value(PLACES))
    assert 0 < places["verdicts"][1] <= PHONE[1] + 1, "the verdicts are on the screen before anything is scrolled"
    assert places["asks"][1] < places["question"][0] < places["response"][0], "and above the answer what is asked of it"
    browser.look(DESKTOP)
    assert min(json.loads(browser.value(PLACES))["asks"]) > places["question"][0], "on a desk it is beside the verdicts"


def test_two_people_disagree_without_scripts_and_what_is_forgotten_takes_no_comment_along(
    monitor: MonitorProcess,
) -> None:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{monitor.metrics_port}", trust_env=False, timeout=120, follow_redirects=True
    ) as ben:
        shown = submitted(ben, ben.get("/review"), "/review/in", secret=BEN)
        assert "Signed in as" in shown.text
        api = {"x-review-token": ANA}
        case = ben.get(f"/api/v1/review/next?{QUEUE}", headers=api).json()
        assert (case["judge"], case["own"], case["documents"][0]["content"]) == (None, None, CONTEXT)
        one = {"result": case["result_id"], "verdict": "defect", "level": None, "comment": "", "seen": None}
        saved = ben.post("/api/v1/review/labels", json=one, headers=api).json()
        assert (saved["own"]["verdict"], saved["judge"] is not None) == ("defect", True)
        assert ben.post("/api/v1/review/labels", json=one, headers={"x-review-token": "wrong"}).status_code == 401
        page = ben.get(f"/review/label?result={case['result_id']}")
        assert "<b>ana</b>" not in page.text
        page = submitted(ben, page, "/review/label", verdict="good", comment="I <see> it otherwise.")
        assert ("<b>ana</b>" in page.text, "I &lt;see&gt; it otherwise." in page.text) == (True, True)
        disputed = ben.get("/api/v1/review/labels?show=disagreements", headers=api).json()["labels"]
        said = {(label["reviewer"], label["verdict"]) for label in disputed if label["result_id"] == case["result_id"]}
        assert said == {("ana", "defect"), ("ben", "good")}

        page = ben.get(f"/review/label?{QUEUE.replace('measure', 'newest')}")
        shown_case = re.search(r"\((case-\d+)\)", page.text)
        assert shown_case
        done = command("forget", "--trace", shown_case[1], "-c", monitor.folder / "config.yaml")
        assert done.exit_code == 0, done.output
        page = submitted(ben, page, "/review/label", verdict="defect", comment="Typed for nothing?")
        assert page.status_code == 410
        assert ("deleted in the meantime" in page.text, "Typed for nothing?" in page.text) == (True, True)
        mine = ben.get("/api/v1/review/labels", headers={"x-review-token": BEN}).json()["labels"]
        assert shown_case[1] not in {label["request_id"] for label in mine}


def submitted(client: httpx.Client, page: httpx.Response, action: str, **fields: str) -> httpx.Response:
    """Submit the form of a page as a browser without scripts does."""
    form = re.search(rf'<form method="post" action="[^"]*{action[1:]}".*?</form>', page.text, re.DOTALL)
    assert form, page.text[:2000]
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0])
    given = {name: html.unescape(value) for name, value in hidden}
    return client.post(action, data={**given, **fields}, headers={"sec-fetch-site": "same-origin"})
