"""Compares evaluators with people: joins labels with results, and corrects defect rates for the evaluator's errors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from prometheus_client import CollectorRegistry, write_to_textfile

from monitor.clock import SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs import calibration
from monitor.model.outcome import RateScope
from monitor.sinks.jsonl import JsonLines
from monitor.statistics.correction import (
    LABELS_NEEDED,
    ConfusionCell,
    CorrectedRate,
    JudgeQuality,
    LabelledResult,
    by_difference,
    by_quality,
    quality,
)
from monitor.statistics.rates import Estimate, Sums, estimate
from monitor.statistics.session_products import SessionMemory, session_key
from monitor.storage.history.reader import HistoryReader
from monitor.telemetry.metrics import Metrics

_NOT_IN_RATES = (RateScope.NON_PRODUCTION, RateScope.BACKFILL, RateScope.USER_DISLIKED, RateScope.RANKING)


class _Version(NamedTuple):
    """One version of an evaluator: a different version is a different instrument, so scores are never mixed."""

    evaluator: str
    version: str


class _Result(NamedTuple):
    by: _Version
    request_id: str
    weight: float
    defect: bool
    session: bytes | None


@dataclass(frozen=True, slots=True)
class EvaluatorCalibration:
    """What the labels say about one version of an evaluator.

    `raw` is the rate that it shows; `corrected` is the rate corrected for its errors, or None, and then `method` says
    why. `cells` sum up the labels. `audited` sums up the results from which the labels were drawn at random; None
    without audits.
    """

    evaluator: str
    version: str
    quality: JudgeQuality
    raw: Estimate
    corrected: CorrectedRate | None
    method: str
    cells: tuple[ConfusionCell, ...]
    audited: Sums | None


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The outcome for all labels.

    `labels` and `results` count what was read. `unmatched` labels belong to no result; `disputed` results have
    contradicting labels and are left out. `problems` describes lines that could not be read.
    """

    evaluators: tuple[EvaluatorCalibration, ...]
    labels: int
    results: int
    unmatched: int
    disputed: int
    problems: tuple[str, ...]


def calibrate(labels: Path, results: Sequence[Path], *, audits: bool = False) -> CalibrationReport:
    """Join people's labels with results, and measure each evaluator version by them.

    `labels` are JSON Lines, each with `defect` (true, false, or null: not labelled yet), and `id`, or `request_id` and
    `evaluator`. `results` are files of the sink `jsonl` or of `evaluate`, or the `history.db` of a monitor. `audits`:
    the labelled results were drawn at random from all of `results`. Raises `ConfigError` if a file cannot be read.
    """
    joined = _Joined()
    joined.add_results(results)
    joined.add_labels(labels)
    return joined.report(audits=audits)


def configured_results(config: Config) -> list[Path]:
    """List the files of the configured `jsonl` sinks, with rotated ones. Raises `ConfigError` if there are none."""
    found: list[Path] = []
    for sink in config.sinks:
        if isinstance(sink, JsonLines):
            older = (sink.path.with_name(f"{sink.path.name}.{number}") for number in range(1, sink.max_files + 1))
            found += [path for path in (sink.path, *older) if path.exists()]
    if not found:
        raise ConfigError("results: name a file of results; no configured sink `jsonl` has written one")
    return found


def write_metrics(report: CalibrationReport, path: Path) -> None:
    """Write the sums of the labels in the text format of Prometheus, atomically. Raises `ConfigError`."""
    metrics, registry = Metrics(), CollectorRegistry()
    calibration.export(_saved(report.evaluators), metrics)
    for gauge in (*calibration.label_gauges(metrics), *calibration.result_gauges(metrics)):
        registry.register(gauge)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise ConfigError(f"metrics: cannot write {path}: {error.strerror}") from None


def save(report: CalibrationReport, folder: Path) -> None:
    """Save the sums of the labels for the monitor with the storage folder `folder`. Raises `ConfigError`."""
    try:
        calibration.save(calibration.Calibration(judges=_saved(report.evaluators)), folder)
    except OSError as error:
        raise ConfigError(f"save: cannot write {folder / calibration.FILE}: {error.strerror}") from None


@dataclass(slots=True)
class _Joined:
    results: dict[str, _Result] = field(default_factory=dict)
    truths: dict[str, set[bool]] = field(default_factory=lambda: defaultdict(set))
    labels: int = 0
    unmatched: int = 0
    problems: list[str] = field(default_factory=list)

    def add_results(self, files: Sequence[Path]) -> None:
        """Keep the scored results of production traffic by id; backfilled ones would count their period twice."""
        for row, place in _rows(files, "results", self.problems):
            if row.get("outcome") != "score" or row.get("scope") in _NOT_IN_RATES:
                continue
            one = _result(row)
            if one is None or not isinstance(row.get("id"), str):
                self.problems.append(f"{place}: not a result")
            else:
                self.results[row["id"]] = one

    def add_labels(self, path: Path) -> None:
        """Find the results of each label: one by its id, or all results of an evaluator for a request."""
        by_trace: dict[tuple[str, str], list[str]] = defaultdict(list)
        for id_, one in self.results.items():
            by_trace[one.request_id, one.by.evaluator].append(id_)
        for row in _labels(path, self.problems):
            self.labels += 1
            ids = [row["id"]] if row["id"] in self.results else by_trace.get((row["request_id"], row["evaluator"]), [])
            if row["id"] in self.results and row["evaluator"] not in ("", self.results[row["id"]].by.evaluator):
                ids = []
            self.unmatched += not ids
            for id_ in ids:
                self.truths[id_].add(row["defect"])

    def report(self, *, audits: bool) -> CalibrationReport:
        """Sum up by version."""
        raw: dict[_Version, Sums] = defaultdict(Sums)
        memory = SessionMemory(SystemClock())
        labelled: dict[_Version, list[LabelledResult]] = defaultdict(list)
        for id_, one in self.results.items():
            products = memory.add(one.session, one.by, one.weight, defect=one.defect) if one.session else None
            raw[one.by] += Sums.of(one.weight, defect=one.defect, products=products)
            truths = self.truths.get(id_, set())
            if len(truths) == 1:
                labelled[one.by].append(LabelledResult(one.weight, one.defect, *truths))
        return CalibrationReport(
            evaluators=tuple(_calibration(by, raw[by], found, audits=audits) for by, found in sorted(labelled.items())),
            labels=self.labels,
            results=len(self.results),
            unmatched=self.unmatched,
            disputed=sum(len(truths) > 1 for truths in self.truths.values()),
            problems=tuple(self.problems),
        )


