"""Files of captured OTLP and of rows, read for the commands that look at what the monitor reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from monitor.cli import row_files
from monitor.errors import InvalidData
from monitor.model.case import Reading
from monitor.model.span import Part, Signal
from monitor.model.trace import Closed, Trace
from monitor.otlp import decode, wire

_JSON_SIGNALS: tuple[tuple[bytes, Signal], ...] = (
    (b'"resourceSpans"', "traces"),
    (b'"resource_spans"', "traces"),
    (b'"resourceLogs"', "logs"),
    (b'"resource_logs"', "logs"),
)


class _NotOTLP(Exception):  # noqa: N818 - no fault in itself: folders of captures hold other files too
    pass


class Found(NamedTuple):
    """Something in the files: a trace that is not yet read, or a row, which needs no more."""

    trace: Trace | None
    reading: Reading | None = None
    trace_state: str = ""
    """The tracestate of the trace's first span in the files, by which samplers before this one are known."""


class Files:
    """Files and folders (in name order). What cannot be read is written to `notes`; the rest is read all the same.

    `advance` is told of the bytes that were read.
    """

    def __init__(
        self, paths: Iterable[Path], notes: TextIO, advance: Callable[[int], object] = lambda _bytes: None
    ) -> None:
        self._paths = paths
        self._notes = notes
        self._advance = advance
        self.unreadable = 0
        """How many files and rows could not be read so far."""

    def found(self, read_trace: Callable[[Trace], Reading]) -> Iterator[Found]:
        """Rows in their order, then traces in the order in which they first arrive.

        `read_trace` reads the traces that rows carry with them.
        """
        traces: dict[bytes, list[Part]] = {}
        for path, named in _files(self._paths):
            try:
                if _is_of_rows(path, named=named):
                    yield from self._rows(path, read_trace)
                    continue
                for trace_id, part in _parts(path):
                    traces.setdefault(trace_id, []).append(part)
                self._advance(path.stat().st_size)
            except _NotOTLP as reason:
                self.unreadable += named
                self._notes.write(f"{path}: {'cannot be read' if named else 'skipped'}: {reason}\n")
            except (OSError, InvalidData) as error:
                self.unreadable += 1
                self._notes.write(f"{path}: cannot be read: {error}\n")
        for trace_id, parts in traces.items():
            span = next((part.encoded for part in parts if part.signal == "traces"), b"")
            yield Found(_decoded(trace_id, parts), trace_state=wire.trace_state_of(span) if span else "")

    def readings(self, read_trace: Callable[[Trace], Reading]) -> Iterator[Reading]:
        """As `found`, all read."""
        for one in self.found(read_trace):
            if one.reading is not None:
                yield one.reading
            elif one.trace is not None:
                yield read_trace(one.trace)

    def _rows(self, path: Path, read_trace: Callable[[Trace], Reading]) -> Iterator[Found]:
        for reading in row_files.readings(path, read_trace, self._advance):
            if isinstance(reading, InvalidData):
                self.unreadable += 1
                self._notes.write(f"{path}: {reading}\n")
            else:
                yield Found(None, reading)


def _decoded(trace_id: bytes, parts: list[Part]) -> Trace:
    return decode.decode(
        trace_id,
        parts,
        closed=Closed.ROOT_ENDED if any(part.is_root for part in parts) else Closed.IDLE,
        app=decode.service_name(parts[0].resource),
        source="file",
        probability=1.0,
        received_at=0.0,
    )


def _is_of_rows(path: Path, *, named: bool) -> bool:
    """Whether a file is read as rows. Raises `OSError`."""
    if path.suffix == row_files.LINES:
        return named or row_files.holds_rows(path)
    return path.suffix == ".json" and not _signals(path.read_bytes()) and row_files.holds_rows(path)


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file, and whether it was named itself rather than found in a folder."""
    for path in paths:
        if path.is_dir():
            yield from ((found, False) for found in sorted(path.iterdir()) if found.is_file())
        else:
            yield path, True


def _parts(path: Path) -> list[tuple[bytes, Part]]:
    """The parts in one capture. Raises `_NotOTLP`, `InvalidData` or `OSError`."""
    path.stat()  # a file that is not there has nothing wrong with its name
    if path.suffix == ".pb":
        signal: Signal = "logs" if path.name.endswith(".logs.pb") else "traces"
        return wire.offline_parts(signal, wire.split(path.read_bytes()))
    if path.suffix != ".json":
        raise _NotOTLP("captures end in .pb, .logs.pb or .json, rows in .jsonl")
    body = path.read_bytes()
    signals = _signals(body)
    if not signals:
        raise _NotOTLP("it has neither resourceSpans nor resourceLogs, nor is it a row")
    from monitor.otlp import json_mapping  # noqa: PLC0415 - only captures in JSON need it

    return wire.offline_parts(signals[0], wire.split(json_mapping.to_protobuf(signals[0], body)))


def _signals(body: bytes) -> list[Signal]:
    return [signal for mark, signal in _JSON_SIGNALS if mark in body]
