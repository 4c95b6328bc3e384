"""What commands write: texts that cannot control a terminal, lines, tables, JSON, files, messages."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import orjson
import typer

from monitor.errors import ConfigError, MonitorError
from monitor.judge.provider import Exchange
from monitor.pipeline.introspection.evaluator_status import PRECEDENCE, EvaluatorStatus, State

_PLAIN_WIDTH: Final = 100
_NARROWEST: Final = 10
_MARKUP: Final = re.compile(r"[\\`*_{}\[\]#|~]|^[-+>]|^\d+[.)]")
_CALL: Final = re.compile(r"@|#|:(?=//)|www(?=\.)", re.IGNORECASE)


def clean(text: str) -> str:
    """Replace everything that could control a terminal, character for character, so that offsets stay valid."""
    return text if text.isascii() and text.isprintable() else "".join(map(_harmless, text))


def _harmless(character: str) -> str:
    if character in "\n\r\t\v\f\u2028\u2029\x85":
        return " "
    # Control, invisible and direction-changing characters, lone surrogates, private use and unassigned code points; not
    # the joiner that Persian and Indic words need.
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") and character != "\u200c":
        return "\N{REPLACEMENT CHARACTER}"
    return character


def in_markdown(text: str) -> str:
    """Return a text on one line without Markdown markup, in which GitHub and other tools find no link or mention."""
    escaped = _MARKUP.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", clean(text).strip())
    return _CALL.sub("\\g<0>\u200b", escaped).replace("&", "&amp;").replace("<", "&lt;").replace("\u200b", "&#8203;")


def clock(seconds: float) -> str:
    """Write minutes and seconds: `12:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def echo_lines(lines: Iterable[str]) -> None:
    """Print each line as it arrives."""
    for line in lines:
        typer.echo(line)


def report(message: str) -> None:
    """Print a message to standard error: what was skipped, or could not be read."""
    typer.echo(message, err=True)


def echo_json(value: Any) -> None:
    """Print a JSON object, indented. A named tuple becomes an array, an unpaired surrogate a question mark."""
    try:
        written = orjson.dumps(value, default=list, option=orjson.OPT_INDENT_2)
    except orjson.JSONEncodeError:  # a name from a trace that is not UTF-8
        written = json.dumps(value, default=list, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    typer.echo(written.decode())


def unread_line(number: int) -> str:
    """Say how many lines of files of results could not be read."""
    return f"{number:,} lines are not results and were left out."


def report_unread(number: int) -> None:
    """Print to standard error how many lines of files could not be read, if there are any."""
    if number:
        report(unread_line(number))


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turn a failure to write the file of an option into a `ConfigError`."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option}: cannot write {path}: {error.strerror}") from None


@contextmanager
def exit_status_1() -> Iterator[None]:
    """Print a `MonitorError` and exit with status 1; a `ConfigError` passes through."""
    try:
        yield
    except ConfigError:
        raise
    except MonitorError as error:
        report(str(error))
        raise typer.Exit(1) from None


def prompt_lines(one: Exchange) -> Iterator[str]:
    """Yield the messages that were sent; only characters that could control a terminal are replaced."""
    for message in one.call.messages:
        yield f"[{message['role']}]"
        yield from clean_lines(message["content"])


def clean_lines(text: str) -> list[str]:
    """Split a text into lines, each harmless to a terminal."""
    return [clean(line) for line in text.split("\n")]


def trouble_lines(statuses: Mapping[str, EvaluatorStatus]) -> Iterator[str]:
    """Yield a line for each evaluator that needs attention, most severe first."""
    for state in PRECEDENCE:
        for name, one in sorted(statuses.items()):
            if one.state == state and state not in (State.OK, State.NEVER_RUN):
                words = " ".join(text for text in (one.why, one.remedy) if text)
                yield f"{name} is {state.replace('_', ' ')}{f': {words}' if words else ''}"


def align(rows: Sequence[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Yield a line for each row: the first `left` columns flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=False))
        yield "  ".join(text.ljust(width) if at < left else text.rjust(width) for at, (text, width) in cells).rstrip()


def line_width() -> int:
    """Return how many characters a line may have: the width of the terminal, or 100 if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH


def fit(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a table in lines of at most `width`. Columns that do not fit follow in a table below, after the first one.

    A first column wider than a third of the line is cut. A single column may still be too wide.
    """
    longest = max(width // 3, _NARROWEST)
    names = [row[0] if len(row[0]) <= longest else f"{row[0][: longest - 3]}..." for row in rows]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    if not columns:
        yield from names
    while columns:
        left, taken = width - max(map(len, names)), 0
        for column in columns:
            left -= 2 + max(map(len, column))
            if left < 0 and taken:
                break
            taken += 1
        yield from align(list(zip(names, *columns[:taken], strict=True)))
        columns = columns[taken:]
        if columns:
            yield ""


def wrap(name: str, items: Iterable[str], width: int, *, indent: int) -> Iterator[str]:
    """Yield `name`, then the items, two spaces apart, in lines of at most `width` that begin at column `indent`."""
    line, begun = name.ljust(indent), False
    for item in items:
        if begun and len(line) + 2 + len(item) > width:
            yield line
            line, begun = " " * indent, False
        line, begun = f"{line}{'  ' if begun else ''}{item}", True
    yield line


def without_empty(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Leave out the rows that have a dash in every column but the first."""
    return [row for row in rows if any(text != "-" for text in row[1:])]
