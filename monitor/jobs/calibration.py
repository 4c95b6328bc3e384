"""Human labels of the judges' results, exported by the monitor: from `rag-monitor calibrate --save` and from reviews.

The running monitor exports the sums by evaluator and version, and the rules correct rates by them. It exports only
those of the current versions: a version is an instrument, and labels of a different version say nothing about it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import anyio
import anyio.to_thread
from prometheus_client import Gauge
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import InvalidData
from monitor.stages import Runtime
from monitor.storage.files import write_whole
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import Metrics, samples

FILE: Final = "calibration.json"
"""Its name in the folder of `storage`."""

EVERY: Final = 60.0
"""Seconds between two reads of the file."""

_MOST_BYTES = 1024 * 1024

_Count = Annotated[int, Field(ge=0)]
_Sum = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Saved(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LabelCell(_Saved):
    """The labels with one verdict of the judge and one of people: number, sum of weights, sum of squared weights.

    Each verdict is either defect or good.
    """

    verdict: bool
    truth: bool
    labels: _Count
    weight: _Sum
    weight_squares: _Sum


class AuditedResults(_Saved):
    """All results with one verdict of the judge, labelled or not."""

    verdict: bool
    results: _Count
    weight: _Sum
    weight_squares: _Sum


class JudgeCalibration(_Saved):
    """The labels of one version of an evaluator.

    `audited` sums up the results from which the labelled ones were drawn at random; empty if they were not chosen at
    random.
    """

    evaluator: _Name
    version: _Name
    cells: Annotated[list[LabelCell], Field(max_length=4)]
    audited: Annotated[list[AuditedResults], Field(max_length=2)] = []


class Calibration(_Saved):
    """The whole file."""

    format: Literal[1] = 1
    judges: Annotated[list[JudgeCalibration], Field(max_length=1000)]


def save(calibration: Calibration, folder: Path) -> Path:
    """Write the file atomically into `folder`, which is created if missing. Raises `OSError`."""
    path = folder / FILE
    write_whole(path, calibration.model_dump_json(indent=1).encode())
    return path


def load(path: Path) -> Calibration:
    """Read a file. Raises `OSError`, and `InvalidData` if it was not written by `save`."""
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise InvalidData(f"is larger than {_MOST_BYTES} bytes")
    try:
        return Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidData(f"{place}: {first['msg']}" if place else first["msg"]) from None


def label_gauges(metrics: Metrics) -> tuple[Gauge, Gauge, Gauge]:
    """Return the gauges by cell: labels, weight, squared weights."""
    return metrics.calibration_labels, metrics.calibration_label_weight, metrics.calibration_label_weight_squares


def result_gauges(metrics: Metrics) -> tuple[Gauge, Gauge, Gauge]:
    """Return the gauges of the results that labels were drawn from: results, weight, squared weights."""
    return metrics.calibration_results, metrics.calibration_result_weight, metrics.calibration_result_weight_squares


def export(judges: Iterable[JudgeCalibration], metrics: Metrics) -> None:
    """Make the gauges show the labels of `judges` instead. Series that stay are never missing from a scrape."""
    cells, kinds = label_gauges(metrics), result_gauges(metrics)
    wanted: dict[Gauge, dict[tuple[str, ...], float]] = {gauge: {} for gauge in (*cells, *kinds)}
    for one in judges:
        for cell in one.cells:
            labels = (one.evaluator, one.version, _said(cell.verdict), _said(cell.truth))
            for gauge, value in zip(cells, (cell.labels, cell.weight, cell.weight_squares), strict=True):
                wanted[gauge][labels] = value
        for drawn in one.audited:
            labels_of_all = (one.evaluator, one.version, _said(drawn.verdict))
            for gauge, value in zip(kinds, (drawn.results, drawn.weight, drawn.weight_squares), strict=True):
                wanted[gauge][labels_of_all] = value
    for gauge, values in wanted.items():
        for names, value in values.items():
            gauge.labels(*names).set(value)
        for shown, _ in list(samples(gauge)):
            if (gone := tuple(shown.values())) not in values:
                gauge.remove(*gone)


class CalibrationGauges:
    """What the gauges show: for each version, the labels of the file or of the review, whichever are more."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._file: Sequence[JudgeCalibration] = ()
        self._reviewed: Mapping[str, JudgeCalibration] = {}

    def show_file(self, judges: Sequence[JudgeCalibration]) -> None:
        """Show the labels of the file, in place of an earlier file's."""
        self._file = judges
        self._show()

    def show_reviewed(self, judges: Iterable[JudgeCalibration]) -> None:
        """Show the labels of the review, in place of earlier ones of the same evaluators."""
        self._reviewed = {**self._reviewed, **{one.evaluator: one for one in judges}}
        self._show()

    def _show(self) -> None:
        found = {(one.evaluator, one.version): one for one in self._file}
        for one in self._reviewed.values():
            other = found.get((one.evaluator, one.version))
            if other is None or _number(one) >= _number(other):
                found[one.evaluator, one.version] = one
        export(found.values(), self._metrics)


def _number(one: JudgeCalibration) -> int:
    return sum(cell.labels for cell in one.cells)


def _said(defect: bool) -> str:
    return "defect" if defect else "good"


class _Look(NamedTuple):
    """The properties that distinguish a file from its predecessor."""

    inode: int
    changed: int
    size: int


async def watch(
    folder: Path, versions: Mapping[str, str], runtime: Runtime, gauges: CalibrationGauges, *, every: float = EVERY
) -> None:
    """Export the file in `folder`, at once and whenever it changes, until cancelled.

    Exports the version of each evaluator in `versions`. If the file cannot be read, reports an event and keeps what was
    exported; if it is gone, exports nothing. Never raises.
    """
    path, before = folder / FILE, None
    while True:
        found: _Look | OSError | None
        try:
            found = await anyio.to_thread.run_sync(_look, path)
        except OSError as error:
            found = error
        if str(found) != str(before):
            before = found
            await _take(path, found, versions, runtime, gauges)
        await anyio.sleep(every)


def _look(path: Path) -> _Look | None:
    """Look at the file; return None if it does not exist. Raises `OSError`."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError("not a regular file")
    return _Look(found.st_ino, found.st_mtime_ns, found.st_size)


async def _take(
    path: Path,
    found: _Look | OSError | None,
    versions: Mapping[str, str],
    runtime: Runtime,
    gauges: CalibrationGauges,
) -> None:
    if found is None:
        gauges.show_file(())
        runtime.events.info(
            Event.CALIBRATION_READ, "the labels file is gone: rates are no longer corrected", file=str(path)
        )
        return
    try:
        if isinstance(found, OSError):
            raise found
        calibration = await anyio.to_thread.run_sync(load, path)
    except (OSError, InvalidData) as error:
        message = "cannot read the labels file; the earlier labels stay in use"
        runtime.events.warning(Event.CALIBRATION_FAILED, message, file=str(path), error=str(error))
        return
    current = [one for one in calibration.judges if versions.get(one.evaluator) == one.version]
    gauges.show_file(current)
    runtime.events.info(
        Event.CALIBRATION_READ,
        "labels read; rates of these versions are corrected",
        evaluators=", ".join(sorted(one.evaluator for one in current)) or "none",
        of_other_versions=len(calibration.judges) - len(current),
    )
