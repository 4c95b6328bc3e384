"""A small example of a state folder, made by the product's own code, and the content that the product reads from it.

    python -m tests.support.databases

writes the example of the current version to `tests/data/databases/VERSION`, gzipped, with the content read from it. Run
it before a release: later versions are tested with it, and the folders of released versions stay unchanged.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from monitor import __version__
from monitor.cli.demo import feeder
from monitor.clock import ManualClock
from monitor.jobs import calibration
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.store import BackfillQueue
from monitor.jobs.canary import run as canary
from monitor.model.canary import CanaryRun
from monitor.model.case import Case
from monitor.model.incident import Incident, IncidentAnswer, IncidentNote
from monitor.model.outcome import EvaluationResult
from monitor.model.request_log import RequestStep
from monitor.model.severe import SevereCase
from monitor.sinks.history import HistorySink
from monitor.stages import Runtime
from monitor.statistics.reference import Reference, Tally
from monitor.storage import files
from monitor.storage import folder as state_folder
from monitor.storage.incidents import IncidentFile, IncidentReader
from monitor.storage.labels import LabelStore
from monitor.storage.request_log import RequestLogReader, recording
from monitor.storage.severe_cases import SevereCaseFile
from monitor.storage.spool import retained
from monitor.storage.spool.table import encode
from monitor.storage.sqlite import DamagedFile
from monitor.storage.state_file import open_state
from tests.support.labels import label
from tests.support.results import judged, request_record
from tests.support.runtime import runtime
from tests.support.spool import SpoolFile

EXAMPLES: Final = Path(__file__).parents[1] / "data" / "databases"
NUMBER: Final = 40
CANARY: Final = "canary.json"
_DAY: Final = 86_400.0


def fill(folder: Path, number: int = NUMBER) -> None:
    """Write at least `number` rows of each kind to the files in `folder`, and close them."""
    asyncio.run(_fill(folder, number))
    _keep_references(folder)
    state_folder.mark(folder)


async def _fill(folder: Path, number: int) -> None:
    lent = runtime()
    now = lent.clock.now()
    spool = SpoolFile(folder / files.SPOOL, lent.clock)
    async with spool.open() as open_one:
        for n in range(number):
            await open_one.append(spool.record(b"delivery %d " % n * 20))
        await open_one.append(spool.record(_trace(), meta=b'{"rate": 1.0}'))
        open_one.remember(f"result {n}" for n in range(number))
        open_one.draws.keep_draw("case", 0.25, 0.5)
    kept = _retained(folder, lent)
    kept.take([encode(n, spool.record(b"delivery %d " % n * 20)) for n in range(1, number + 1)])
    kept.close()
    async with HistorySink(path=folder / files.HISTORY, texts="all").open(lent) as deliver:
        for n in range(number):
            await deliver([_result(n, now)])
    limits: dict[str, Any] = {"retention": _DAY, "sums_retention": _DAY, "at_most": 10**8}
    async with recording(folder / files.REQUEST_LOG, lent, **limits) as recorder:
        for n in range(number):
            recorder.keep(request_record(n, now, detail="as it was"))
            recorder.count(RequestStep("shop", "otlp_http", f"evaluator {n}", "scored"))
    severe = SevereCaseFile(folder / files.SEVERE_CASES, _DAY, lent)
    for n in range(number):
        severe.add(SevereCase("shop", "violence", now, f"{n:032x}"))
    severe.close()
    _keep_incidents(folder, number, now)
    labels = LabelStore(folder / files.LABELS, lent.clock)
    for n in range(number):
        labels.put(label(n, result_id=_result(n, now).id))
    labels.close()
    queue = _queue(folder)
    queue.ask([_item(n) for n in range(number)], batch="example", now=now)
    queue.close()
    async with open_state(folder / files.STATE, clock=lent.clock, metrics=lent.metrics, events=lent.events) as state:
        for n in range(number):
            state.follow(f"budget of {n}", lambda n=n: {"dollars_per_day": [n, n / 2]})


def _result(number: int, now: float) -> EvaluationResult:
    found = judged(number, value=float(number % 5 + 1), defect=number % 5 == 0, evaluated_at=now + number)
    return replace(found, case=replace(found.case, response=f"It is two years, says page {number}."))


def _trace() -> bytes:
    """Return a delivery that a monitor can read and score, among others that it cannot."""
    return feeder.load()[feeder.STEADY].supported[0].SerializeToString(deterministic=True)


def _shown(payload: bytes) -> str:
    return payload.decode() if payload.isascii() else sha256(payload).hexdigest()


async def _spooled(folder: Path) -> dict[str, Any]:
    async with SpoolFile(folder / files.SPOOL, ManualClock()).open(keep=1e12) as spool:
        found = [_shown(one.record.payload) async for one in spool.replay()]
        return {
            "deliveries": found,
            "remembered": [n for n in range(NUMBER) if spool.remembered(f"result {n}")],
            "draw": spool.draws.drawn("case"),
        }


async def _results(folder: Path) -> dict[str, Any]:
    history = HistorySink(path=folder / files.HISTORY, texts="all", retention="10000d", sums_retention="10000d")
    async with history.open(runtime()):
        return {
            "results": sorted(f"{row['trace_id']} {row['score']}" for row in await history.results(limit=1000)),
            "sums": sorted([row.at, row.app, row.judged, row.weight] for row in await history.sums_since(0)),
            "versions": len(await history.generations()),
        }


def _logged(folder: Path) -> dict[str, Any]:
    reader = RequestLogReader(folder / files.REQUEST_LOG)
    sums = reader.sums(0, 1e12)
    return {
        "requests": sorted(one.request_id for one in reader.between(0, 1e12, 1000)),
        "steps": sorted(f"{one.step.evaluator} {one.number}" for one in sums),
    }


def _severe(folder: Path) -> list[SevereCase]:
    return SevereCaseFile(folder / files.SEVERE_CASES, _DAY, runtime()).load()


def _waiting(folder: Path) -> list[str]:
    queue = _queue(folder)
    found = queue.next(1000, up_to=10**9, among=("relevance",))
    queue.close()
    return sorted(one.request_id for those in found for one in those)


async def _state(folder: Path) -> dict[str, Any]:
    lent = runtime()
    async with open_state(folder / files.STATE, clock=lent.clock, metrics=lent.metrics, events=lent.events) as state:
        return {str(n): state.load(f"budget of {n}") for n in range(NUMBER)}


def _keep_incidents(folder: Path, number: int, now: float) -> None:
    file = IncidentFile(folder / files.INCIDENTS, ManualClock())
    for n in range(number):
        name = f"20260301-{n:08x}"
        one = Incident(
            id=name,
            app="shop",
            evaluator="groundedness",
            defect_rule="",
            version="1",
            fired=now + n,
            checked=now + n,
            severity="warning",
            worst="critical",
            alerts=(),
        )
        file.save(one)
        file.keep_finding(name, "onset", {"at": now, "earliest": now - 60, "latest": now + 60})
        file.keep_answers(name, [IncidentAnswer(request_id=f"{n:032x}", at=now, score=1.0, level="poor")])
        file.note(name, IncidentNote(now, "user example", f"note {n}"))
    file.close()


def _incidents(folder: Path) -> dict[str, Any]:
    path = folder / files.INCIDENTS
    reader, file = IncidentReader(path), IncidentFile(path, ManualClock())
    file.load_open()
    try:
        found = [reader.find(one.incident.id) for one in reader.newest(limit=1000)]
    except DamagedFile:  # the monitor, which writes the file, repairs it
        assert file.repaired()
        found = [reader.find(one.incident.id) for one in reader.newest(limit=1000)]
    finally:
        file.close()
    # A note may be lost alone: damage costs rows, not incidents.
    return {
        one.incident.id: [one.began, len(one.answers), *(note.text for note in one.notes)]
        for one in found
        if one is not None
    }


def _labels(folder: Path) -> list[str]:
    store = LabelStore(folder / files.LABELS, ManualClock())
    try:
        return [one.request_id for one in store.find()]
    finally:
        store.close()


def _queue(folder: Path) -> BackfillQueue:
    return BackfillQueue(folder / files.BACKFILL, at_most=10**8, clock=ManualClock())


def _item(number: int) -> Item:
    case = Case(request_id=f"r{number}", app="shop", response="x", answered_at=1000.0 + number)
    return Item(case=case, evaluator="relevance", version="1", origin=BackfillOrigin.FILE)


def _retained(folder: Path, lent: Runtime) -> retained.Retained:
    options: dict[str, Any] = {"clock": lent.clock, "metrics": lent.metrics, "events": lent.events}
    return retained.Retained(folder / files.RETAINED, keep=1e9, at_most=10**8, **options)


def _keep_references(folder: Path) -> None:
    """Write the files that are not databases: the canary's references, and the sums of `calibrate --save`."""
    known = canary.CanaryState()
    known.last_run = ManualClock().now()
    one = known.of("groundedness", "some cases")
    one.reference = Reference(3, {"refund": Tally(3, 0), "label": Tally(1, 2)})
    verdicts: dict[str, Any] = {"same": 9, "stricter": 1, "milder": 0, "tolerance": 0.02}
    one.ran(CanaryRun(at=known.last_run, evaluator="groundedness", version="v1", **verdicts))
    canary.write(folder / CANARY, known)
    cells = [
        {"verdict": True, "truth": said, "labels": 8, "weight": 80, "weight_squares": 800} for said in (True, False)
    ]
    judges = [{"evaluator": "groundedness", "version": "v1", "cells": cells}]
    calibration.save(calibration.Calibration.model_validate({"judges": judges}), folder)


