"""One case by one evaluator, several times: what was sent, what came back, and what became of it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from monitor.judge.client import open_judge
from monitor.judge.recording import Exchange, Recording
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import Judged, Score
from monitor.pipeline.assignment import Assignment, Tally
from monitor.pipeline.counting import Counting
from monitor.pipeline.edges import with_facts
from monitor.pipeline.evaluate import Evaluation
from monitor.samplers.uniform import Uniform
from monitor.stages import Judge, Runtime
from monitor.trying import apart

_APART: Final = 1_000
"""Between the numbers under which two repeats ask: more than an evaluator asks the same question within one."""


@dataclass(frozen=True, slots=True)
class Once:
    """One time: the result, and the calls that were made for it."""

    judged: Judged
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """All times, in their order; `together`: the evaluators that were asked in the same call. `paid` in US dollars."""

    one: Assignment
    case: Case
    settings: JudgeSettings | None
    together: tuple[str, ...]
    times: tuple[Once, ...]
    paid: float

    @property
    def scored(self) -> list[Judged]:
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


def group(tried: Assignment, working: Iterable[Assignment]) -> list[Assignment]:
    """The evaluator that is tried, and after it those of `working` that production asks in the same call."""
    others = [
        replace(one, sampler=Uniform(rate=1.0))
        for one in working
        if tried.group and one.group == tried.group and one.judge == tried.judge
    ]
    first = replace(tried, sampler=Uniform(rate=1.0))
    return [first, *(one for one in others if one.evaluator.name != tried.evaluator.name)]


async def run(
    who: Sequence[Assignment],
    case: Case,
    times: int,
    *,
    settings: JudgeSettings | None,
    salt: str,
    runtime: Runtime,
    shown: Callable[[Tried], Any] = lambda _: None,
) -> Tried:
    """Evaluate `times` times, one after the other, past every cache; `shown` gets what there is after each.

    Args:
        who: the evaluator that is tried, and those that are asked in the same call.
        settings: those of its judge; None where it asks none.
        salt: that of the configuration.
        runtime: one of its own, since all that is counted is counted there; see `apart.runtime`.

    Raises `ConfigError` where a judge cannot work.
    """
    exchanges: list[Exchange] = []
    results: list[Judged] = []
    together = tuple(other.evaluator.name for other in who[1:])
    tried = Tried(who[0], case, settings, together, (), 0.0)

    async def keep(judged: Judged) -> None:
        results.append(judged)

    async with AsyncExitStack() as stack:
        judges: dict[str, Judge] = {}
        if settings is not None:
            seam = partial(Recording, exchanges=exchanges)
            opening = open_judge(settings, runtime, rng=random.Random(), seam=seam)
            judges[who[0].judge] = await stack.enter_async_context(opening)
        for number in range(times):
            exchanges.clear()
            results.clear()
            evaluation = Evaluation(
                who,
                judges={name: Tally(judge, repeat=number * _APART) for name, judge in judges.items()},
                sinks={"tried": keep},
                counting=Counting(runtime.metrics),
                delivered=apart.Nothing(),
                runtime=runtime,
                salt=salt,
                waiting_limit=sys.maxsize,
                repeat={},
            )
            local = await evaluation.run_local(case)
            known = with_facts(case, local)
            await evaluation.run_judged(known, evaluation.judged_for(known, local))
            judged = next(result for result in results if result.evaluator == who[0].evaluator.name)
            once = Once(judged, tuple(exchanges))
            tried = replace(tried, times=(*tried.times, once), paid=apart.paid(runtime))
            shown(tried)
    return tried
