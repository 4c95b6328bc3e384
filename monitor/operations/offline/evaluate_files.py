"""Evaluates files: reads them, scores until done or stopped, and sums up by evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from monitor.config import Config
from monitor.errors import MonitorError
from monitor.model.case import Case, ReadingStatus
from monitor.model.outcome import EvaluationResult
from monitor.operations.event_loop import unwrap_errors
from monitor.operations.offline.conversations import ConversationSummary, summarize_conversations
from monitor.operations.offline.files import CaseFiles
from monitor.operations.offline.results_file import ResultRow, RunResults, open_results, read_results
from monitor.operations.offline.scoring import score
from monitor.operations.offline.summary import (
    ContentRisk,
    EvaluatorSummary,
    Sessions,
    content_risk,
    sessions_of,
    summarize,
)
from monitor.operations.progress import NO_PROGRESS, Progress, Report, ignore
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.stages import Runtime
from monitor.statistics.rates import Z_95, Difference, difference
from monitor.telemetry.metrics import total


@dataclass(frozen=True, slots=True)
class FileEvaluation:
    """The outcome for a set of files.

    `statuses` counts cases by reading status; `repeated` counts those with the id of an earlier case, which are not
    scored. `content_risk` is over the four kinds of harm, None unless all were run. `conversations` has the results by
    turn and session, if a session has several turns. `sessions` are those of the cases. `results` are the rows of this
    run's cases; `resumed` of them were already in the output file. `paid` is the cost of all calls of this run in US
    dollars. `interrupted`: it was stopped; `failure` says why it ended early.
    """

    statuses: Mapping[ReadingStatus, int]
    repeated: int
    unreadable: int
    evaluators: tuple[EvaluatorSummary, ...]
    content_risk: ContentRisk | None
    conversations: tuple[ConversationSummary, ...]
    sessions: Sessions
    results: tuple[ResultRow, ...]
    resumed: int
    paid: float
    interrupted: bool
    failure: str

    @property
    def cut_short(self) -> bool:
        """Whether it ended before everything was scored."""
        return self.interrupted or bool(self.failure)


@dataclass(frozen=True, slots=True)
class RateDifference:
    """How much higher the defect rate of one evaluator is on a second set; None if one side has no score."""

    evaluator: str
    baseline: EvaluatorSummary
    candidate: EvaluatorSummary
    difference: Difference | None


@dataclass(slots=True)
class _Ended:
    paid: float = 0.0
    interrupted: bool = False
    failure: str = ""


@dataclass(slots=True)
class _Cases:
    statuses: Counter[ReadingStatus] = field(default_factory=Counter)
    repeated: int = 0
    unreadable: int = 0
    found: Sequence[Case] = ()


async def evaluate_files(
    config: Config,
    evaluators: Sequence[ConfiguredEvaluator],
    paths: Sequence[Path],
    *,
    output: Path | None = None,
    texts: bool = False,
    retry_unscored: bool = False,
    report: Report = ignore,
    progress: Progress = NO_PROGRESS,
    stop: anyio.Event | None = None,
) -> FileEvaluation:
    """Score every case in files and folders with every evaluator.

    Args:
        config: has the judges, and the settings for reading traces.
        evaluators: see `scoring.choose_evaluators`.
        paths: files or folders, see `files.CaseFiles`.
        output: the file to which results are appended. A result that it already has is not scored again.
        texts: write each result with its case: question, documents, answer and reference.
        retry_unscored: score the unscored results of `output` again.
        report: gets messages about files and rows that cannot be read.
        progress: shows the progress.
        stop: ends it early once set; everything scored until then is in the result.

    Raises:
        ConfigError: `output` contains something other than results, or a judge cannot work.
    """
    results = RunResults(read_results(output, drop_unscored=retry_unscored, texts=texts) if output else ())
    read = _read(config, paths, report, progress)
    with unwrap_errors():
        ended = await _score(
            config, evaluators, read.found, output=output, texts=texts, results=results, progress=progress, stop=stop
        )
    rows, sessions = tuple(results.found.values()), sessions_of(read.found)
    return FileEvaluation(
        statuses=read.statuses,
        repeated=read.repeated,
        unreadable=read.unreadable,
        evaluators=tuple(
            summarize(one, [row for row in rows if row["evaluator"] == one.evaluator.name], sessions)
            for one in evaluators
        ),
        content_risk=content_risk(evaluators, rows, sessions),
        conversations=summarize_conversations(evaluators, read.found, rows),
        sessions=sessions,
        results=rows,
        resumed=results.resumed,
        paid=ended.paid,
        interrupted=ended.interrupted,
        failure=ended.failure,
    )


def compare(baseline: FileEvaluation, candidate: FileEvaluation) -> list[RateDifference]:
    """Compare the defect rates of two sets of cases, evaluator by evaluator."""
    return [
        RateDifference(
            before.evaluator,
            before,
            after,
            difference(before.sums, after.sums, Z_95),
        )
        for before, after in zip(baseline.evaluators, candidate.evaluators, strict=True)
    ]


def _read(config: Config, paths: Sequence[Path], report: Report, progress: Progress) -> _Cases:
    done = _Cases()
    cases: dict[tuple[str, str], Case] = {}
    with progress.reading(paths) as advance:
        files = CaseFiles(paths, config.extraction, report=report, advance=advance)
        for reading in files.readings():
            done.statuses[reading.status] += 1
            if reading.status is ReadingStatus.READY:
                key = (reading.case.request_id, reading.case.span_id)
                done.repeated += key in cases
                cases.setdefault(key, reading.case)
    done.unreadable = files.unreadable
    done.found = list(cases.values())
    return done


async def _score(
    config: Config,
    evaluators: Sequence[ConfiguredEvaluator],
    cases: Sequence[Case],
    *,
    output: Path | None,
    texts: bool,
    results: RunResults,
    progress: Progress,
    stop: anyio.Event | None,
) -> _Ended:
    aside, done = Runtime.standalone(), _Ended()
    async with anyio.create_task_group() as tasks:
        scope = tasks.cancel_scope

        async def stop_early(event: anyio.Event) -> None:
            await event.wait()
            done.interrupted = True
            scope.cancel()

        if stop is not None:
            tasks.start_soon(stop_early, stop)
        with progress.steps(len(cases), "scoring") as scored:
            async with open_results(output, cases if texts else None) as write:

                async def deliver(judged: EvaluationResult) -> None:
                    if write is not None:
                        try:
                            await write([judged])
                        except MonitorError as error:
                            done.failure = str(error)
                            scope.cancel()
                            return
                    results.add(judged)

                await score(
                    config, evaluators, cases, runtime=aside, deliver=deliver, known=results.resume, scored=scored
                )
        scope.cancel()
    done.paid = total(aside.metrics.judge_cost)
    return done
