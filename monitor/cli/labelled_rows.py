"""Rows with a label: an answer that somebody has called good or defective, in any shape of row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from monitor import rows
from monitor.errors import InvalidData
from monitor.model.case import Case, Reading
from monitor.model.trace import Trace
from monitor.rows.delivery import parse


class LabelledCase(NamedTuple):
    """A case with its label, and the group of cases that it belongs to: by itself, unless the row names one."""

    case: Case
    defective: bool
    group: str


class Labels(NamedTuple):
    """The labelled cases of a file, how many rows could not be read, and of how many no answer could be judged."""

    cases: list[LabelledCase]
    unreadable: int
    without_answer: int


def read(
    path: Path,
    read_trace: Callable[[Trace], Reading],
    notes: TextIO,
    advance: Callable[[int], object] = lambda _bytes: None,
) -> Labels:
    """Every row of a file; what is wrong with one is written to `notes`. `advance` is told of the bytes that were read.

    Raises `OSError`.
    """
    found: list[LabelledCase] = []
    unreadable = without_answer = 0
    for one in _rows(path, read_trace, advance):
        if isinstance(one, InvalidData):
            unreadable += 1
            notes.write(f"{path}: {one}\n")
        elif _can_be_judged(one[0]):
            found.append(LabelledCase(one[0].case, *one[1:]))
        else:
            without_answer += 1
    return Labels(found, unreadable, without_answer)


def sample(cases: list[LabelledCase], limit: int | None) -> list[LabelledCase]:
    """At most `limit` of them, chosen by a hash of their ids, since files are often in some order. Keeps theirs."""
    if limit is None or limit >= len(cases):
        return cases
    lowest = sorted(range(len(cases)), key=lambda at: _hash(cases[at].case.request_id))[:limit]
    return [cases[at] for at in sorted(lowest)]


def _rows(
    path: Path, read_trace: Callable[[Trace], Reading], advance: Callable[[int], object]
) -> Iterator[tuple[Reading, bool, str] | InvalidData]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            advance(len(line))
            if not line.strip():
                continue
            try:
                yield _row(line.removeprefix(b"\xef\xbb\xbf"), read_trace)
            except InvalidData as error:
                yield InvalidData(f"line {number}: {error}")


def _row(line: bytes, read_trace: Callable[[Trace], Reading]) -> tuple[Reading, bool, str]:
    value = parse(line, "the row")
    row = rows.recognise(value)
    fields = value if isinstance(value, dict) else {}  # it is one: `recognise` takes nothing else
    label = fields.get("label")
    if label not in (0, 1):  # True and False are these, too
        raise InvalidData(f"`label` is {label!r:.40}, but must be 1 (defective) or 0 (good)")
    group = fields.get("group")
    named = f"group {group}" if isinstance(group, str | int) and group != "" else f"row {row.request_id}"
    return rows.read(row, read_trace, source="file"), bool(label), named


def _can_be_judged(reading: Reading) -> bool:
    """Whether there is an answer, and every document's text. A question is not asked for: the label needed none."""
    case = reading.case
    return reading.status.judgeable or (
        not case.request.query and bool(case.response) and all(one.content for one in case.retrieved_context)
    )


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
