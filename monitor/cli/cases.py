"""`rag-monitor cases`: what the monitor reads from captured OTLP, one JSON object a trace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer

from monitor import compose, registry
from monitor.errors import InvalidData
from monitor.model.span import Part, Signal
from monitor.model.trace import Closed
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
        typer.Argument(metavar="PATH...", help="Files or folders of .pb, .logs.pb and .json captures."),
    ],
) -> None:
    """Print what is read from captured OTLP: one JSON object a trace, in the order in which the traces first arrive.

    A folder is read in name order. Exit status 1 when a file could not be read; the others are read all the same.
    """
    if print_cases(paths, sys.stdout):
        raise typer.Exit(1)


def print_cases(paths: Iterable[Path], out: TextIO, notes: TextIO | None = None) -> int:
    """Write a line for each trace in `paths` to `out`, and what was not read to `notes` (standard error by default).

    Returns how many files could not be read.
    """
    notes = notes if notes is not None else sys.stderr
    traces: dict[bytes, list[Part]] = {}
    unreadable = 0
    for path, named in _files(paths):
        try:
            for trace_id, part in _parts(path):
                traces.setdefault(trace_id, []).append(part)
        except _NotOTLP as reason:
            if named:
                unreadable += 1
            notes.write(f"{path}: {'cannot be read' if named else 'skipped'}: {reason}\n")
        except (OSError, InvalidData) as error:
            unreadable += 1
            notes.write(f"{path}: cannot be read: {error}\n")
    conventions = registry.conventions()
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
        out.write(json.dumps(compose.read(trace, conventions).as_row(), ensure_ascii=False) + "\n")
    return unreadable


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
        raise _NotOTLP("captures end in .pb, .logs.pb or .json")
    body = path.read_bytes()
    signals = [signal for mark, signal in _JSON_SIGNALS if mark in body]
    if not signals:
        raise _NotOTLP("it has neither resourceSpans nor resourceLogs")
    from monitor.otlp import json_mapping  # noqa: PLC0415 - only captures in JSON need it

    return wire.offline_parts(signals[0], wire.split(json_mapping.to_protobuf(signals[0], body)))