def _calibration(by: _Version, raw: Sums, labels: Sequence[LabelledResult], *, audits: bool) -> EvaluatorCalibration:
    shown = estimate(raw)
    assert shown is not None  # noqa: S101 - there is a result for every label
    found = quality(labels)
    if audits:  # audits are drawn by answer, and saved without sessions
        raw = replace(raw, defect_products=0.0, every_products=0.0, both_products=0.0)
    corrected = by_difference(raw, labels) if audits else by_quality(raw, found)
    if corrected is not None:
        method = "difference on random audits" if audits else "sensitivity and specificity"
    elif audits:
        method = f"not corrected: needs {2 * LABELS_NEEDED} audits"
    elif found.enough:
        method = "not corrected: no better than chance"
    else:
        method = f"not corrected: needs {LABELS_NEEDED} labels of each kind"
    cells = tuple(_cells(labels))
    return EvaluatorCalibration(
        by.evaluator, by.version, found, shown, corrected, method, cells, raw if audits else None
    )


def _cells(labels: Sequence[LabelledResult]) -> Iterator[ConfusionCell]:
    for verdict, truth in product((True, False), repeat=2):
        weights = [one.weight for one in labels if (one.verdict, one.truth) == (verdict, truth)]
        yield ConfusionCell(verdict, truth, len(weights), math.fsum(weights), math.fsum(one**2 for one in weights))


def _result(row: Mapping[str, Any]) -> _Result | None:
    evaluator, version, request_id = row.get("evaluator"), row.get("version"), row.get("request_id")
    weight, defect = row.get("weight"), row.get("defect")
    if not (isinstance(evaluator, str) and isinstance(version, str) and isinstance(request_id, str)):
        return None
    if not (isinstance(weight, int | float) and 0 < weight < float("inf") and isinstance(defect, bool)):
        return None
    named = ((kind, row.get(f"{kind}_id")) for kind in ("session", "user"))
    kind, name = next(((kind, name) for kind, name in named if isinstance(name, str) and name), ("", ""))
    session = session_key(str(row.get("app")), kind, name) if name else None
    return _Result(_Version(evaluator, version), request_id, float(weight), defect, session)


def _labels(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    for row, place in _rows([path], "labels", problems):
        if row.get("defect", ...) is None:
            continue  # not labelled yet, as `export` leaves it
        label = {
            "id": row.get("id", ""),
            "request_id": row.get("request_id", row.get("trace_id", "")),
            "evaluator": row.get("evaluator", ""),
            "defect": row.get("defect"),
        }
        if not isinstance(label["defect"], bool):
            problems.append(f"{place}: `defect` must be true or false, not {label['defect']!r:.40}")
        elif not all(isinstance(label[key], str) for key in ("id", "request_id", "evaluator")):
            problems.append(f"{place}: `id`, `request_id` and `evaluator` must be strings")
        elif not label["id"] and not (label["request_id"] and label["evaluator"]):
            problems.append(f"{place}: needs `id`, or `request_id` and `evaluator`")
        else:
            yield label


def _rows(files: Sequence[Path], parameter: str, problems: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects of some files, each with its place for messages. A `.db` file is the history of a monitor."""
    for path in files:
        if path.suffix == ".db":
            try:
                reader = HistoryReader(path)
                users = reader.users_since(0.0)
                found = reader.results(limit=-1)
                yield from (({"user_id": users.get(row["request_id"])} | row, str(path)) for row in found)
            except MonitorError as error:
                raise ConfigError(f"{parameter}: {error}") from None
            continue
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    place = f"{path}: line {number}"
                    try:
                        row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
                    except orjson.JSONDecodeError:
                        row = None
                    if isinstance(row, dict):
                        yield row, place
                    else:
                        problems.append(f"{place}: not a JSON object")
        except OSError as error:
            raise ConfigError(f"{parameter}: cannot read {path}: {error.strerror}") from None


def _saved(evaluators: Iterable[EvaluatorCalibration]) -> list[calibration.JudgeCalibration]:
    return [
        calibration.JudgeCalibration(
            evaluator=one.evaluator,
            version=one.version,
            cells=[calibration.LabelCell(**cell._asdict()) for cell in one.cells],
            audited=list(_audited(one.audited)) if one.audited is not None else [],
        )
        for one in evaluators
    ]


def _audited(raw: Sums) -> Iterator[calibration.AuditedResults]:
    good = max(raw.weight - raw.defect_weight, 0.0)
    for defect, results, weight, squares in (
        (True, raw.defects, raw.defect_weight, raw.defect_weight_squares),
        (False, raw.judged - raw.defects, good, raw.good_weight_squares),
    ):
        yield calibration.AuditedResults(verdict=defect, results=results, weight=weight, weight_squares=squares)
