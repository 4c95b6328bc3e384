"""Runs an evaluator on one case several times: what was sent, what came back, and the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from monitor import registry
from monitor.errors import InvalidData
from monitor.extraction import compose, rows
from monitor.judge.provider import Exchange, RecordingProvider
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import place_of, remedy_in
from monitor.model.case import Case, ReadingStatus
from monitor.model.outcome import EvaluationResult, Score, Unscored
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import REPEAT_STEP, open_scorer
from monitor.stages import Runtime
from monitor.telemetry.metrics import total

_TEXTS: Final = (
    "request",
    "retrieved_context",
    "context_status",
    "response",
    "model",
    "session_id",
    "user_id",
)


def of_row(row: Mapping[str, Any]) -> Case | None:
    """Return the case of a result that was stored with its texts; None if it has no texts, or they cannot be read.

    The service's own prompt and expected answers are missing: the history does not store them.
    """
    if "response" not in row:
        return None
    own = {key: row.get(key) for key in _TEXTS}
    given: dict[str, Any] = {
        "request_id": row.get("request_id"),
        "status": ReadingStatus.READY,
        **own,
        "usage": {},
        "context_source": "row",
        "app": row.get("app"),
    }
    read_trace = partial(compose.read, conventions=registry.conventions())
    try:
        reading = rows.read(rows.recognise(given), read_trace, source="history").last
    except InvalidData:
        return None
    attributes = row.get("attributes")
    return replace(
        reading.case,
        span_id=str(row.get("span_id") or ""),
        convention=str(row.get("convention") or ""),
        answered_at=float(row.get("answered_at") or 0.0),
        attributes={str(name): str(value) for name, value in attributes.items()} if attributes else {},
    )


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One evaluation: the result, and the calls of the judge behind it."""

    result: EvaluationResult
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The evaluations of a trial, in order.

    `settings` are the judge's, None for a local evaluator; `together` are the evaluators that shared the calls;
    `dollars` is the cost so far.
    """

    evaluator: ConfiguredEvaluator
    case: Case
    settings: JudgeSettings | None
    together: tuple[str, ...]
    runs: tuple[TrialRun, ...]
    dollars: float

    @property
    def scored(self) -> list[EvaluationResult]:
        """The results with a score."""
        return [run.result for run in self.runs if isinstance(run.result.outcome, Score)]

    @property
    def flips(self) -> int:
        """How many scores disagree with the majority on whether the answer is a defect."""
        counts = Counter(result.defect for result in self.scored)
        return len(self.scored) - max(counts.values(), default=0)

    @property
    def remedy(self) -> str:
        """How to fix the set-up or the address of the judge; empty if neither seems to be at fault."""
        if self.settings is None:
            return ""
        place = place_of(self.evaluator.judge)
        outcomes = (run.result.outcome for run in self.runs)
        details = (one.detail for one in outcomes if isinstance(one, Unscored))
        return next(filter(None, (remedy_in(detail, place, self.settings) for detail in details)), "")

    def temperature(self, exchange: Exchange) -> float | None:
        """Return the temperature of a call; None if the provider's default applies."""
        configured = self.settings.temperature if self.settings is not None else None
        return configured if exchange.call.temperature is None else exchange.call.temperature


def group(tried: ConfiguredEvaluator, working: Iterable[ConfiguredEvaluator]) -> list[ConfiguredEvaluator]:
    """Return the evaluator of a trial, followed by those of `working` that share its calls in production."""
    others = [one for one in working if tried.group and one.group == tried.group and one.judge == tried.judge]
    return [tried, *(one for one in others if one.evaluator.name != tried.evaluator.name)]


async def run(
    evaluators: Sequence[ConfiguredEvaluator],
    case: Case,
    times: int,
    *,
    settings: JudgeSettings | None,
    runtime: Runtime,
    progress: Callable[[TrialResult], Any] = lambda _: None,
) -> TrialResult:
    """Evaluate a case `times` times, one after the other, bypassing caches.

    `evaluators` come from `group`; `settings` are the judge's, None for a local evaluator. `runtime` is for this trial
    alone and gets all its metrics. `progress` is called with the result so far after each evaluation. Raises
    `ConfigError` if the judge cannot work.
    """
    exchanges: list[Exchange] = []
    first, together = evaluators[0], tuple(other.evaluator.name for other in evaluators[1:])
    trial = TrialResult(first, case, settings, together, (), 0.0)
    judges = {first.judge: settings} if settings is not None else {}
    async with open_scorer(
        evaluators, judges, runtime=runtime, seam=partial(RecordingProvider, exchanges=exchanges)
    ) as scorer:
        for number in range(times):
            exchanges.clear()
            results = await scorer.score(case, repeat=number * REPEAT_STEP)
            result = next(one for one in results if one.evaluator == first.evaluator.name)
            runs = (*trial.runs, TrialRun(result, tuple(exchanges)))
            trial = replace(trial, runs=runs, dollars=total(runtime.metrics.judge_cost))
            progress(trial)
    return trial
