"""Scores cases: runs evaluators, asks judges, and turns every outcome into a result.

A `Scorer` does not sample, count, queue or deliver. It is used by the live pipeline (`live_evaluation.py`), and by
trials, backfill, the canary and evaluation of files.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from monitor.errors import ConfigError, JudgeError
from monitor.extraction import slices as facts
from monitor.judge.client import JudgeClient, open_judge
from monitor.judge.grouped_judge import GroupedJudge, QuestionGroup
from monitor.judge.metered import MeteredJudge
from monitor.judge.pause import Pause
from monitor.judge.provider import Loadable
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import place_of
from monitor.model.case import Case, changed
from monitor.model.outcome import (
    Cost,
    EvaluationResult,
    Outcome,
    RateScope,
    Score,
    Selection,
    Skipped,
    Unscored,
    UnscoredReason,
    result_id,
    version_with_rule,
)
from monitor.model.service_version import ServiceVersion
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator, defects_by
from monitor.pipeline.learned import LearnedOrder, teacher_of
from monitor.pipeline.local_evaluation import (
    LocalOutcome,
    described,
    evaluate_local,
    failed,
    skip_reason,
    valid_outcome,
)
from monitor.pipeline.traffic import rate_scope
from monitor.stages import Evaluator, Judge, Runtime, SamplingDecision
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.telemetry.events import Event
from monitor.telemetry.tracing import Work

Chosen: TypeAlias = tuple[ConfiguredEvaluator, SamplingDecision]
"""An evaluator chosen to score a case, and its sampling decision."""

EVERY: Final = SamplingDecision(1.0, 1.0)
"""The sampling decision if every case is scored."""

REPEAT_STEP: Final = 1_000
"""Distance between two `repeat` numbers that must not share a question: an evaluator asks fewer than this per case."""

_NOTHING_KNOWN: Final[Mapping[str, LocalOutcome]] = MappingProxyType({})
_NO_JUDGES: Final[Mapping[str, Judge]] = MappingProxyType({})
_NO_PAUSES: Final[Mapping[str, Pause]] = MappingProxyType({})


class Scorer:
    """Scores cases by `evaluators`. Any number of cases may be scored at the same time.

    Args:
        evaluators: the evaluators to score by; their samplers are not consulted.
        judges: by name; every judge that an evaluator asks must be among them, else `ConfigError` is raised.
        runtime: provides clock, events and tracer; by default a standalone one.
        slices: names of the attributes of a case that its results keep.
        late_after: seconds after the answer from which results of a case are late.
        topic: returns the topic of a case's question, used as the attribute `topic` of results if the case has none;
            None: there are no topics.
        scope: the scope of every result; by default the case determines it.
        learned: computes the scores of evaluators that rescore; by default one that has learned nothing.
    """

    def __init__(
        self,
        evaluators: Sequence[ConfiguredEvaluator],
        judges: Mapping[str, Judge] = _NO_JUDGES,
        *,
        runtime: Runtime | None = None,
        slices: Sequence[str] = (),
        late_after: float = math.inf,
        topic: Callable[[Case], str] | None = None,
        scope: RateScope | None = None,
        learned: LearnedOrder | None = None,
    ) -> None:
        for one in evaluators:
            if one.evaluator.cost == "judge" and one.judge not in judges:
                raise ConfigError(f"{one.evaluator.name}: needs the judge {one.judge!r}, which is not open")
        self.evaluators = tuple(evaluators)
        self.versions = versions(evaluators, {name: judge.model for name, judge in judges.items()})
        """The version of each evaluator with these options, this judge and this group."""
        self.late_after = late_after
        self._judges = judges
        self._runtime = runtime or Runtime.standalone()
        self._slices = tuple(slices)
        self._topic = topic
        self._scope = scope
        self._learned = learned or LearnedOrder()
        nothing = Case(request_id="")
        self._left: tuple[Case, tuple[Case, str, str, str]] = nothing, (nothing, "", "", "")

    async def score(
        self,
        case: Case,
        chosen: Sequence[Chosen] | None = None,
        *,
        repeat: int = 0,
        began: float | None = None,
        each: Callable[[EvaluationResult], Awaitable[None]] | None = None,
        known: Mapping[str, LocalOutcome] = _NOTHING_KNOWN,
    ) -> list[EvaluationResult]:
        """Score `case` by the `chosen` evaluators (default: all). Return one result for each, local evaluators first.

        Local evaluators run one after the other, each in a worker thread. The facts that they find become attributes of
        the case. Then the judged evaluators run in parallel; those with the same group and judge share one call. A
        failure of an evaluator or a judge is a result too: nothing is raised, except by `each`.

        Args:
            case: the case to score.
            chosen: the evaluators, each with its sampling decision.
            repeat: a different number asks the judges again, bypassing their caches (see `REPEAT_STEP`).
            began: the monotonic second from which the time of judged evaluations counts; by default now, or when the
                judges are loaded.
            each: awaited with each result as soon as it exists; no other evaluation waits for that.
            known: the outcomes of local evaluators that have run elsewhere, by name.
        """
        everyone = chosen if chosen is not None else [(one, EVERY) for one in self.evaluators]
        results: dict[str, EvaluationResult] = {}

        async def keep(result: EvaluationResult) -> None:
            results[result.evaluator] = result
            if each is not None:
                await each(result)

        for one, how in everyone:
            if one.evaluator.cost == "local":
                await keep(await self.local(one, case, how, known.get(one.evaluator.name)))
        with_scores = with_facts(case, scores_of(results.values()))
        judged = [(one, how) for one, how in everyone if one.evaluator.cost == "judge"]
        if not judged:
            return list(results.values())
        if began is None:
            await self._loaded(judged)
        since = began if began is not None else self._runtime.clock.monotonic()

        async def ask(one: ConfiguredEvaluator, how: SamplingDecision, grouped: GroupedJudge | None) -> None:
            judge = MeteredJudge(grouped or self._judges[one.judge], repeat)
            result = await self._judged(one, with_scores, how, judge, since)
            if grouped is not None:
                await grouped.leave()
            await keep(result)

        async with anyio.create_task_group() as side_by_side:
            for (one, how), grouped in zip(judged, self._grouped(judged), strict=True):
                side_by_side.start_soon(ask, one, how, grouped)
        local = [one for one, _ in everyone if one.evaluator.cost == "local"]
        return [results[one.evaluator.name] for one in (*local, *(one for one, _ in judged))]

    def result(
        self,
        one: ConfiguredEvaluator,
        case: Case,
        outcome: Outcome,
        how: SamplingDecision,
        spending: Cost,
        *,
        now: float | None = None,
    ) -> EvaluationResult:
        """Make the result of an evaluation that ended with `outcome` at the wall-clock second `now` (default: now).

        `how` is the sampling decision by which its evaluator scored the case.
        """
        evaluator, now = one.evaluator, self._runtime.clock.now() if now is None else now
        version = self.versions[evaluator.name]
        scored = outcome if isinstance(outcome, Score) else None
        scope = how.scope or self._scope or _own_scope(one) or rate_scope(case, now, self.late_after)
        leaving, prompt, index, service = self._leaving(case)
        return EvaluationResult(
            case=leaving,
            evaluator=evaluator.name,
            version=version,
            outcome=outcome,
            weight=1 / (case.probability * how.probability),
            level=evaluator.scale.level(scored.value) if scored else "",
            defect=bool(scored and one.defect.matches(scored)),
            alert_defects=defects_by(one.alert_rules, scored) if scored else {},
            cost=spending,
            evaluated_at=now,
            scope=scope,
            service_version=_service_version(version, spending.model, prompt, index, service),
            selection=Selection(
                how.probability, how.target, how.inputs, how.shift, INPUTS_VERSION if how.inputs else 0
            ),
        )

    def _leaving(self, case: Case) -> tuple[Case, str, str, str]:
        """Return the case as it leaves the monitor, and the versions of its prompt, index and service.

        Remembers the last case, because the evaluations of a case mostly end one right after the other.
        """
        if self._left[0] is not case:
            attributes = facts.allowed(case, self._slices)
            if self._topic is not None:
                attributes.setdefault("topic", self._topic(case))
            leaving = changed(case, attributes=attributes)
            prompt, index, service = (facts.value(case, f"{part}.version") for part in ("prompt", "index", "service"))
            self._left = case, (leaving, prompt, index, service)
        return self._left[1]

    def result_id(self, one: ConfiguredEvaluator, case: Case) -> str:
        """Return the id of the result of this evaluator on `case`."""
        return result_id(case.request_id, one.evaluator.name, self.versions[one.evaluator.name])

    def is_late(self, case: Case) -> bool:
        """Return whether a result made now would be late."""
        return rate_scope(case, self._runtime.clock.now(), self.late_after) is RateScope.LATE

    async def _loaded(self, judged: Sequence[Chosen]) -> None:
        """Wait for the judges: importing a provider takes seconds, which must not count as judging time."""
        for judge in {self._judges[one.judge] for one, _ in judged}:
            if isinstance(judge, JudgeClient):
                await judge.loaded()

    def _grouped(self, judged: Sequence[Chosen]) -> list[GroupedJudge | None]:
        """Return the shared judge of each evaluator's group; None for an evaluator that is alone in its group."""
        together = Counter((one.group, one.judge) for one, _ in judged if one.group)
        groups = {key: QuestionGroup(self._judges[key[1]]) for key, number in together.items() if number > 1}
        found = (groups.get((one.group, one.judge)) for one, _ in judged)
        return [group.judge() if group is not None else None for group in found]

    async def local(
        self, one: ConfiguredEvaluator, case: Case, how: SamplingDecision, known: LocalOutcome | None
    ) -> EvaluationResult:
        """Return the result of one local evaluator, which is run in a thread if its outcome is not `known`.

        For an evaluator that rescores, `known` is the outcome of the evaluator that it rescores.
        """
        found = known if not how.fault else LocalOutcome(_not_sampled(how), fault=how.fault)
        if found is None:
            found = await anyio.to_thread.run_sync(evaluate_local, one.evaluator, case, self._runtime.clock)
        if found.fault:
            self._failed(one.evaluator, found.fault)
        outcome, seconds = found.outcome, found.seconds
        if one.evaluator.rescores and not how.fault:
            began = self._runtime.clock.monotonic()
            outcome = self._learned.rescored(case.app, outcome, one)
            seconds += self._runtime.clock.monotonic() - began
        return self.result(one, case, outcome, how, Cost(seconds=seconds))

    async def _judged(
        self, one: ConfiguredEvaluator, case: Case, how: SamplingDecision, judge: MeteredJudge, began: float
    ) -> EvaluationResult:
        with self._runtime.tracer.part(f"evaluate {one.evaluator.name}") as work:
            if how.fault:
                self._failed(one.evaluator, how.fault)
            outcome = _not_sampled(how) if how.fault else await self._outcome(one.evaluator, case, judge)
            spending = judge.spending(self._runtime.clock.monotonic() - began)
            result = self.result(one, case, outcome, how, spending)
            if work.recorded:
                _describe(result, work)
        return result

    async def _outcome(self, evaluator: Evaluator, case: Case, judge: Judge) -> Outcome:
        """Return the outcome of a judged `evaluator` on `case`, even if it fails."""
        lacks = skip_reason(evaluator, case)
        if lacks is not None:
            return Skipped(lacks)
        outcome: Outcome
        try:
            try:
                outcome = await evaluator.evaluate(case, judge)
            except JudgeError as error:
                outcome = Unscored(error.reason, str(error))
            return checked(evaluator, outcome)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it may fail in any way; its message may quote the case
            self._failed(evaluator, described(error))
            return failed(error)

    def _failed(self, evaluator: Evaluator, fault: str) -> None:
        self._runtime.events.error(Event.EVALUATOR_FAILED, "an evaluator failed", evaluator=evaluator.name, error=fault)


