"""Scoring files for `rag-monitor evaluate`: read, score until done or interrupted, sum up."""

from __future__ import annotations

import signal
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson

from monitor import compose, registry
from monitor.cli import offline
from monitor.cli.captures import Files
from monitor.cli.console.progress import Bars
from monitor.cli.console.table import align, without_empty
from monitor.cli.console.text import dollars, percent, timing
from monitor.cli.results_file import Results, Row, appending, resume
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.model.case import Case, Status
from monitor.model.outcome import Judged, Score
from monitor.operations.event_loop import run_async
from monitor.pipeline.assignment import Assignment
from monitor.statistics.quality import difference as differences
from monitor.statistics.rates import Z_95, Sums, interval_95

_TWO = 2


@dataclass(slots=True)
class Scored:
    """What became of the files: cases by status, results, and why it ended early, if it did."""

    statuses: Counter[Status] = field(default_factory=Counter)
    repeated: int = 0
    unreadable: int = 0
    results: Results = field(default_factory=Results)
    paid: float = 0.0
    interrupted: bool = False
    failure: str = ""

    @property
    def cut_short(self) -> bool:
        """Whether it ended before all was scored."""
        return self.interrupted or bool(self.failure)

    def of(self, evaluator: str) -> list[Row]:
        """The results of one evaluator."""
        return [row for row in self.results.found.values() if row["evaluator"] == evaluator]

    def sums(self, one: Assignment) -> Sums:
        """An evaluator's verdicts, by its rule of today. Nothing is sampled, so all weigh the same."""
        judged = [row for row in self.of(one.evaluator.name) if row["outcome"] == "score"]
        defects = sum(one.defect.matches(Score(row["score"], "", row["label"] or "")) for row in judged)
        return Sums(len(judged), defects, len(judged), defects, defects, len(judged) - defects)


def run(
    config: Config, assignments: Sequence[Assignment], paths: Sequence[Path], output: Path | None, *, again: bool
) -> Scored:
    """Score every case in `paths` that is not in `output` yet. Ctrl-C and SIGTERM end it early, between results."""
    done = Scored(results=Results(resume(output, again=again) if output else ()))
    cases: dict[tuple[str, str], Case] = {}
    with Bars().reading(paths) as advance:
        files = Files(paths, sys.stderr, advance)
        read = partial(compose.read, conventions=registry.conventions(), settings=config.extraction)
        for reading in files.readings(read):
            done.statuses[reading.status] += 1
            if reading.status.judgeable:
                key = (reading.case.request_id, reading.case.span_id)
                done.repeated += key in cases
                cases.setdefault(key, reading.case)
    done.unreadable = files.unreadable
    run_async(partial(_score, config, assignments, list(cases.values()), output, done))
    return done


async def _score(
    config: Config, assignments: Sequence[Assignment], cases: Sequence[Case], output: Path | None, done: Scored
) -> None:
    runtime = offline.runtime()
    async with anyio.create_task_group() as tasks:
        scope = tasks.cancel_scope
        tasks.start_soon(_stop_on_signal, scope, done)
        with Bars().steps(len(cases), "scoring") as scored:
            async with appending(output, runtime) as write:

                async def deliver(judged: Judged) -> None:
                    if write is not None:
                        try:
                            await write(judged)
                        except MonitorError as error:
                            done.failure = str(error)
                            scope.cancel()
                            return
                    done.results.add(judged)

                await offline.score(
                    config, assignments, cases, runtime=runtime, deliver=deliver, delivered=done.results, scored=scored
                )
        scope.cancel()
    done.paid = offline.paid(runtime)


async def _stop_on_signal(scope: anyio.CancelScope, done: Scored) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            done.interrupted = True
            scope.cancel()


def summary(assignments: Sequence[Assignment], done: Scored) -> Iterator[str]:
    """What came of the cases, and of each evaluator, in columns."""
    read = done.statuses.total()
    yield f"{read} cases: " + (", ".join(f"{number} {one}" for one, number in done.statuses.most_common()) or "none")
    if done.repeated:
        yield f"{done.repeated} of them have the id of another and are not judged"
    if done.results.resumed:
        yield f"{done.results.resumed} results were there already"
    yield ""
    found = [(one, done.of(one.evaluator.name)) for one in assignments]
    reasons = sorted({(row["outcome"], row["reason"]) for _, rows in found for row in rows if row["reason"]})
    table = [_column(one, rows, done.sums(one), reasons) for one, rows in found]
    names = ["", "judged", *(f"{outcome}: {reason}" for outcome, reason in reasons), "scale", "mean score", "defects"]
    names += ["defect rate", "  95 % interval", "cost of verdicts", "time a case, median"]
    yield from align(without_empty(zip(names, *table, strict=True)))
    if done.paid:
        yield f"paid in this run: {dollars(done.paid)}, calls that came to no verdict included"