def _references(folder: Path) -> dict[str, Any]:
    known = canary.read(folder / CANARY)
    return {
        " ".join(name): [one.reference.runs, sorted(one.reference.cases), *(run.same for run in one.runs)]
        for name, one in known.items()
    }


READERS: Final[dict[str, Callable[[Path], Any]]] = {
    files.SPOOL: lambda folder: asyncio.run(_spooled(folder)),
    files.RETAINED: lambda folder: sorted(_shown(one.payload) for one in retained.read(folder / files.RETAINED, 0)),
    files.HISTORY: lambda folder: asyncio.run(_results(folder)),
    files.REQUEST_LOG: _logged,
    files.SEVERE_CASES: lambda folder: [one.request_id for one in _severe(folder)],
    files.INCIDENTS: _incidents,
    files.LABELS: _labels,
    files.BACKFILL: _waiting,
    files.STATE: lambda folder: asyncio.run(_state(folder)),
}
"""Functions that return what the product reads from each database, as JSON."""

ALL_READERS: Final[dict[str, Callable[[Path], Any]]] = {
    **READERS,
    CANARY: _references,
    calibration.FILE: lambda folder: calibration.load(folder / calibration.FILE).model_dump(mode="json"),
    state_folder.NAME: lambda folder: json.loads((folder / state_folder.NAME).read_text()),
}
"""The same for every file in the folder."""


def alone(path: Path) -> Any:
    """Read a copy of one file, without the other files of the folder."""
    with tempfile.TemporaryDirectory() as made:
        shutil.copy(path, made)
        return json.loads(json.dumps(ALL_READERS[path.name](Path(made))))


@contextmanager
def written(name: str, image: bytes) -> Iterator[Path]:
    """Make a database with this content, in a separate folder."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / name
        path.write_bytes(image)
        yield path


def unpacked(version: Path, folder: Path) -> dict[str, Any]:
    """Unpack the examples of a version into `folder`; return what was read from them when they were made, by file."""
    for packed in version.glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    found: dict[str, Any] = json.loads((version / "read.json").read_text())
    return found


def write() -> Path:
    """Write the examples of the current version in place of older ones; return their folder."""
    version = EXAMPLES / __version__
    shutil.rmtree(version, ignore_errors=True)
    version.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fill(folder)
        for name in ALL_READERS:
            (version / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), mtime=0))
        read = {name: alone(folder / name) for name in ALL_READERS}
        (version / "read.json").write_text(json.dumps(read, indent=1, sort_keys=True) + "\n")
    return version


if __name__ == "__main__":
    print(write())