@asynccontextmanager
async def open_scorer(
    evaluators: Sequence[ConfiguredEvaluator],
    judges: Mapping[str, JudgeSettings],
    *,
    runtime: Runtime | None = None,
    slices: Sequence[str] = (),
    topic: Callable[[Case], str] | None = None,
    scope: RateScope | None = None,
    pauses: Mapping[str, Pause] = _NO_PAUSES,
    seam: Callable[[Loadable], Loadable] = lambda provider: provider,
) -> AsyncIterator[Scorer]:
    """Open a scorer with its own judges, only those that `evaluators` ask, for the life of the context.

    `judges` are the settings of all judges, by name. `seam`, and `pauses` by the judge's name, are as in `open_judge`.
    The rest is as in `Scorer`. Raises `ConfigError` if a judge cannot work.
    """
    lent = runtime or Runtime.standalone()
    async with AsyncExitStack() as stack:
        opened: dict[str, Judge] = {}
        for name in dict.fromkeys(one.judge for one in evaluators if one.evaluator.cost == "judge"):
            opening = open_judge(
                judges[name], lent, rng=random.Random(), seam=seam, pause=pauses.get(name), place=place_of(name)
            )
            opened[name] = await stack.enter_async_context(opening)
        yield Scorer(evaluators, opened, runtime=lent, slices=slices, topic=topic, scope=scope)