def _column(one: Assignment, rows: Sequence[Row], sums: Sums, reasons: Sequence[tuple[str, str]]) -> list[str]:
    counts = Counter((row["outcome"], row["reason"]) for row in rows)
    scores = [row["score"] for row in rows if row["outcome"] == "score"]
    seconds = [row["judge"]["seconds"] for row in rows if row["outcome"] == "score" and not row["judge"]["cached"]]
    rate = interval_95(sums)
    return [
        one.evaluator.name,
        str(sums.judged),
        *(str(counts[reason]) if counts[reason] else "-" for reason in reasons),
        f"{one.evaluator.scale.lowest:g} to {one.evaluator.scale.highest:g}, {one.evaluator.scale.better} is better",
        f"{statistics.fmean(scores):.3g}" if scores else "-",
        f"{sums.defects} ({one.defect})",
        percent(rate.rate if rate else None),
        f"{percent(rate.lower)} to {percent(rate.upper)}" if rate else "-",
        dollars(sum(row["judge"]["dollars"] for row in rows)),
        timing(statistics.median(seconds)) if seconds else "-",
    ]


def as_json(assignments: Sequence[Assignment], ended: Mapping[str, Scored]) -> str:
    """One JSON object. `ended` by name: of two sets of cases also the difference of their rates. Null: not known."""
    found: dict[str, Any] = {name: _object(assignments, done) for name, done in ended.items()}
    if len(ended) == _TWO:
        before, after = ended.values()
        found["difference"] = [_difference_object(one, before, after) for one in assignments]
    return orjson.dumps(found if len(found) > 1 else next(iter(found.values())), option=orjson.OPT_INDENT_2).decode()


def _object(assignments: Sequence[Assignment], done: Scored) -> dict[str, Any]:
    return {
        "cases": {str(status): number for status, number in done.statuses.items()},
        "repeated": done.repeated,
        "unreadable": done.unreadable,
        "resumed": done.results.resumed,
        "dollars_paid": done.paid,
        "interrupted": done.interrupted,
        "failure": done.failure or None,
        "evaluators": [_evaluator_object(one, done) for one in assignments],
    }


def _evaluator_object(one: Assignment, done: Scored) -> dict[str, Any]:
    rows, sums = done.of(one.evaluator.name), done.sums(one)
    lost = Counter((row["outcome"], row["reason"]) for row in rows if row["reason"])
    scores = [row["score"] for row in rows if row["outcome"] == "score"]
    rate, scale = interval_95(sums), one.evaluator.scale
    return {
        "evaluator": one.evaluator.name,
        "judged": sums.judged,
        "not_scored": [{"outcome": out, "reason": why, "count": number} for (out, why), number in sorted(lost.items())],
        "scale": {"lowest": scale.lowest, "highest": scale.highest, "better": scale.better},
        "mean_score": statistics.fmean(scores) if scores else None,
        "rule": str(one.defect),
        "defects": sums.defects,
        "rate": rate.rate if rate else None,
        "interval": [rate.lower, rate.upper] if rate else None,
        "dollars_of_verdicts": sum(row["judge"]["dollars"] for row in rows),
    }


def _difference_object(one: Assignment, baseline: Scored, attacked: Scored) -> dict[str, Any]:
    before, after = baseline.sums(one), attacked.sums(one)
    found = differences.difference((before.defects, before.judged), (after.defects, after.judged), Z_95)
    return {
        "evaluator": one.evaluator.name,
        "difference": found.value if found else None,
        "interval": [found.lower, found.upper] if found else None,
        "clear": found.clear if found else None,
    }


def difference(assignments: Sequence[Assignment], baseline: Scored, attacked: Scored) -> Iterator[str]:
    """The defect rates of two sets of cases side by side, and by how much they differ."""
    table = []
    for one in assignments:
        name = one.evaluator.name
        before, after = baseline.sums(one), attacked.sums(one)
        found = differences.difference((before.defects, before.judged), (after.defects, after.judged), Z_95)
        rates = [f"{one.defects} of {one.judged}" for one in (before, after)]
        if found is None:
            table.append([name, *rates, "-", "-", "nothing to compare"])
            continue
        clear = "higher" if found.value > 0 else "lower"
        limits = f"{_points(found.lower)} to {_points(found.upper)}"
        table.append([name, *rates, f"{_points(found.value)} points", limits, clear if found.clear else "not clear"])
    names = ["", "baseline: defects", "attacked: defects", "difference of rates", "  95 % interval", "attacked is"]
    yield from align(without_empty(zip(names, *table, strict=True)))


def _points(share: float) -> str:
    return f"{share * 100:+.1f}"
