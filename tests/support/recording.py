"""A terminal session as an animated SVG: a command's output over time, without a script, a font or a server.

`record` runs the demo on a separate terminal and keeps each picture with its time; `animated` draws them. A line that
stays the same is drawn once, for as long as it is shown, so a minute takes some tens of kilobytes.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple, TextIO

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from monitor.cli.console.view import ConsoleView
from monitor.cli.demo import run_demo
from monitor.cli.demo.embedded import start
from monitor.clock import Clock, SystemClock

WIDTH, HEIGHT = 96, 30
"""Columns and lines of the terminal."""

_CONTROL = re.compile(r"\x1b\[\?25[lh]|\x1b\[\d*[AKGJ]|\r")
_CELL, _LINE, _SIZE = 7.8, 17, 13  # per character, in pixels
_EDGE, _BAR = 14, 30
_HOLD = 5.0  # seconds for which the last picture is shown
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_LIGHTS = ("#e0605a", "#e0b04a", "#5fae5f")
_STILL = (
    "@media (prefers-reduced-motion:reduce)"
    "{g{animation:none!important}.gone{visibility:hidden}.end{visibility:visible}}"
)
"""For readers who prefer reduced motion: the last picture."""


class Picture(NamedTuple):
    """The content of a terminal from `at` on, in seconds since the first drawing."""

    at: float
    lines: tuple[Text, ...]


class _Terminal(io.StringIO):
    """Receives the output: each write that begins with a cursor movement is a whole picture."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.drawn: list[tuple[float, str]] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text.strip():
            self.drawn.append((self._clock.monotonic(), text))
        return len(text)


def record(seconds_after: float = 6.0, every: float = 5.0) -> list[Picture]:
    """Run the demo until some seconds after its alert is critical; return a picture every few seconds, and the last."""
    clock = SystemClock()
    terminal = _Terminal(clock)
    ends: list[float] = []

    def until(view: ConsoleView) -> bool:
        if not ends and any(one.severity == "critical" for one in view.alerts):
            ends.append(clock.monotonic() + seconds_after)
        return bool(ends) and clock.monotonic() >= ends[0]

    run_demo(start, until=until, console=console(terminal))
    return pictures(terminal.drawn, every)


def console(file: TextIO) -> Console:
    """Return the recorded terminal, whatever this process runs in."""
    environment = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    size = {"width": WIDTH, "height": HEIGHT}
    return Console(file=file, force_terminal=True, color_system="truecolor", _environ=environment, **size)  # type: ignore[arg-type]


def pictures(drawn: Sequence[tuple[float, str]], every: float) -> list[Picture]:
    """Choose from writes with their times a picture every few seconds, and the last.

    The first non-empty picture is at 0: a recording that begins with an empty terminal looks broken.
    """
    chosen: list[Picture] = []
    began, last = drawn[0][0], len(drawn) - 1
    for number, (at, text) in enumerate(drawn):
        if not chosen:
            began = at
        if number == last or not chosen or at - began - chosen[-1].at >= every:
            lines = tuple(AnsiDecoder().decode(_CONTROL.sub("", text).rstrip("\n")))
            if any(line.plain.strip() for line in lines) and (not chosen or lines != chosen[-1].lines):
                chosen.append(Picture(at - began, lines))
    return chosen


def animated(
    shown: Sequence[Picture], title: str, *, faster: float = 5.0, theme: TerminalTheme = DIMMED_MONOKAI
) -> str:
    """Draw pictures as an SVG that plays them `faster` than recorded, pauses on the last one, and repeats."""
    starts = [one.at / faster for one in shown]
    seconds = starts[-1] + _HOLD
    ends = [*starts[1:], seconds]
    looks = _Looks(theme)
    standing: dict[tuple[float, float], list[str]] = defaultdict(list)
    for row in range(max(len(one.lines) for one in shown)):
        for first, last, line in _runs(shown, row):
            standing[starts[first], ends[last]] += _drawn(line, row, looks)
    width, height = round(WIDTH * _CELL + 2 * _EDGE), HEIGHT * _LINE + _BAR + _EDGE
    rules, groups = [], []
    for number, ((begin, end), texts) in enumerate(sorted(standing.items())):
        name = f"p{number}"
        if end - begin < seconds:
            rules.append(_rule(name, begin / seconds, end / seconds, seconds))
        name += " end" if end == seconds else " gone"
        groups.append(f'<g class="{name}">{"".join(texts)}</g>')
    named = escape(title)
    lights = (f'<circle cx="{18 + 16 * n}" cy="16" r="5" fill="{colour}"/>' for n, colour in enumerate(_LIGHTS))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{named}">',
        f"<title>{named}</title>",
        "<style>",
        f"text{{font:{_SIZE}px {_FONTS};white-space:pre;fill:{theme.foreground_color.hex}}}",
        *looks.rules(),
        *rules,
        _STILL,
        "</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{theme.background_color.hex}"/>',
        *lights,
        *groups,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _runs(shown: Sequence[Picture], row: int) -> Iterator[tuple[int, int, Text]]:
    """Yield each line shown in `row`, with its first and last picture."""
    of_row = [one.lines[row] if row < len(one.lines) else Text() for one in shown]
    first = 0
    for number, line in enumerate(of_row):
        following = of_row[number + 1] if number + 1 < len(of_row) else None
        if following is None or following.markup != line.markup:
            if line.plain.strip():
                yield first, number, line
            first = number + 1


def _drawn(line: Text, row: int, looks: _Looks) -> Iterator[str]:
    """Yield the pieces of a line, each placed at its column: fonts differ in the width of frames and arrows."""
    y = _BAR + _LINE * row + _SIZE
    column = 0
    for text, style, _ in line.render(_PLAIN):
        for piece in re.split(r"( {2,})", text):
            if piece.strip():
                x = round(_EDGE + (column + len(piece) - len(piece.lstrip(" "))) * _CELL)
                yield f'<text x="{x}" y="{y}"{looks.of(style)}>{escape(piece.strip(" "), quote=False)}</text>'
            column += cell_len(piece)


_PLAIN = Console(width=WIDTH, color_system="truecolor", _environ={})


class _Looks:
    """Names for the styles of pieces: one rule each, because a recording repeats them a thousand times."""

    def __init__(self, theme: TerminalTheme) -> None:
        self._theme = theme
        self._names: dict[str, str] = {}

    def of(self, style: Style | None) -> str:
        """Return the attribute for the style of a piece."""
        rule = ""
        if style is not None:
            rule += "font-weight:700;" if style.bold else ""
            rule += "opacity:.65;" if style.dim else ""
            if style.color is not None and not style.color.is_default:
                rule += f"fill:{style.color.get_truecolor(self._theme).hex}"
        if not rule:
            return ""
        return f' class="{self._names.setdefault(rule, f"c{len(self._names)}")}"'

    def rules(self) -> Iterator[str]:
        """Yield the rules of all names."""
        return (f".{name}{{{rule}}}" for rule, name in self._names.items())


def _rule(name: str, begin: float, end: float, seconds: float) -> str:
    """Show the element `name` from one fraction of the whole time to another, 0 to 1."""
    steps = {0.0: "hidden", round(begin * 100, 2): "visible", round(end * 100, 2): "hidden"}
    if end < 1:
        steps[100.0] = "hidden"
    else:
        steps[100.0] = "visible"
    if begin == 0:
        steps[0.0] = "visible"
    frames = "".join(f"{at:g}%{{visibility:{how}}}" for at, how in sorted(steps.items()))
    return f".{name}{{animation:{name} {seconds:.1f}s step-end infinite}}@keyframes {name}{{{frames}}}"
