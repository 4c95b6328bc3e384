"""Recorded traffic for `rag-monitor preview`: which requests there were, and which of them would be evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio

from monitor.cli.trailed import Trailed, of_trails
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Case, Traffic
from monitor.operations.offline.files import CaseFiles
from monitor.pipeline.ledger import Fate
from monitor.pipeline.traffic import TrafficRules
from monitor.sinks.history import History
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.trying.kept import of_row

_MOST = 5000
"""Results of the history that are looked at, the newest: their texts are held in memory."""


@dataclass(slots=True)
class Recorded:
    """Requests by what becomes of them before any evaluator, and the cases that go to the evaluators.

    `cases` come with the number of requests that each stands for, in the order of their answers. `span` is the time
    between the first and the last answer in seconds, 0 where it is not known.

    With `trailed` that answers who would be kept and chosen, and the cases, those whose texts the history has, serve
    as examples. `spent` are the tokens that prompts took, by evaluator and case, as the history has it.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    cases: list[tuple[Case, float]] = field(default_factory=list)
    total: float = 0.0
    span: float = 0.0
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)
    trailed: Trailed | None = None
    spent: dict[str, dict[str, int]] = field(default_factory=dict)


def of_files(config: Config, paths: Sequence[Path], notes: TextIO) -> Recorded:
    """Every trace and row of files, through head sampling and the rules of `traffic`, as the pipeline does it."""
    rules = TrafficRules(config.traffic, config.sampling.salt, Runtime.standalone())
    files = CaseFiles(paths, config.extraction, report=lambda message: notes.write(f"{message}\n"))
    done = Recorded()
    times = []
    for found in files.found():
        reading = files.read(found)
        done.total += 1
        times.append(reading.case.answered_at)
        rate = config.sampling.traces
        kept, probability = consistent_sampling.keep(
            consistent_sampling.sampling_id(reading.case.request_id), found.trace_state, rate
        )
        sorted_ = rules.sort(replace(reading, case=replace(reading.case, probability=probability))) if kept else None
        if sorted_ is None or isinstance(sorted_, Fate):
            done.outcomes[str(sorted_ or Fate.SAMPLED_OUT)] += 1
        elif not sorted_.status.judgeable:
            done.outcomes[str(sorted_.status)] += 1
        else:
            done.outcomes["kept"] += 1
            done.cases.append((sorted_.case, 1.0))
    done.unreadable = files.unreadable
    _finish(done, times)
    return done


def of_history(config: Config, since: float, now: float) -> Recorded:
    """The requests of the last `since` seconds: all that have come, where a monitor has kept trails.

    Without trails those that it has judged, each for as many as it stands for. Raises `ConfigError` where there are
    neither trails nor a history with texts, or where they cannot be read.
    """
    trailed = of_trails(config, since, now)
    path = config.storage.path / files.HISTORY
    if not path.exists() and trailed is None:
        raise ConfigError(f"--since: there is no history at {path}")
    try:
        found = anyio.run(partial(History(path=path).results, since=now - since, limit=_MOST)) if path.exists() else []
    except MonitorError as error:
        raise ConfigError(f"--since: {error}") from None
    done = _of_results(found)
    if trailed is not None:
        done.trailed, done.spent, done.span, done.total = trailed, _spent(found), trailed.span, trailed.came
        done.notes = trailed.notes
        if not done.cases:
            done.notes.append("the history has no texts: they are kept, from then on, by storage.texts: all")
    elif found and not done.cases:
        raise ConfigError("--since: the history has no texts: they are kept, from then on, by storage.texts: all")
    return done


def _of_results(found: Sequence[dict[str, Any]]) -> Recorded:
    traces: dict[str, tuple[dict[str, Any], float]] = {}
    for row in found:
        key, weight = str(row.get("trace_id")), float(row.get("weight") or 1.0)
        before = traces.get(key)
        traces[key] = (before[0], min(before[1], weight)) if before else (row, weight)
    unknown = (
        "of requests that no evaluator had chosen the history knows nothing: storage.request_log keeps what became of "
        "all"
    )
    done = Recorded(notes=[unknown])
    if len(found) == _MOST:
        done.notes.append(f"only the newest {_MOST} results were looked at")
    times = []
    for row, weight in traces.values():
        case = of_row(row)
        if case is None:
            done.outcomes["without texts"] += 1
            continue
        traffic = next((one for one in Traffic if one == row.get("traffic")), Traffic.PRODUCTION)
        done.outcomes["kept"] += 1
        done.total += weight
        done.cases.append((replace(case, traffic=traffic), weight))
        times.append(case.answered_at)
    _finish(done, times)
    return done


def _spent(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Of each case that a judge was really asked about, what it was sent, by evaluator and case."""
    spent: dict[str, dict[str, int]] = {}
    for row in found:
        judge = row.get("judge") or {}
        if judge.get("attempts") and judge.get("input_tokens"):
            of_evaluator = spent.setdefault(str(row.get("evaluator")), {})
            of_evaluator[str(row.get("trace_id"))] = int(judge["input_tokens"])
    return spent


def _finish(done: Recorded, times: Sequence[float]) -> None:
    known = [at for at in times if at > 0]
    done.span = max(known) - min(known) if known else 0.0
    done.cases.sort(key=lambda one: one[0].answered_at)
