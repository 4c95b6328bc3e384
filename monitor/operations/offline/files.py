"""Reads recorded requests from files: OTLP captures, and rows.

A capture is one export request: `.pb`, `.logs.pb` or `.json`. Rows come in `.jsonl`, `.csv` or `.tsv` files, or in one
`.json` document: a row, a list of rows, `{"data": [...]}` or an MLflow trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from monitor import registry
from monitor.errors import InvalidData
from monitor.extraction import compose, rows
from monitor.extraction.provenance import Provenance, explain
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Reading, TraceReading, app_name
from monitor.model.row import Row
from monitor.model.span import Part, RefusedParts, Signal
from monitor.model.trace import Closed, Trace
from monitor.operations.offline.row_files import LINES, TABLES, Advance, BadRow, FileNotes, FileRow, read_rows
from monitor.operations.progress import Report, ignore
from monitor.transport.otlp import decode, wire

_JSON_SIGNALS: Final[tuple[tuple[bytes, Signal], ...]] = (
    (b'"resourceSpans"', "traces"),
    (b'"resource_spans"', "traces"),
    (b'"resourceLogs"', "logs"),
    (b'"resource_logs"', "logs"),
)


class _NotOTLP(Exception):  # noqa: N818 - no fault in itself: folders of captures hold other files too
    pass


class FileEntry(NamedTuple):
    """One request in the files: a trace that has not been read yet, or the reading of a row."""

    request_id: str
    """The id of the trace, or of the row."""
    trace: Trace | None
    reading: TraceReading | None = None
    trace_state: str = ""
    """The tracestate of the trace's first span in the files. It names the probability of samplers upstream."""
    row: Row | None = None
    """The row that was read."""


class CaseFiles:
    """The requests in files and folders; a folder is read in name order, without its subfolders.

    Args:
        paths: the files and folders.
        settings: how traces are read. None: the defaults.
        report: gets messages about files and rows that cannot be read, and about fields of rows that are not read; the
            rest is still read.
        advance: called with the number of bytes read.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        settings: ExtractionSettings | None = None,
        *,
        report: Report = ignore,
        advance: Advance = lambda _bytes: None,
    ) -> None:
        self._paths = paths
        self._report = report
        self._advance = advance
        self.unreadable = 0
        """How many files and rows could not be read so far."""
        self._settings = settings = settings or ExtractionSettings()
        self.read_trace: Callable[[Trace], TraceReading] = partial(
            compose.read, conventions=registry.conventions(), settings=settings
        )

    def found(self) -> Iterator[FileEntry]:
        """Yield the rows in their order, then the traces in the order in which they first arrive."""
        traces: dict[bytes, list[Part]] = {}
        refused = Counter[bytes]()
        for path, named in _files(self._paths):
            try:
                if _holds_rows(path, named=named):
                    yield from self._rows(path)
                    continue
                for trace_id, part in _parts(path, refused):
                    traces.setdefault(trace_id, []).append(part)
                self._advance(path.stat().st_size)
            except _NotOTLP as reason:
                self.unreadable += named
                self._report(f"{path}: {'cannot be read' if named else 'skipped'}: {reason}")
            except (OSError, InvalidData) as error:
                self.unreadable += 1
                self._report(f"{path}: cannot be read: {error}")
        for trace_id, parts in traces.items():
            span = next((part.encoded for part in parts if part.signal == "traces"), b"")
            trace = _decoded(trace_id, parts, refused[trace_id])
            yield FileEntry(trace.trace_id, trace, trace_state=wire.trace_state_of(span) if span else "")

    def readings(self) -> Iterator[Reading]:
        """Yield the requests in the files, in order: a trace may contain several, and a row several turns."""
        return (reading for found in self.found() for reading in self.read(found).readings)

    def explanations(self) -> Iterator[Provenance]:
        """Yield for each request where its fields come from, and what was not used."""
        for found in self.found():
            if found.trace is not None:
                yield from explain(found.trace, registry.conventions(), self._settings)
            else:
                assert found.row is not None  # noqa: S101 - it is one of the two
                yield from rows.explain(found.row, lambda row: self._read_row(row).readings)

    def read(self, found: FileEntry) -> TraceReading:
        """Read an entry that `found` yielded."""
        if found.trace is not None:
            return self.read_trace(found.trace)
        assert found.reading is not None  # noqa: S101 - it is one of the two
        return found.reading

    def _read_row(self, row: Row) -> TraceReading:
        found = rows.read(row, self.read_trace, source="file", turns=self._settings.turns)
        return self._settings.with_prompt(found)

    def _rows(self, path: Path) -> Iterator[FileEntry]:
        notes = FileNotes(path, self._report)
        for one in read_rows(path, self._advance):
            if isinstance(one, BadRow):
                self.unreadable += 1
                notes.bad(one)
            else:
                notes.good(one.row)
                yield FileEntry(one.row.request_id, None, self._read_row(one.row), row=one.row)
        notes.end()


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield every file, and whether it was named directly rather than found in a folder."""
    for path in paths:
        if path.is_dir():
            yield from ((found, False) for found in sorted(path.iterdir()) if found.is_file())
        else:
            yield path, True


def _holds_rows(path: Path, *, named: bool) -> bool:
    """Return whether a file is read as rows; for a file found in a folder, its first row decides. Raises `OSError`."""
    if path.suffix not in (LINES, *TABLES) and (path.suffix != ".json" or _signals(path.read_bytes())):
        return False
    if named:
        return True
    try:
        return isinstance(next(read_rows(path), None), FileRow)
    except InvalidData:
        return False


def _parts(path: Path, refused: Counter[bytes]) -> list[tuple[bytes, Part]]:
    """Split one capture into the parts of its traces; count unreadable spans in `refused`, by trace.

    Raises `_NotOTLP`, `InvalidData` or `OSError`.
    """
    path.stat()  # report a missing file as missing, not as wrongly named
    if path.suffix == ".pb":
        signal: Signal = "logs" if path.name.endswith(".logs.pb") else "traces"
        return wire.offline_parts(signal, wire.split(path.read_bytes()), refused)
    if path.suffix != ".json":
        raise _NotOTLP("captures end in .pb, .logs.pb or .json, rows in .jsonl, .json, .csv or .tsv")
    body = path.read_bytes()
    signals = _signals(body)
    if not signals:
        raise _NotOTLP("it has neither resourceSpans nor resourceLogs, and it does not begin with a row")
    from monitor.transport.otlp import json_mapping  # noqa: PLC0415 - only captures in JSON need it

    return wire.offline_parts(signals[0], wire.split(json_mapping.to_protobuf(signals[0], body)), refused)


def _signals(body: bytes) -> list[Signal]:
    return [signal for mark, signal in _JSON_SIGNALS if mark in body]


def _decoded(trace_id: bytes, parts: list[Part], unreadable: int) -> Trace:
    return decode.decode(
        trace_id,
        parts,
        closed=Closed.ROOT_ENDED if any(part.is_root for part in parts) else Closed.IDLE,
        app=app_name(decode.service_name(parts[0].resource)),
        source="file",
        probability=1.0,
        received_at=0.0,
        refused=(RefusedParts("traces", wire.UNREADABLE, unreadable),) if unreadable else (),
    )
