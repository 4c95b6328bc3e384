"""Rows with a label: answers that a person called good or defective, in any row shape."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from monitor import registry
from monitor.errors import InvalidData
from monitor.extraction import compose, rows
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case, Reading, ReadingStatus
from monitor.model.row import Row
from monitor.operations.offline.row_files import Advance, BadRow, FileNotes, read_rows
from monitor.operations.progress import Report
from monitor.pipeline.metrics.sessions import session_of

_LABELS: Final = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0}


class LabelledCase(NamedTuple):
    """A case and its label. `group` identifies cases that belong together: as the row says, else by session or user."""

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
    """Read every row of a file; `report` gets messages about bad rows, `advance` the number of bytes read.

    A label is about the last answer of a conversation.

    Raises `OSError`.
    """
    read_trace = partial(compose.read, conventions=registry.conventions(), settings=settings)
    found: list[LabelledCase] = []
    without_answer = 0
    notes = FileNotes(path, report)
    try:
        for one in read_rows(path, advance):
            if isinstance(one, BadRow):
                notes.bad(one)
                continue
            try:
                defective, group = _label(one.row)
            except InvalidData as error:
                notes.bad(BadRow(one.place, str(error)))
                continue
            notes.good(one.row)
            reading = settings.with_prompt(rows.read(one.row, read_trace, source="file", turns="last")).last
            if _can_be_scored(reading):
                found.append(LabelledCase(reading.case, defective, group or _group(reading.case, one.row)))
            else:
                without_answer += 1
    except InvalidData as error:
        notes.bad(BadRow("", f"cannot be read: {error}"))
    notes.end()
    return LabelledFile(found, notes.bad_rows, without_answer)


def sample(cases: Sequence[LabelledCase], limit: int | None) -> Sequence[LabelledCase]:
    """Choose at most `limit` cases by a hash of their ids, because files are often sorted; keep their order."""
    if limit is None or limit >= len(cases):
        return cases
    lowest = sorted(range(len(cases)), key=lambda at: hashed(cases[at].case.request_id))[:limit]
    return [cases[at] for at in sorted(lowest)]


def in_first_half(group: str) -> bool:
    """Return whether a group is in the first of two halves, by a hash: the same every time."""
    return hashed(f"half of {group}")[0] % 2 == 0


def _label(row: Row) -> tuple[bool, str]:
    """Return the label of a row, and its group, empty if it names none. Raises `InvalidData`."""
    fields = orjson.loads(row.content)
    label = fields.get("label")
    if isinstance(label, str):  # as in tables
        label = _LABELS.get(label.strip().lower())
    if label not in (0, 1):  # True and False equal these
        raise InvalidData(f"`label` is {fields.get('label')!r:.40}, but must be 1 (defective) or 0 (good)")
    group = fields.get("group")
    return bool(label), f"group {group}" if isinstance(group, str | int) and group != "" else ""


def _group(case: Case, row: Row) -> str:
    session = session_of(case.app, case)
    return f"session {session.hex()}" if session is not None else f"row {row.request_id}"


def _can_be_scored(reading: Reading) -> bool:
    """Return whether there is an answer, and the text of every document; the question may be missing."""
    case = reading.case
    return reading.status is ReadingStatus.READY or (
        not case.request.query and bool(case.response) and all(one.content for one in case.retrieved_context)
    )


def hashed(text: str) -> bytes:
    """Return a hash of a text, used for an arbitrary but reproducible order."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
