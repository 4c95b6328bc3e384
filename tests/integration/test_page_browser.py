"""The page in a real browser: hostile text stays text, a phone needs no sideways scrolling, and nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import anyio
import pytest

from monitor.model.case import Document, Message
from monitor.model.outcome import Evidence
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.incidents import keep_incident
from tests.support.page import NOW, Site, answer
from tests.support.rise import in_acme, results

SCRIPT = "</p></bdi></style></title><script>document.title='run';document.body.id='run'</script>"
HANDLER = (
    "<img src=x onerror=\"document.body.id='run'\"><svg onload=\"document.body.id='run'\"><a href=javascript:run>x</a>"
)
BREAKING = (
    "' onmouseover=\"document.body.id='run'\" x=\" style='position:fixed' {{ 7 * 7 }} &lt;script&gt; <!-- <![CDATA["
)
TURNING = "invoice \u202efdp.exe\u202c and \u2067\u05d0\u05d1\u2069 \u200f\u061c \x1b[31m\0\ud800 \U000e0041"
LONG_WORD = "x" * 5000
HUGE = ("All of it is true. " * 8 + "\n") * 700  # about 100 kB

CASES = {
    "script": SCRIPT,
    "handler": HANDLER,
    "breaking": BREAKING,
    "turning": TURNING,
    "long word": LONG_WORD,
    "huge": HUGE,
    "rtl": "\u05d4\u05ea\u05e9\u05d5\u05d1\u05d4 \u05e0\u05db\u05d5\u05e0\u05d4 (yes) 42.",
    "../../etc/?a=b&c#d": "an odd id",
}


def hostile(number: int, name: str, text: str):
    return answer(
        number,
        trace_id=name,
        question=text[:3000],
        response=text,
        explanation=text[:20_000],
        history=(Message(text[:100], text[:5000]),),
        documents=(Document(text, f"javascript:document.body.id='run'//{text[:50]}"), Document(text, text[:200])),
        evidence=(Evidence(text[:500], "absent", 0, 12, text[:500]), Evidence(text[:90], "contradicted", 5, 9000)),
        attributes={"tenant": text[:100]},
        app=text[:100],
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    made = Site(tmp_path_factory.mktemp("page"))
    for name, text in CASES.items():
        made.judge(made.runtime.metrics.app(text[:100]), "overlap_groundedness", 10, 10 if name != "rtl" else 0)
    made.look()
    anyio.run(made.store, [hostile(number, name, text) for number, (name, text) in enumerate(CASES.items())])
    anyio.run(made.keeper.catch_up)
    for number, text in enumerate(CASES.values()):
        keep_incident(made.folder, f"20231114-0000000{number}", text, open_=number % 2 == 0)
    with made.served() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def to_case(name: str) -> str:
    return f"/case/{quote(name, safe='')}"


PAGES = ["/", "/answers?outcome=any&limit=200", "/alerts", *map(to_case, CASES)]
PAGES += [f"/why?trace={quote(CASES['script'])}", f"/why?trace={quote(CASES['turning'], errors='replace')[:200]}"]
PAGES += ["/why?evaluator=overlap_groundedness", "/incidents"]
PAGES += [f"/incidents/20231114-0000000{number}" for number in range(len(CASES))]
PAGES += [f"/{name}?app={quote(CASES['script'][:100])}" for name in ("documents", "unanswered")]
PAGES += [f"/diagnosis?app={quote(CASES['script'])}&evaluator=overlap_groundedness"]


@pytest.mark.parametrize("path", PAGES)
def test_no_script_runs_no_element_gets_in_and_nothing_is_loaded(site, browser, path):
    browser.look(DESKTOP)
    browser.open(site + path)
    assert "rag-monitor" in browser.value("document.title")
    assert browser.value("document.body.id") == ""
    assert (
        browser.value("document.querySelectorAll('script, img, iframe, [onload], [onerror], [onmouseover]').length")
        == 0
    )
    assert browser.value("[...document.links].filter(one => !/^https?:/.test(one.href)).length") == 0
    assert browser.complaints == []
    assert {one for one in browser.requested if not one.startswith(site)} == set()


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_needs_no_sideways_scrolling(site, browser, path):
    browser.look(PHONE)
    browser.open(site + path)
    assert browser.value("document.documentElement.scrollWidth") <= PHONE[0]


def test_a_phone_needs_no_sideways_scrolling_for_a_diagnosis_with_long_names(tmp_path, browser):
    made, long = Site(tmp_path, slices=("tenant",)), "x" * 120

    def renamed(one):
        attributes = {**one.case.attributes, "tenant": f"{one.case.attributes['tenant']} {long}"}
        return replace(one, evaluator="overlap_groundedness", case=replace(one.case, attributes=attributes))

    anyio.run(made.store, [renamed(one) for one in results(in_acme, now=NOW)])
    with made.served() as url:
        browser.look(PHONE, scripts=False)
        browser.open(f"{url}/diagnosis?app=shop&evaluator=overlap_groundedness")
        assert f"acme {long}" in browser.value("document.querySelector('.factor').innerText")
        assert browser.value("document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("name", ["script", "handler", "breaking"])
def test_markup_is_shown_as_the_text_it_is(site, browser, name):
    browser.look(DESKTOP)
    browser.open(site + to_case(name))
    shown = browser.value("document.querySelector('.question').innerText")
    assert shown.split() == CASES[name].split()
    marks = browser.value("[...document.querySelectorAll('.response mark')].map(one => one.textContent).join('')")
    assert marks == CASES[name]


def test_what_turns_the_direction_is_shown_by_name_and_turns_nothing(site, browser):
    browser.look(DESKTOP)
    browser.open(site + to_case("turning"))
    shown = browser.value("document.querySelector('.question').textContent")
    assert "U+202Efdp.exe" in shown
    assert not set(shown) & set("\u202e\u202c\u2067\u2069\u200f\u061c\x1b\0")
    assert "ESC[31mNUL\ufffd U+E0041" in shown


def test_a_text_from_right_to_left_is_read_that_way_and_leaves_its_surroundings_alone(site, browser):
    browser.look(DESKTOP)
    browser.open(site + to_case("rtl"))
    assert browser.value("getComputedStyle(document.querySelector('.question bdi')).direction") == "rtl"
    assert browser.value("getComputedStyle(document.querySelector('h1')).direction") == "ltr"


def test_a_huge_answer_is_folded_and_all_there(site, browser):
    browser.look(DESKTOP)
    browser.open(site + to_case("huge"))
    assert browser.value("document.querySelector('.response').clientHeight") < 3000
    assert browser.value("document.querySelector('.response details').open") is False
    browser.value("document.querySelectorAll('.response sup').forEach(one => one.remove())")
    assert (
        browser.value("[...document.querySelectorAll('.response .text')].map(one => one.textContent).join('')") == HUGE
    )


def test_everything_can_be_read_without_scripts(site, browser):
    browser.look(DESKTOP, scripts=False)
    browser.open(site + to_case("script"))
    tree = browser.do("Accessibility.getFullAXTree")["nodes"]
    said = " ".join(str(one.get("name", {}).get("value", "")) for one in tree)
    for words in ("Question", "Answer", "Results", "Retrieved context", "defect"):
        assert words in said


CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor
    if (c !== 'rgba(0, 0, 0, 0)') return c } return 'rgb(255, 255, 255)' }
  let worst = [99, '']
  for (const e of document.body.querySelectorAll('*')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue
    if (e.classList.contains('skip')) continue
    const a = light(getComputedStyle(e).color), b = light(ground(e))
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 120)]
  }
  return worst })()"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "path", ["/", "/answers?outcome=any", "/alerts", "/incidents", "/incidents/20231114-00000000", to_case("script")]
)
def test_all_text_stands_out_from_its_ground_by_day_and_by_night(site, browser, path, dark):
    browser.look(DESKTOP, dark=dark)
    browser.open(site + path)
    ratio, where = browser.value(CONTRAST)
    assert ratio >= 4.5, where  # WCAG 2.2, AA
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    (red,) = (int(one) for one in ground.removeprefix("rgb(").split(",")[:1])
    assert (red < 60) == dark
