"""Recorded traffic: which requests there were, and which of them would reach the evaluators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.trial.run import of_row
from monitor.model.case import Case, ReadingStatus, Traffic
from monitor.operations.offline.files import CaseFiles
from monitor.operations.offline.live_rules import LiveRules
from monitor.operations.preview.request_log import LoggedTraffic, predict_from_log
from monitor.operations.progress import Report, ignore
from monitor.pipeline.ledger import RequestOutcome
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader

KEPT: Final = "kept"
"""The outcome of a request that reaches the evaluators."""

_MAX_RESULTS: Final = 5000  # the newest of the history: their texts are kept in memory
_NO_TEXTS: Final = "the history has no texts; `storage.texts: all` stores those of new requests"


@dataclass(slots=True)
class RecordedTraffic:
    """Requests by their outcome before any evaluator, and the cases that reach the evaluators.

    Each of `cases` has the number of requests that it represents; they are in the order of their answers. `span` is the
    time between the first and the last answer in seconds, 0 if it is not known.

    If there is a request log, `logged` says which requests are kept and selected; the cases are then only examples with
    texts from the history. `input_tokens` are those of past judge calls, by evaluator and case.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    cases: list[tuple[Case, float]] = field(default_factory=list)
    total: float = 0.0
    span: float = 0.0
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)
    logged: LoggedTraffic | None = None
    input_tokens: dict[str, dict[str, int]] = field(default_factory=dict)


def from_files(config: Config, paths: Sequence[Path], *, report: Report = ignore) -> RecordedTraffic:
    """Return the traces and rows in files, after head sampling and the rules of `traffic`.

    `report` gets messages about what cannot be read; `unreadable` counts it.
    """
    rules = LiveRules(config)
    recorded = CaseFiles(paths, config.extraction, report=report)
    done = RecordedTraffic()
    times = []
    for found in recorded.found():
        read = recorded.read(found)
        done.total += len(read.readings)
        times += [one.case.answered_at for one in read.readings]
        for admitted in rules.admit(read, found.request_id, found.trace_state):
            if isinstance(admitted, RequestOutcome):
                done.outcomes[str(admitted)] += 1
            elif admitted.status is not ReadingStatus.READY:
                done.outcomes[str(admitted.status)] += 1
            else:
                done.outcomes[KEPT] += 1
                done.cases.append((admitted.case, 1.0))
    done.unreadable = recorded.unreadable
    _finish(done, times)
    return done


def from_history(config: Config, since: float, now: float) -> RecordedTraffic:
    """Return the requests of the last `since` seconds: all that were received, if there is a request log.

    Without one: those that were evaluated, each weighted by the number of requests that it represents. Raises
    `ConfigError` if there is neither a request log nor a history with texts, or if they cannot be read.
    """
    logged = predict_from_log(config, since, now)
    path = config.storage.path / files.HISTORY
    if not path.exists() and logged is None:
        raise ConfigError(f"since: there is no history at {path}")
    try:
        found = HistoryReader(path).results(since=now - since, limit=_MAX_RESULTS) if path.exists() else []
    except MonitorError as error:
        raise ConfigError(f"since: {error}") from None
    done = _of_results(found)
    if logged is not None:
        done.logged, done.input_tokens = logged, _input_tokens(found)
        done.span, done.total, done.notes = logged.span, logged.received, logged.notes
        if not done.cases:
            done.notes.append(_NO_TEXTS)
    elif found and not done.cases:
        raise ConfigError(f"since: {_NO_TEXTS}")
    return done


def _of_results(found: Sequence[dict[str, Any]]) -> RecordedTraffic:
    traces: dict[str, tuple[dict[str, Any], float]] = {}
    for row in found:
        key, weight = str(row.get("request_id")), float(row.get("weight") or 1.0)
        before = traces.get(key)
        traces[key] = (before[0], min(before[1], weight)) if before else (row, weight)
    done = RecordedTraffic(
        notes=["the history has no requests that no evaluator selected; storage.request_log records all requests"]
    )
    if len(found) == _MAX_RESULTS:
        done.notes.append(f"only the newest {_MAX_RESULTS} results are used")
    times = []
    for row, weight in traces.values():
        case = of_row(row)
        if case is None:
            done.outcomes["without texts"] += 1
            continue
        traffic = next((one for one in Traffic if one == row.get("traffic")), Traffic.PRODUCTION)
        done.outcomes[KEPT] += 1
        done.total += weight
        done.cases.append((replace(case, traffic=traffic), weight))
        times.append(case.answered_at)
    _finish(done, times)
    return done


def _input_tokens(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the tokens sent for each case with exactly one verdict of a judge, by evaluator and case."""
    tokens: dict[str, dict[str, int]] = {}
    for row in found:
        judge = row.get("judge") or {}
        if row.get("second") or row.get("recheck"):
            continue  # the tokens are those of several prompts
        if judge.get("asked", judge.get("attempts")) and judge.get("input_tokens"):
            of_evaluator = tokens.setdefault(str(row.get("evaluator")), {})
            of_evaluator[str(row.get("request_id"))] = int(judge["input_tokens"])
    return tokens


def _finish(done: RecordedTraffic, times: Sequence[float]) -> None:
    known = [at for at in times if at > 0]
    done.span = max(known) - min(known) if known else 0.0
    done.cases.sort(key=lambda one: one[0].answered_at)
