"""Requests evaluations of past traffic and follows them: by the running monitor, or in this process without one."""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeAlias

import anyio
import anyio.to_thread

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.evaluation import BackfillContext
from monitor.jobs.backfill.run import Backfill, UntilDone, somebody_works
from monitor.jobs.backfill.store import NAME, BackfillQueue, missed_items
from monitor.jobs.topics import TOPIC, kept_names
from monitor.judge.budget import estimate_tokens, tariff
from monitor.judge.provider import Exchange, RecordingProvider
from monitor.judge.settings import Budget, CacheSettings, JudgeSettings
from monitor.model.case import Case
from monitor.operations.backfill import traffic
from monitor.operations.backfill.selection import BackfillRequest, EvaluationSelector, SelectionCounts
from monitor.operations.event_loop import unwrap_errors
from monitor.operations.progress import NO_PROGRESS, Progress, Report, ignore
from monitor.operations.storage_folder import require_state
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.followers import Followers
from monitor.pipeline.publish import Publisher
from monitor.pipeline.scoring import open_scorer, versions
from monitor.privacy import pseudonyms
from monitor.sinks.history import HistorySink
from monitor.sources.kafka import KafkaSource
from monitor.stages import Deliver, Runtime, Sink, named, type_name
from monitor.storage import files
from monitor.storage.history.feed import Feed

_LOOK_EVERY: Final = 0.5
_LOST_AFTER: Final = 3
_LAST_SENDING: Final = 30.0
"""Seconds that sinks may take at the end. The next monitor on the folder sends them the rest."""

_FREE: Final = {"budget": Budget(), "cache": CacheSettings(max_entries=0), "max_attempts": 1}


@dataclass(frozen=True, slots=True)
class EvaluatorCost:
    """How many evaluations are due, and their maximum cost in US dollars; None if the price is unknown."""

    evaluator: str
    evaluations: int
    dollars: float | None