def versions(evaluators: Sequence[ConfiguredEvaluator], models: Mapping[str, str]) -> dict[str, str]:
    """Return the version of each evaluator in this process; `models` are the judges' models, by the judge's name.

    Different options make an evaluator a different instrument, with a different version. For a judged evaluator, so
    does a different model, or sharing calls in a group; for one that learns, a different version of its teacher. A
    defect rule other than the default follows at the end: `1+0f3a9c21~below 2`.
    """
    return {one.evaluator.name: _version(one, evaluators, models) for one in evaluators}


def _version(one: ConfiguredEvaluator, evaluators: Sequence[ConfiguredEvaluator], models: Mapping[str, str]) -> str:
    made = _instrument(one, evaluators, models)
    # The scores are the same by any rule, but no rate adds up defects by two rules.
    return made if one.defect == one.evaluator.default_defect else version_with_rule(made, one.defect)


def _instrument(one: ConfiguredEvaluator, evaluators: Sequence[ConfiguredEvaluator], models: Mapping[str, str]) -> str:
    options = one.evaluator.model_dump_json(exclude_defaults=True)
    model = models.get(one.judge) if one.evaluator.cost == "judge" else None
    marks = [] if options == "{}" else [options]
    if model is not None:
        marks.append(model)
    if one.evaluator.rescores:
        teacher = teacher_of(one, evaluators)
        marks.append(str(INPUTS_VERSION))
        marks += [_version(other, evaluators, models) for other in evaluators if other.evaluator.name == teacher]
    if model is not None and one.group:
        marks += sorted(other.evaluator.name for other in evaluators if other.group == one.group)
    if not marks:
        return one.evaluator.version
    return f"{one.evaluator.version}+{hashlib.blake2b(chr(10).join(marks).encode(), digest_size=4).hexdigest()}"


