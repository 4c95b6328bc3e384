"""Whatever is asked of the review of a running monitor, or said there: no error of the server, and no markup."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from monitor.model.label import is_test
from monitor.storage.history.reader import HistoryReader, Search
from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.review import ANA, BEN, REVIEWERS
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
SCRIPT = "<script>alert('run')</script>"
APP = f"shop {SCRIPT}"
PLACE = {"app": APP, "evaluator": EVALUATOR}
SENT = 40
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "'=1", "\t=1")

VALUES = (
    SCRIPT,
    "' OR 1=1; DROP TABLE labels; --",
    "\"><img src=x onerror=alert('run')>",
    "../../../etc/passwd",
    "\x00\x1b[2J\r\nSet-Cookie: a=b",
    "{{ 7 * 7 }} ${7*7}",
    "9" * 240,
    "x" * 257,
    "x" * 30_000,
    "\u202e\u2066\ufeff",
    "inf",
    "-1",
)
RAW = ("%ED%A0%80", "%FF%FE", "%", "%00", "%zz", "a%26by=newest")
ORDERS = (
    "incident:",
    "topic:",
    "incident",
    "measure:x",
    "incident:20260301-1a2b3c4d",
    *(f"{kind}:{value}" for kind in ("incident", "topic") for value in VALUES[:7]),
)
ADDRESSES = {
    "/review": ("app",),
    "/review/label": ("app", "evaluator", "by", "result", "last"),
    "/review/labels": ("show",),
    "/review/judge": ("app", "evaluator"),
    "/worst": ("app", "since", "judged", "limit"),
    "/api/v1/review": ("app",),
    "/api/v1/review/next": ("app", "evaluator", "by", "result"),
    "/api/v1/review/labels": ("show",),
    "/api/v1/review/judge": ("app", "evaluator"),
    "/api/v1/worst": ("app", "since", "judged", "limit"),
}
FINE = {200, 303, 400, 404, 410}


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("hostile-review")
    (folder / "reviewers").write_text(REVIEWERS)
    (folder / "reviewers").chmod(0o600)
    settings: dict[str, Any] = {
        "evaluators": [{"type": EVALUATOR}, {"type": "learned_groundedness"}],
        "alerts": [],
        "storage": {"path": str(folder / "state"), "texts": "all"},
        "review": {"enabled": True, "reviewers": {"token_file": str(folder / "reviewers")}},
    }
    with MonitorProcess(folder, settings) as running:
        names = [name for n in range(4 * SENT) if is_test(name := f"case-{n}")][:SENT]
        rows = [
            {"id": name, "app": APP, "question": f"{SCRIPT} ({name})", "contexts": [f"{CONTEXT} {SCRIPT}"],
             "response": f"{BAD if n % 3 == 0 else GOOD} {SCRIPT}"}
            for n, name in enumerate(names)
        ]  # fmt: skip
        assert running.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
        history = HistoryReader(folder / "state" / "history.db")
        scored = Search(evaluator=EVALUATOR, outcome="score", limit=SENT)
        wait_until(lambda: len(history.search(scored)) == SENT, 60, "all results on disk")
        yield running
        errors = [line for line in running.log.read_text().splitlines() if '"level": "error"' in line]
        assert errors == []


def client(monitor: MonitorProcess, token: str = "") -> httpx.Client:
    """A program with a reviewer's token, or someone at a browser."""
    headers = {"x-review-token": token} if token else {}
    url = f"http://127.0.0.1:{monitor.metrics_port}"
    return httpx.Client(base_url=url, headers=headers, timeout=120, trust_env=False)


@contextmanager
def signed_in(monitor: MonitorProcess, token: str = ANA) -> Iterator[httpx.Client]:
    """Someone at a browser who has given the token."""
    with client(monitor) as made:
        form = re.search(r'name="token" value="([^"]*)"', made.get("/review").text)
        assert form
        data = {"secret": token, "token": form[1]}
        assert made.post("/review/in", data=data, headers={"sec-fetch-site": "same-origin"}).status_code == 303
        yield made


def assert_plain(answer: httpx.Response) -> None:
    """Nothing of a stranger has become markup, and what can be read hides nothing and turns nothing around."""
    if answer.headers.get("content-type", "").startswith("text/html"):
        for forbidden in (SCRIPT, "<img src=x"):
            assert forbidden not in answer.text, answer.url
        # What is typed is kept as it is: in the field of a comment, and in the values of a form.
        read = re.sub(r'<textarea[^>]*>[^<]*|="[^"]*"', "", answer.text)
        for forbidden in ("\x00", "\x1b", "\u202e"):
            assert forbidden not in read, answer.url
    assert "set-cookie" not in answer.headers


def labels(monitor: MonitorProcess, token: str = ANA) -> list[dict[str, Any]]:
    with client(monitor, token) as program:
        found: list[dict[str, Any]] = program.get("/api/v1/review/labels").json()["labels"]
        return found


def following(program: httpx.Client, by: str = "measure") -> dict[str, Any]:
    answer = program.get("/api/v1/review/next", params={**PLACE, "by": by})
    assert answer.status_code == 200, answer.text
    case: dict[str, Any] = answer.json()
    return case


