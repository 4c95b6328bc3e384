"""A recording of a terminal: each picture at its time, safe in a page, and small."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

from rich.live import Live
from rich.text import Text

from tests.support import recording
from tests.support.paths import DOCS
from tests.support.recording import Picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def standing(svg: str, share: float) -> list[str]:
    """What is seen after this share of the whole time, 0 to 1, by the rules of its groups."""
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        name = group.attrib["class"].split()[0]
        rule = re.search(rf"@keyframes {name}\{{((?:[\d.]+%\{{visibility:\w+\}})+)\}}", svg)
        steps = re.findall(r"([\d.]+)%\{visibility:(\w+)\}", rule[1]) if rule else [("0", "visible")]
        now = [how for at, how in steps if float(at) <= share * 100][-1]
        if now == "visible":
            found += ["".join(one.itertext()) for one in group.iter(f"{SVG}text")]
    return sorted(found)


def picture(at: float, *lines: str) -> Picture:
    return Picture(at, tuple(map(Text, lines)))


def test_each_picture_stands_from_its_time_to_that_of_the_next() -> None:
    shown = [picture(0, "header", "one"), picture(10, "header", "two"), picture(20, "header", "two", "three")]
    svg = recording.animated(shown, "a title", faster=5)  # 0 s, 2 s, 4 s of 9
    assert standing(svg, 0) == ["header", "one"]
    assert standing(svg, 3 / 9) == ["header", "two"]
    assert standing(svg, 5 / 9) == ["header", "three", "two"]
    assert standing(svg, 1) == ["header", "three", "two"]


def test_a_line_that_stays_is_drawn_once() -> None:
    shown = [picture(at, "the same", f"at {at}") for at in range(20)]
    found = texts(recording.animated(shown, "a title"))
    assert found.count("the same") == 1
    assert len(found) == 21


def test_what_a_terminal_shows_is_text_and_never_markup() -> None:
    hostile = "</text><script>alert(1)</script> & <b>"
    svg = recording.animated([picture(0, hostile)], hostile)
    assert texts(svg) == [hostile]
    assert "<script" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", ""), "nothing is loaded"


def test_what_rich_draws_on_a_terminal_is_read_back_with_its_colours() -> None:
    class Writes(io.StringIO):
        def write(self, text: str) -> int:
            if text.strip():
                drawn.append((float(len(drawn)), text))
            return len(text)

    drawn: list[tuple[float, str]] = []
    with Live(console=recording.console(Writes()), auto_refresh=False) as live:
        for number in range(3):
            live.update(Text(f"rate {number}\nok", style="bold red"), refresh=True)
    shown = recording.pictures(drawn, every=0)
    assert [[line.plain for line in one.lines] for one in shown][-3:] == [[f"rate {n}", "ok"] for n in range(3)]
    svg = recording.animated(shown, "a title")
    look = re.search(r'class="(c\d)">rate 2<', svg)
    assert look
    assert re.search(rf"\.{look[1]}\{{font-weight:700;fill:#[0-9a-f]{{6}}\}}", svg)


def test_a_recording_begins_with_the_first_picture_that_shows_something() -> None:
    drawn = [(0.0, "\x1b[?25l"), (1.0, " \n "), (7.0, "one"), (13.0, "two")]
    shown = recording.pictures(drawn, every=5)
    assert [(one.at, one.lines[0].plain) for one in shown] == [(0, "one"), (6, "two")]


def test_a_reader_who_wants_nothing_to_move_sees_the_last_picture() -> None:
    svg = recording.animated([picture(0, "one"), picture(9, "two")], "a title")
    assert "prefers-reduced-motion" in svg
    groups = {group.attrib["class"].split()[1]: group for group in ET.fromstring(svg).iter(f"{SVG}g")}
    assert "".join(groups["end"].itertext()) == "two"
    assert "".join(groups["gone"].itertext()) == "one"


def test_the_recording_in_the_docs_is_small_and_ends_with_a_critical_alert() -> None:
    """Made by `make pictures`; README loads it at once."""
    svg = (DOCS / "images" / "demo.svg").read_text()
    assert len(svg.encode()) < 100_000
    assert any("ALERT CRITICAL" in text for text in standing(svg, 1))
    assert standing(svg, 0), "it begins with something"