@lru_cache(maxsize=256)
def _service_version(evaluator: str, judge: str, prompt: str, index: str, service: str) -> ServiceVersion:
    """Return the versions behind a result; they rarely change, so most results have the same object."""
    return ServiceVersion(evaluator=evaluator, judge=judge, prompt=prompt, index=index, service=service)


def _not_sampled(how: SamplingDecision) -> Unscored:
    return Unscored(UnscoredReason.ERROR, how.fault)


def _own_scope(one: ConfiguredEvaluator) -> RateScope | None:
    return RateScope.RANKING if one.ranks else None


def checked(evaluator: Evaluator, outcome: Outcome) -> Outcome:
    """Refuse a judge's score that is not on the scale, and mark a score that its explanation contradicts.

    Raises as `valid_outcome` does.
    """
    outcome = valid_outcome(evaluator, outcome)
    if not isinstance(outcome, Score) or evaluator.cost != "judge":
        return outcome
    from monitor.judge.contradiction import contradicts  # noqa: PLC0415 - its patterns are slow to compile

    if contradicts(outcome.explanation, outcome.value, evaluator.scale, evaluator.measures):
        return replace(outcome, contradicts=True)
    return outcome


def scores_of(results: Iterable[EvaluationResult]) -> dict[str, Score]:
    """Return the scores among `results`, by evaluator."""
    return {one.evaluator: one.outcome for one in results if isinstance(one.outcome, Score)}


def with_facts(case: Case, local: Mapping[str, Score]) -> Case:
    """Return the case with the facts of local evaluators as further attributes, for slices and samplers."""
    found = {name: text for score in local.values() for name, text in score.facts.items()}
    return replace(case, attributes={**case.attributes, **found}) if found else case


def _describe(result: EvaluationResult, work: Work) -> None:
    """Describe a result for our own telemetry, without scores or texts."""
    work.set(
        {
            "rag_monitor.evaluator": result.evaluator,
            "rag_monitor.version": result.version,
            "rag_monitor.outcome": result.outcome.kind,
            "rag_monitor.attempts": result.cost.attempts,
            "rag_monitor.dollars": result.cost.dollars,
            "rag_monitor.cached": result.cost.cached,
        }
    )
    if isinstance(result.outcome, Unscored):
        work.fail(result.outcome.reason.value)
