"""One case by one evaluator, several times: what was sent, what came back, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from monitor.judge.recording import Exchange, RecordingProvider
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import REPEAT_STEP, open_scorer
from monitor.stages import Runtime
from monitor.telemetry.metrics import total


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One time: the result, and the calls that were made for it."""

    judged: EvaluationResult
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """All times, in their order; `together`: the evaluators that were asked in the same call. `paid` in US dollars."""

    one: ConfiguredEvaluator
    case: Case
    settings: JudgeSettings | None
    together: tuple[str, ...]
    times: tuple[TrialRun, ...]
    paid: float

    @property
    def scored(self) -> list[EvaluationResult]:
        """The results that are verdicts."""
        return [time.judged for time in self.times if isinstance(time.judged.outcome, Score)]

    @property
    def flips(self) -> int:
        """How many verdicts are not the most frequent one, a defect or none."""
        counts = Counter(judged.defect for judged in self.scored)
        return len(self.scored) - max(counts.values(), default=0)

    def temperature(self, exchange: Exchange) -> float | None:
        """Return the temperature of a call; None where the provider's own applies."""
        configured = self.settings.temperature if self.settings is not None else None
        return configured if exchange.call.temperature is None else exchange.call.temperature


def group(tried: ConfiguredEvaluator, working: Iterable[ConfiguredEvaluator]) -> list[ConfiguredEvaluator]:
    """The evaluator that is tried, and after it those of `working` that production asks in the same call."""
    others = [one for one in working if tried.group and one.group == tried.group and one.judge == tried.judge]
    return [tried, *(one for one in others if one.evaluator.name != tried.evaluator.name)]


async def run(
    who: Sequence[ConfiguredEvaluator],
    case: Case,
    times: int,
    *,
    settings: JudgeSettings | None,
    runtime: Runtime,
    shown: Callable[[TrialResult], Any] = lambda _: None,
) -> TrialResult:
    """Evaluate `times` times, one after the other, past every cache; `shown` gets what there is after each.

    Args:
        who: the evaluator that is tried, and those that are asked in the same call.
        settings: those of its judge; None where it asks none.
        runtime: one of its own, since all that is counted is counted there; see `Runtime.standalone`.

    Raises `ConfigError` where a judge cannot work.
    """
    exchanges: list[Exchange] = []
    together = tuple(other.evaluator.name for other in who[1:])
    tried = TrialResult(who[0], case, settings, together, (), 0.0)
    judges = {who[0].judge: settings} if settings is not None else {}
    async with open_scorer(
        who, judges, runtime=runtime, seam=partial(RecordingProvider, exchanges=exchanges)
    ) as scorer:
        for number in range(times):
            exchanges.clear()
            results = await scorer.score(case, repeat=number * REPEAT_STEP)
            judged = next(result for result in results if result.evaluator == who[0].evaluator.name)
            once = TrialRun(judged, tuple(exchanges))
            tried = replace(tried, times=(*tried.times, once), paid=total(runtime.metrics.judge_cost))
            shown(tried)
    return tried