def said(result: str, **fields: Any) -> dict[str, Any]:
    return {"result": result, "verdict": "defect", "level": None, "comment": "", "seen": None, **fields}


def test_no_parameter_of_an_address_is_an_error_of_the_server_or_becomes_markup(monitor: MonitorProcess) -> None:
    with signed_in(monitor) as person, client(monitor, ANA) as program:
        for address, parameters in ADDRESSES.items():
            asker = program if address.startswith("/api") else person
            for name, value in product(parameters, [*map(quote, VALUES), *RAW]):
                answer = asker.get(f"{address}?{name}={value}")
                assert answer.status_code in FINE, (address, name, value)
                assert_plain(answer)
                assert len(answer.content) < 2_000_000
            for query in ("x=1", "app=a&app=b", "&".join(f"a{n}=1" for n in range(50)), "=&&=", "?" * 99):
                answer = asker.get(f"{address}?{query}")
                assert answer.status_code in FINE, (address, query)
                assert_plain(answer)


def test_an_order_that_there_is_not_is_named_and_one_of_nothing_is_empty(monitor: MonitorProcess) -> None:
    with signed_in(monitor) as person, client(monitor, ANA) as program:
        for by in ORDERS:
            unknown = not re.fullmatch(r"(incident|topic):.+", by, re.DOTALL)
            for asker, address, empty in (
                (person, "/review/label", 200),
                (program, "/api/v1/review/next", 404),
            ):
                answer = asker.get(address, params={**PLACE, "by": by})
                assert answer.status_code == (400 if unknown else empty), (address, by)
                assert_plain(answer)
                if unknown:
                    assert "by: " in answer.text


def test_what_is_posted_and_cannot_be_saved_is_refused_and_nothing_is_kept(monitor: MonitorProcess) -> None:
    before = labels(monitor)
    own = {"content-type": "application/json"}
    with client(monitor, ANA) as program:
        result = following(program)["result_id"]
        good = said(result)
        deep = b"[" * 30_000 + b"]" * 30_000
        bodies: list[tuple[bytes, dict[str, str], set[int]]] = [
            (json.dumps({**good, "comment": "x" * 4_001}).encode(), own, {400}),
            (json.dumps({**good, "level": SCRIPT}).encode(), own, {400}),
            (json.dumps({**good, "verdict": SCRIPT}).encode(), own, {400}),
            (json.dumps({**good, "result": "' OR 1=1 --"}).encode(), own, {410}),
            (json.dumps({**good, "result": "\x00"}).encode(), own, {410}),
            (json.dumps({**good, "comment": "\ud800"}).encode(), own, {400}),
            (json.dumps({**good, "comment": 10**400}).encode(), own, {400}),
            (json.dumps([good]).encode(), own, {400}),
            (deep, own, {400}),
            (b"\xff\xfe", own, {400}),
            (b"", own, {400}),
            (json.dumps({**good, "comment": "x" * 10_000_000}).encode(), own, {413}),
            (json.dumps(good).encode(), {"content-type": "text/plain"}, {415}),
            (json.dumps(good).encode(), {**own, "origin": "https://elsewhere.example"}, {403}),
            (json.dumps(good).encode(), {**own, "origin": "null"}, {403}),
            (json.dumps(good).encode(), {**own, "sec-fetch-site": "cross-site"}, {403}),
            (json.dumps(good).encode(), {**own, "host": "elsewhere.example"}, {421}),
            (json.dumps(good).encode(), {**own, "x-review-token": "wrong-token-of-nobody"}, {401}),
            (json.dumps(good).encode(), {**own, "x-review-token": ""}, {401}),
            (json.dumps({**good, "seen": "1.0"}).encode(), own, {409}),
        ]
        for body, headers, expected in bodies:
            status, text = posted(program, "/api/v1/review/labels", body, headers)
            assert status in expected, (body[:80], headers, text)
            assert len(text) < 2_000
        gone = program.get("/api/v1/review", headers={"host": "elsewhere.example"})
        assert gone.status_code == 421
    assert labels(monitor) == before


