"""Joining people's labels with results for `rag-monitor calibrate`, and what comes of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.outcome import Standing
from monitor.sinks.jsonl import JsonLines
from monitor.statistics.correction import (
    LABELS_NEEDED,
    Corrected,
    Label,
    Quality,
    by_difference,
    by_quality,
    quality,
)
from monitor.statistics.rates import Estimate, Sums, interval_95
from monitor.storage.history.reader import Reader


@dataclass(frozen=True, slots=True, order=True)
class Judge:
    """Who judged: verdicts of another version are those of another instrument, and never added up."""

    evaluator: str
    version: str


class _Result(NamedTuple):
    judge: Judge
    trace_id: str
    weight: float
    defect: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """The labels with one verdict of the judge and one of people, and the sums of their weights and of the squares."""

    verdict: bool
    truth: bool
    labels: int
    weight: float
    weight_squares: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the labels say of one judge: its quality, the rate that it shows, and that rate without its errors.

    `audited` sums up the results that the labelled ones were drawn from at random, where they were.
    """

    judge: Judge
    quality: Quality
    raw: Estimate
    corrected: Corrected | None
    method: str
    cells: tuple[Cell, ...]
    audited: Sums | None


@dataclass(slots=True)
class Calibrated:
    """What became of all labels."""

    judges: list[Calibration] = field(default_factory=list)
    labels: int = 0
    results: int = 0
    unmatched: int = 0
    disputed: int = 0
    troubles: list[str] = field(default_factory=list)


def configured(config: Config) -> list[Path]:
    """The files of the configured sinks `jsonl`, those that were renamed among them. Raises `ConfigError`."""
    found: list[Path] = []
    for sink in config.sinks:
        if isinstance(sink, JsonLines):
            older = (sink.path.with_name(f"{sink.path.name}.{number}") for number in range(1, sink.max_files + 1))
            found += [path for path in (sink.path, *older) if path.exists()]
    if not found:
        raise ConfigError("--results: name a file of results; no sink `jsonl` of the configuration has written one")
    return found


def run(labels: Path, files: Sequence[Path], *, audits: bool) -> Calibrated:
    """Join the labels with the results. Raises `ConfigError` for a file that cannot be read."""
    done = Calibrated()
    results = dict(_results(files, done.troubles))
    done.results = len(results)
    by_trace: dict[tuple[str, str], list[str]] = defaultdict(list)
    for id_, one in results.items():
        by_trace[one.trace_id, one.judge.evaluator].append(id_)

    told: dict[str, set[bool]] = defaultdict(set)
    for row in _labels(labels, done.troubles):
        done.labels += 1
        ids = [row["id"]] if row["id"] in results else by_trace.get((row["request_id"], row["evaluator"]), [])
        if row["id"] in results and row["evaluator"] not in ("", results[row["id"]].judge.evaluator):
            ids = []
        done.unmatched += not ids
        for id_ in ids:
            told[id_].add(row["defect"])
    done.disputed = sum(len(truths) > 1 for truths in told.values())

    raw: dict[Judge, Sums] = defaultdict(Sums)
    labelled: dict[Judge, list[Label]] = defaultdict(list)
    for id_, one in results.items():
        raw[one.judge] += Sums.of(one.weight, defect=one.defect)
        truths = told.get(id_, set())
        if len(truths) == 1:
            labelled[one.judge].append(Label(one.weight, one.defect, *truths))
    done.judges = [_calibration(judge, raw[judge], found, audits=audits) for judge, found in sorted(labelled.items())]
    return done


def _calibration(judge: Judge, raw: Sums, labels: Sequence[Label], *, audits: bool) -> Calibration:
    shown = interval_95(raw)
    assert shown is not None  # noqa: S101 - there is a result for every label
    found = quality(labels)
    corrected = by_difference(raw, labels) if audits else by_quality(raw, found)
    if corrected is not None:
        method = "difference on random audits" if audits else "sensitivity and specificity"
    elif audits:
        method = f"not corrected: {2 * LABELS_NEEDED} audits are needed"
    elif found.enough:
        method = "not corrected: no better than chance"
    else:
        method = f"not corrected: {LABELS_NEEDED} of each kind are needed"
    return Calibration(judge, found, shown, corrected, method, tuple(_cells(labels)), raw if audits else None)


def _cells(labels: Sequence[Label]) -> Iterator[Cell]:
    for verdict, truth in product((True, False), repeat=2):
        weights = [one.weight for one in labels if (one.verdict, one.truth) == (verdict, truth)]
        yield Cell(verdict, truth, len(weights), math.fsum(weights), math.fsum(one**2 for one in weights))


_NO_SAMPLE = (Standing.ASIDE, Standing.BACKFILL, Standing.DISLIKED)


def _results(files: Sequence[Path], troubles: list[str]) -> Iterator[tuple[str, _Result]]:
    """Results of production traffic with a verdict, by id; what was judged afterwards would count its time twice."""
    for row, place in _rows(files, "--results", troubles):
        if row.get("outcome") != "score" or row.get("standing") in _NO_SAMPLE:
            continue
        one = _result(row)
        if one is None or not isinstance(row.get("id"), str):
            troubles.append(f"{place}: is no result")
        else:
            yield row["id"], one


def _result(row: dict[str, Any]) -> _Result | None:
    evaluator, version, trace_id = row.get("evaluator"), row.get("version"), row.get("trace_id")
    weight, defect = row.get("weight"), row.get("defect")
    if not (isinstance(evaluator, str) and isinstance(version, str) and isinstance(trace_id, str)):
        return None
    if not (isinstance(weight, int | float) and 0 < weight < float("inf") and isinstance(defect, bool)):
        return None
    return _Result(Judge(evaluator, version), trace_id, float(weight), defect)


def _labels(path: Path, troubles: list[str]) -> Iterator[dict[str, Any]]:
    for row, place in _rows([path], "LABELS", troubles):
        if row.get("defect", ...) is None:
            continue  # room that nobody has filled in yet, as `rag-monitor export` leaves it
        label = {
            "id": row.get("id", ""),
            "request_id": row.get("request_id", row.get("trace_id", "")),
            "evaluator": row.get("evaluator", ""),
            "defect": row.get("defect"),
        }
        if not isinstance(label["defect"], bool):
            troubles.append(f"{place}: `defect` must be true or false, not {label['defect']!r:.40}")
        elif not all(isinstance(label[key], str) for key in ("id", "request_id", "evaluator")):
            troubles.append(f"{place}: `id`, `request_id` and `evaluator` must be texts")
        elif not label["id"] and not (label["request_id"] and label["evaluator"]):
            troubles.append(f"{place}: needs `id`, or `request_id` and `evaluator`")
        else:
            yield label


def _rows(files: Sequence[Path], option: str, troubles: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of some files, each with its place in words. A database is the history of a monitor."""
    for path in files:
        if path.suffix == ".db":
            yield from ((row, str(path)) for row in _history(path, option))
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
                        troubles.append(f"{place}: is no JSON object")
        except OSError as error:
            raise ConfigError(f"{option}: {path} cannot be read: {error.strerror}") from None


def _history(path: Path, option: str) -> list[dict[str, Any]]:
    try:
        return Reader(path).results(limit=-1)
    except MonitorError as error:
        raise ConfigError(f"{option}: {error}") from None
