"""Rows with a label: answers that a person has called good or defective, in any shape of row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from monitor import registry
from monitor.errors import InvalidData
from monitor.extraction import compose, rows
from monitor.extraction.rows.delivery import parse
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import EVALUABLE, Case, Reading
from monitor.model.trace import Trace
from monitor.operations.offline.files import BYTE_ORDER_MARK, Advance
from monitor.operations.progress import Report


class LabelledCase(NamedTuple):
    """A case and its label. `group` names cases that belong together; a row that names none is a group by itself."""

    case: Case
    defective: bool
    group: str


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The labelled cases of a file. `unreadable` counts bad rows, `without_answer` those that cannot be scored."""

    cases: Sequence[LabelledCase]
    unreadable: int
    without_answer: int


def read_labelled(path: Path, settings: ExtractionSettings, *, report: Report, advance: Advance) -> LabelledFile:
    """Read every row of a file; `report` is told what is wrong with a row, `advance` how many bytes were read.

    Raises `OSError`.
    """
    read_trace = partial(compose.read, conventions=registry.conventions(), settings=settings)
    found: list[LabelledCase] = []
    unreadable = without_answer = 0
    for one in _rows(path, read_trace, advance):
        if isinstance(one, InvalidData):
            unreadable += 1
            report(f"{path}: {one}")
        elif _can_be_scored(one[0]):
            found.append(LabelledCase(one[0].case, *one[1:]))
        else:
            without_answer += 1
    return LabelledFile(found, unreadable, without_answer)


def sample(cases: Sequence[LabelledCase], limit: int | None) -> Sequence[LabelledCase]:
    """Choose at most `limit` cases by a hash of their ids, since files are often sorted; keep their order."""
    if limit is None or limit >= len(cases):
        return cases
    lowest = sorted(range(len(cases)), key=lambda at: _hash(cases[at].case.request_id))[:limit]
    return [cases[at] for at in sorted(lowest)]


def _rows(
    path: Path, read_trace: Callable[[Trace], Reading], advance: Advance
) -> Iterator[tuple[Reading, bool, str] | InvalidData]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            advance(len(line))
            if not line.strip():
                continue
            try:
                yield _row(line.removeprefix(BYTE_ORDER_MARK), read_trace)
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


def _can_be_scored(reading: Reading) -> bool:
    """Tell whether there is an answer, and every document's text; the question may be missing."""
    case = reading.case
    return reading.status in EVALUABLE or (
        not case.request.query and bool(case.response) and all(one.content for one in case.retrieved_context)
    )


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