def test_no_form_is_an_error_of_the_server_and_none_of_another_site_is_taken(monitor: MonitorProcess) -> None:
    before = labels(monitor)
    with signed_in(monitor) as person:
        page = person.get("/review/label", params={**PLACE, "by": "measure"}, follow_redirects=True)
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        form = {"token": fields["token"], "result": fields["result"], "verdict": "defect"}
        own = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
        encoded = str(httpx.QueryParams(form)).encode()
        forms: list[tuple[str, bytes, dict[str, str], set[int]]] = [
            ("/review/label", encoded + b"&comment=%ED%A0%80", own, {400}),
            ("/review/label", encoded + b"&comment=" + b"x" * 10_000_000, own, {413}),
            ("/review/label", encoded + b"&comment=" + b"%F0%9F%98%80" * 4_001, own, {400}),
            ("/review/label", encoded + b"&verdict=good", own, {400}),
            ("/review/label", encoded + b"&by=" + quote(SCRIPT).encode() + b"&more=1", own, {400}),
            ("/review/label", b"\xff" * 100, own, {400}),
            ("/review/label", b"", own, {400}),
            ("/review/label", encoded, {**own, "sec-fetch-site": "cross-site"}, {403}),
            ("/review/label", encoded, {**own, "sec-fetch-site": "same-site"}, {403}),
            ("/review/label", encoded.replace(form["token"].encode(), b"forged"), own, {403}),
            ("/review/label", encoded.replace(form["token"].encode(), b"%C3%BC"), own, {403}),
            ("/review/label", encoded, {**own, "host": "elsewhere.example"}, {421}),
            ("/review/label", encoded, {**own, "cookie": "ragmonitor_review=" + "x" * 5_000}, {401}),
            ("/review/out", b"token=x", {**own, "sec-fetch-site": "cross-site"}, {403}),
            ("/review/in", b"secret=" + b"x" * 600, own, {400}),
            ("/review/in", b"token=x&secret=" + ANA.encode(), own, {403}),
            ("/review/judge", encoded, own, {405}),
        ]
        for address, body, headers, expected in forms:
            status, text = posted(person, address, body, headers)
            assert status in expected, (address, body[:120], headers, text[:300])
            assert SCRIPT not in text
    assert labels(monitor) == before


def posted(asker: httpx.Client, address: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """The answer; 413 where the monitor stops reading and closes the connection before all is sent."""
    try:
        answer = asker.post(address, content=body, headers=headers)
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        return (413, "") if len(body) > 1_000_000 else (0, "the connection broke")
    assert "set-cookie" not in answer.headers
    return answer.status_code, answer.text


def test_a_comment_stays_a_text_on_every_page_and_in_every_file(monitor: MonitorProcess) -> None:
    comments = [f"{SCRIPT} @ana #1 \"><img src=x onerror=alert('run')> \u202e", *FORMULAS, "x" * 4_000]
    done: dict[str, str] = {}
    with client(monitor, BEN) as program, signed_in(monitor, BEN) as person:
        for comment in comments:
            case = following(program, "newest")
            answer = program.post("/api/v1/review/labels", json=said(case["result_id"], comment=comment))
            assert answer.json()["own"]["comment"] == comment.strip()
            done[case["result_id"]] = comment.strip()
            for address in (
                f"/review/label?result={case['result_id']}",
                f"/review/label?{httpx.QueryParams({**PLACE, 'by': 'newest', 'last': case['result_id']})}",
                f"/case/{case['request_id']}",
            ):
                assert_plain(shown := person.get(address, follow_redirects=True))
                assert shown.status_code == 200
        for show in ("mine", "all", "disagreements"):
            assert_plain(person.get("/review/labels", params={"show": show}))
        assert_plain(person.get("/review"))
        assert_plain(person.get("/review/judge", params=PLACE))

    config, path = monitor.folder / "config.yaml", monitor.folder / "labels.out"
    for form in ("csv", "jsonl", "argilla", "label-studio"):
        assert command("labels", "-c", config, "--export", path, "--format", form, "--no-redaction").exit_code == 0
        text = path.read_text()
        if form == "csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not [one for one in cells if one.startswith(("=", "+", "-", "@", "\t", "\r"))]
        if form == "jsonl":
            rows = [json.loads(line) for line in text.splitlines()]
            assert {row["id"]: row["comment"] for row in rows if row["id"] in done} == done
        again = path.with_suffix(f".{'csv' if form == 'csv' else 'json'}")
        again.write_text(text)
        imported = command("labels", "-c", config, "--import", again)
        assert "new: 0; changed: 0" in imported.output, (form, imported.output)


def test_two_people_at_once_get_different_answers_and_no_label_is_lost(monitor: MonitorProcess) -> None:
    each, done, kept = 6, {ANA: list[str](), BEN: list[str]()}, {}
    for token in done:
        kept[token] = {one["result_id"] for one in labels(monitor, token)}

    def work(token: str) -> None:
        with client(monitor, token) as program:
            for _ in range(each):
                result = following(program)["result_id"]
                answer = program.post("/api/v1/review/labels", json=said(result, verdict="good"))
                if answer.status_code == 200:
                    done[token].append(result)

    people = [threading.Thread(target=work, args=(token,)) for token in done]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert [len(one) for one in done.values()] == [each, each]
    for token, results in done.items():
        assert {one["result_id"] for one in labels(monitor, token)} == kept[token] | set(results)


def test_a_reviewer_who_is_taken_out_of_the_file_is_out_at_once(monitor: MonitorProcess) -> None:
    tokens = monitor.folder / "reviewers"
    try:
        with signed_in(monitor, BEN) as ben:
            assert "Signed in as" in ben.get("/review").text
            tokens.write_text(f"ana: {ANA}\n")
            wait_until(lambda: "Your token" in ben.get("/review").text, 30, "the end of the session")
            with client(monitor, BEN) as program:
                assert program.get("/api/v1/review").status_code == 401
    finally:
        tokens.write_text(REVIEWERS)
