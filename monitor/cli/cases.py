"""`rag-monitor cases`: what the monitor reads from captured OTLP and from rows, one JSON object a trace or row."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from monitor import compose, registry
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


def cases(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files or folders of .pb, .logs.pb and .json captures; .jsonl files of rows, MLflow traces as .json.",
        ),
    ],
) -> None:
    """Print what is read from captured OTLP and from rows: one JSON object a trace or row.

    Rows come in their order, then traces in the order in which they first arrive. A folder is read in name order. Exit
    status 1 when a file or row could not be read; the others are read all the same.
    """
    if print_cases(paths, sys.stdout):
        raise typer.Exit(1)


def print_cases(paths: Iterable[Path], out: TextIO, notes: TextIO | None = None) -> int:
    """Write a line for each row and trace in `paths` to `out`, and what was not read to `notes` (default: stderr).

    Returns how many files and rows could not be read.
    """
    notes = notes if notes is not None else sys.stderr
    traces: dict[bytes, list[Part]] = {}
    read_trace = partial(compose.read, conventions=registry.conventions())
    unreadable = 0
    for path, named in _files(paths):
        try:
            if _is_of_rows(path, named=named):
                unreadable += _print_rows(path, read_trace, out, notes)
                continue
            for trace_id, part in _parts(path):
                traces.setdefault(trace_id, []).append(part)
        except _NotOTLP as reason:
            if named:
                unreadable += 1
            notes.write(f"{path}: {'cannot be read' if named else 'skipped'}: {reason}\n")
        except (OSError, InvalidData) as error:
            unreadable += 1
            notes.write(f"{path}: cannot be read: {error}\n")
    for trace_id, parts in traces.items():
        trace = decode.decode(
            trace_id,
            parts,
            closed=Closed.ROOT_ENDED if any(part.is_root for part in parts) else Closed.IDLE,
            app=decode.service_name(parts[0].resource),
            source="file",
            probability=1.0,
            received_at=0.0,
        )
        out.write(_line(read_trace(trace)))
    return unreadable


def _print_rows(path: Path, read_trace: Callable[[Trace], Reading], out: TextIO, notes: TextIO) -> int:
    """Write a line for each row of a file; returns how many could not be read, which are noted."""
    unreadable = 0
    for reading in row_files.readings(path, read_trace):
        if isinstance(reading, InvalidData):
            unreadable += 1
            notes.write(f"{path}: {reading}\n")
        else:
            out.write(_line(reading))
    return unreadable


def _line(reading: Reading) -> str:
    return json.dumps(reading.as_row(), ensure_ascii=False) + "\n"


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