@dataclass(frozen=True, slots=True)
class BackfillEstimate:
    """The evaluations that a request would put into the queue."""

    counts: SelectionCounts
    costs: tuple[EvaluatorCost, ...]

    @property
    def evaluations(self) -> int:
        """The number of all evaluations that are due."""
        return sum(one.evaluations for one in self.costs)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The evaluations that a request has put into the queue, under the id `batch`.

    Numbers of evaluations: `new`: now queued; `waiting`: already in the queue; `scored`: already scored; `full`: left
    out because the queue is full.
    """

    batch: str
    counts: SelectionCounts
    new: int
    waiting: int
    scored: int
    full: int


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """The progress of a batch: evaluations done by outcome, how many are still waiting, and why, if known."""

    done: Mapping[str, int]
    waiting: int
    reason: str = ""


_MissedItems: TypeAlias = Callable[[Collection[str], str], Iterable[Item]]


class BackfillClient:
    """The backfill queue of one storage folder, for requests. Close it, or use it as a context manager.

    Raises `ConfigError` if the configuration turns backfill off. Methods raise `MonitorError` if the queue cannot be
    used.
    """

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        if config.backfill.retention <= 0:
            raise ConfigError("backfill.retention: is 0, which turns backfill off")
        self._config = config
        self._clock = clock if clock is not None else SystemClock()
        self._folder = config.storage.path
        self._store = BackfillQueue(self._folder / NAME, at_most=config.backfill.max_size, clock=self._clock)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the queue."""
        self.close()

    def close(self) -> None:
        """Close the queue's file."""
        self._store.close()

    @property
    def has_worker(self) -> bool:
        """Whether a process, usually the running monitor, works on the queue."""
        return somebody_works(self._folder)

    async def estimate(self, request: BackfillRequest, *, report: Report = ignore) -> BackfillEstimate:
        """Return what a request would enqueue, and its maximum cost: prompts are rendered, but none is sent.

        Raises `ConfigError` if the request cannot be fulfilled.
        """
        selection = EvaluationSelector(self._config, request, self._clock)
        by_evaluator: defaultdict[str, list[Item]] = defaultdict(list)
        missed = partial(missed_items, self._folder / NAME)  # the queue is neither made nor repaired
        for item in await self._select(selection, request, report, missed):
            by_evaluator[item.evaluator].append(item)
        configured = {one.evaluator.name: one for one in self._config.configured_evaluators}
        costs = []
        for name, items in by_evaluator.items():
            one = configured[name]
            judge = self._config.judge_of(one) if one.evaluator.cost == "judge" else None
            costs.append(EvaluatorCost(name, len(items), await _dollars(one, judge, items) if judge else 0.0))
        return BackfillEstimate(selection.counts, tuple(costs))

    async def enqueue(self, request: BackfillRequest, *, report: Report = ignore) -> Enqueued:
        """Put the evaluations that a request asks for into the queue.

        Raises `ConfigError` if the request cannot be fulfilled.
        """
        selection, batch = EvaluationSelector(self._config, request, self._clock), uuid.uuid4().hex
        items = await self._select(selection, request, report, self._store.missed_items)
        asked = self._store.ask(items, batch=batch, now=self._clock.now())
        return Enqueued(
            batch,
            selection.counts,
            new=asked.new,
            waiting=asked.there,
            scored=asked.known + selection.counts.scored,
            full=asked.full,
        )

    async def follow(
        self, batch: str, *, progress: Progress = NO_PROGRESS, stop: anyio.Event | None = None
    ) -> BackfillProgress:
        """Wait until the worker has finished a batch, until the worker is gone, or until `stop` is set."""
        total = sum(self._store.counts(batch).values())
        lost, seen = 0, 0
        with progress.steps(total, "evaluating") as advance:
            while waiting := self._store.counts(batch).get("asked", 0):
                for _ in range(total - waiting - seen):
                    advance()
                seen = total - waiting
                lost = 0 if self.has_worker else lost + 1
                if lost >= _LOST_AFTER:
                    return self._progress(
                        batch, f"the monitor on {self._folder} has stopped; it continues once it runs"
                    )
                if stop is not None and stop.is_set():
                    return self._progress(batch, "the monitor continues with them")
                await anyio.sleep(_LOOK_EVERY)
        return self._progress(batch)

    async def work(self, batch: str = "", *, stop: anyio.Event | None = None) -> BackfillProgress:
        """Work on the queue in this process until a batch, or the whole queue, is done, or until `stop` is set.

        Results go to the history and to all configured sinks except `prometheus`. It ends early if a judge refuses.
        Raises `ConfigError` if a monitor works on the queue.
        """
        if self.has_worker:
            raise ConfigError(f"a monitor is running on {self._folder} and works on the queue itself")
        before, reason = self._progress(batch).done, ""

        def done(held: Mapping[str, str]) -> bool:
            nonlocal reason
            if held:
                reason = f"the judge is not available ({', '.join(sorted(set(held.values())))})"
            return bool(held) or not self._progress(batch).waiting

        async def stop_early(event: anyio.Event) -> None:
            nonlocal reason
            await event.wait()
            reason = "interrupted"
            tasks.cancel_scope.cancel()

        with unwrap_errors():
            async with anyio.create_task_group() as tasks:
                if stop is not None:
                    tasks.start_soon(stop_early, stop)
                await self._work(done)
                tasks.cancel_scope.cancel()
        after = self._progress(batch, reason)
        return replace(after, done=Counter(after.done) - Counter(before))

    async def _select(
        self, selection: EvaluationSelector, request: BackfillRequest, report: Report, missed: _MissedItems
    ) -> Iterable[Item]:
        if request.source is BackfillOrigin.MISSED:
            require_state(self._folder)
            return selection.of_missed(missed(request.evaluators, request.app or ""))
        replay = traffic.Replay(self._config)
        match request.source:
            case BackfillOrigin.FILE:
                cases = traffic.from_files(self._config, request.paths, replay, report=report)
            case BackfillOrigin.SPOOL:
                cases = traffic.from_spool(self._folder, request.since, replay)
            case BackfillOrigin.KAFKA:
                sources = [one for one in self._config.sources if isinstance(one, KafkaSource)]
                cases = traffic.from_kafka(sources, request.since, request.until, replay, report=report)
        found = await selection.of_cases(cases)
        selection.counts.unreadable = replay.unreadable
        return found

    async def _work(self, done: UntilDone) -> None:
        runtime = Runtime.standalone(self._clock)
        config, storage = self._config, self._config.storage
        evaluators = [one for one in config.configured_evaluators if config.works(one)]
        history = HistorySink.in_folder(storage.path, storage)
        async with AsyncExitStack() as stack:
            sinks: dict[str, Deliver] = {"storage": await stack.enter_async_context(history.open(runtime))}
            following: dict[str, tuple[Sink, Deliver]] = {}
            for name, sink in named(config.sinks).items():
                if type_name(sink) == "prometheus":
                    continue
                opened = await stack.enter_async_context(sink.open(runtime))
                if sink.follows:
                    following[name] = sink, opened
                else:
                    sinks[name] = opened
            followers = Followers(Feed(storage.path / files.HISTORY), following, runtime, rng=random.Random())
            await followers.begin()
            sinks["storage"] = followers.after(sinks["storage"])
            current = versions(evaluators, {name: one.model or "" for name, one in config.all_judges.items()})
            context = BackfillContext(
                evaluators=evaluators,
                judges=config.all_judges,
                versions=current,
                deliver=Publisher(sinks, None, runtime).one,
                known=history.scored_ids,
                turn=lambda _judge: nullcontext(),
                slices=config.slices,
                topic=_topic(config),
            )
            async with anyio.create_task_group() as sending:
                sending.start_soon(followers.run)
                await Backfill(config.backfill, storage.path, runtime, current).run(context, until_done=done)
                await followers.drain(_LAST_SENDING)
                sending.cancel_scope.cancel()

    def _progress(self, batch: str, reason: str = "") -> BackfillProgress:
        counts = self._store.counts(batch or None)
        waiting = counts.pop("asked", 0)
        return BackfillProgress(counts, waiting, reason)


async def _dollars(evaluator: ConfiguredEvaluator, judge: JudgeSettings, items: Sequence[Item]) -> float | None:
    """Return the maximum cost of scoring all items, without retries."""
    settings = judge.model_copy(update=_FREE)
    price = tariff(settings)
    if price is None:
        return None
    runtime, exchanges = Runtime.standalone(), list[Exchange]()
    seam = partial(RecordingProvider, exchanges=exchanges, send=False)
    async with open_scorer([evaluator], {evaluator.judge: settings}, runtime=runtime, seam=seam) as scorer:
        for item in items:
            await scorer.score(item.case)
    return sum(
        price.dollars(estimate_tokens(message["content"] for message in one.call.messages), one.call.max_tokens)
        for one in exchanges
    )


def _topic(config: Config) -> Callable[[Case], str] | None:
    """Return the function that names the topic of a question; None if no slice needs it."""
    if TOPIC not in config.slices:
        return None
    storage = config.storage
    hashed = None if storage.texts == "all" else pseudonyms.at_hand(storage.path).word
    return kept_names(storage.path / files.STATE, hashed)
