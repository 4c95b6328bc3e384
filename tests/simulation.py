"""The pipeline in virtual time, with faults drawn by a seed: `python -m tests.simulation --seed 7`.

One seed is one history: senders that repeat, reorder, split and delay what they send, a judge that fails, hangs and
refuses, a disk of varying speed that is full at times, and processes that end without a warning, after which the next
one begins with what had reached the disk. Assembly, spool, ledger, sampling and publishing are the real ones; time,
judge and senders are not. No thread runs and no clock is read, so a seed gives the same history each time.

    python -m tests.simulation --seeds 10000          # the first ten thousand
    python -m tests.simulation --seed 7 --verbose     # one history, step by step
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import anyio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor import registry
from monitor.errors import JudgeError, Overloaded
from monitor.extraction import rows
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Outcome, Score, Unscored, UnscoredReason
from monitor.model.row import RowBatch
from monitor.model.span import SpanBatch
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.complete import Complete
from monitor.pipeline.local_evaluation import LocalOutcome, LocalReader, Noted, ReadResult, Workers
from monitor.pipeline.run import Pipeline
from monitor.pipeline.traffic import TrafficRules, TrafficSettings
from monitor.stages import Intake, Judge, Question, Runtime, Source, Verdict
from monitor.storage.spool import open_spool
from monitor.transport.otlp import wire
from tests.support.evaluators import LocalEvaluator, configured, live
from tests.support.runtime import runtime
from tests.support.virtual_time import LoopClock, VirtualTimeLoop

HOURS = 3600.0
REPLAYED = 5.0
"""Virtual seconds after which a process has taken up what it found in the spool."""
LONGEST = 2 * HOURS
"""Virtual seconds after which a history that has not ended is stuck."""
GRACE = 2.0
JUDGE_FAULTS = (UnscoredReason.TIMEOUT, UnscoredReason.PROVIDER_ERROR, UnscoredReason.RATE_LIMITED)
EVALUATORS = ("local", "asking")


class DiskLoop(VirtualTimeLoop):
    """Work for threads is done by the loop itself, after as long as the disk takes."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self._draw = draw
        self._free_at = 0.0

    def _run_once(self) -> None:
        super()._run_once()
        self._now += 1e-6  # a turn takes a moment: else who waits for "a little later than now" waits for ever

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        del executor
        done: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                found = func(*args)
            except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
                done.set_exception(error)
            else:
                done.set_result(found)

        takes = self._draw.choice((0.0005, 0.002, 0.002, 0.01, 0.3))
        self._free_at = max(self._free_at, self.time()) + takes  # one after the other, as in the spool's one thread
        self.call_at(self._free_at, work)
        return done


class InThisLoop(Workers):
    """Reads at once: the loop has no threads."""

    def __init__(self, reader: LocalReader) -> None:
        self._reader = reader

    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        with noted():
            return self._reader.read(complete)

    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        with noted():
            return self._reader.evaluate(case, evaluator)

    async def run(self, listening: anyio.Event) -> None:
        pass


class Asking(LocalEvaluator):
    """Gives the score that the judge says for this very case."""

    name: ClassVar[str] = "asking"
    cost: ClassVar[str] = "judge"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        assert judge is not None
        verdict = await judge.ask(Question("q", "", {"case": case.request_id}, {}))
        return Score(verdict.data["score"], "as the judge says")


def deserved(request_id: str) -> int:
    """The score that the judge gives, 1 to 5."""
    return sum(request_id.encode()) % 5 + 1


class Judging:
    """Answers what is `deserved`, late or not at all."""

    model = "simulated/judge"
    max_characters = 400_000

    def __init__(self, draw: random.Random, faulty: float) -> None:
        self._draw, self.faulty = draw, faulty

    async def ask(self, question: Any) -> Verdict:
        await anyio.sleep(self._draw.expovariate(1.0))
        if self._draw.random() < self.faulty:
            if self._draw.random() < 0.2:
                await anyio.sleep(60)
            raise JudgeError(self._draw.choice(JUDGE_FAULTS), "drawn")
        return Verdict({"score": deserved(question.material["case"])}, self.model, dollars=0.01)


class Door(Source):
    """Lends the intake of the process that runs to the senders."""

    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        listening("here")
        Door.open = intake
        try:
            await anyio.sleep_forever()
        finally:
            Door.open = None

    open: ClassVar[Any] = None


@dataclass
class History:
    """What is drawn, and what came of it."""

    seed: int
    verbose: bool = False
    acknowledged: set[str] = field(default_factory=set)
    published: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    lives: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def step(self, what: str, about: str = "") -> None:
        self.steps[what] += 1
        if self.verbose:
            print(f"{asyncio.get_running_loop().time():10.3f} s  {what} {about}")


# -- what is sent


@dataclass(frozen=True)
class Sending:
    """One delivery of one request: `at` in virtual seconds, repeated until it is acknowledged."""

    at: float
    request_id: str
    batch: SpanBatch | RowBatch
    whole: bool
    """Whether the request can be expected to be judged once this, and all others of its kind, are acknowledged."""


def plan(history: History) -> dict[str, list[Sending]]:
    """Draw the deliveries of each request: rows whole, traces in parts that come in any order, late or twice."""
    draw, found = history.draw, {}
    for number in range(draw.randint(3, 12)):
        begun = draw.uniform(0, 30)
        request_id = f"{draw.getrandbits(128) | 1:032x}"
        if draw.random() < 0.4:
            said = {"request_id": request_id, "request": "Why?", "response": "So.", "retrieved_context": ["facts"]}
            body = json.dumps([said]).encode()
            sendings = [Sending(begun, request_id, RowBatch("cases", rows.take(body).rows), whole=True)]
        else:
            parts = spans_of(request_id, draw.randint(1, 4))
            order = parts if draw.random() < 0.5 else draw.sample(parts, len(parts))
            pace = draw.choice((0.0, 0.1, GRACE / 4))
            sendings = [Sending(begun + pace * at, request_id, one, whole=True) for at, one in enumerate(order)]
            if len(parts) > 1 and draw.random() < 0.2:  # and one of them once more, when all is over
                again = draw.choice(parts[1:])
                sendings.append(Sending(begun + draw.uniform(20, 120), request_id, again, whole=False))
        if draw.random() < 0.3:
            again = draw.choice(sendings)
            sendings.append(replace(again, at=again.at + draw.uniform(0, GRACE / 2), whole=False))
        found[request_id] = sendings
        history.step("request", f"{number}: {request_id}, {len(sendings)} deliveries")
    return found


def spans_of(trace_id: str, steps: int) -> list[SpanBatch]:
    """A trace with a question, its answer and `steps` searches, a delivery for each span; the root is the first."""
    stated = {"openinference.span.kind": "CHAIN", "input.value": "Why?", "output.value": "So."}
    searched = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "facts"}
    found = []
    for number, attributes in enumerate([stated] + [searched] * steps, 1):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = "shop"
        span = group.scope_spans.add().spans.add(
            trace_id=bytes.fromhex(trace_id), span_id=number.to_bytes(8, "big"), name=f"step {number}",
            parent_span_id=b"" if number == 1 else (1).to_bytes(8, "big"),
            start_time_unix_nano=1_700_000_000 * 10**9 + number, end_time_unix_nano=1_700_000_001 * 10**9,
        )  # fmt: skip
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
        found.append(SpanBatch("door", "traces", wire.split(request.SerializeToString())))
    return found


async def send(history: History, one: Sending, delivered: Callable[[Sending], None]) -> None:
    """Send until it is acknowledged, as an exporter does: again after a pause that grows."""
    await anyio.sleep(max(0.0, one.at - asyncio.get_running_loop().time()))
    pause = 0.5
    while True:
        door = Door.open
        if door is not None:
            try:
                await door.accept(replace(one.batch))
            except Overloaded:
                door = None
        if door is not None and door is Door.open:  # else the process has ended before its answer was read
            history.step("acknowledged", one.request_id)
            delivered(one)
            return
        history.step("refused")
        await anyio.sleep(pause)
        pause = min(pause * 2, GRACE / 2)  # who comes later than the grace period is late, and is not waited for


# -- one history


async def live_once(history: History, folder: Path, judge: Judging, until: Callable[[], bool], ends: float) -> None:
    """One process: begins with what `folder` holds, ends unwarned after `ends` seconds, or when all is done."""
    lent, draw = runtime(LoopClock()), history.draw
    history.lives += 1

    async def deliver(results: Sequence[EvaluationResult]) -> None:
        await anyio.sleep(0.001)
        for one in results:
            history.published.setdefault(one.id, []).append(one)

    opened = open_spool(
        folder / "spool.db", at_most=2**20, keep=24 * HOURS, clock=lent.clock, metrics=lent.metrics, events=lent.events
    )
    chosen = [configured(LocalEvaluator()), configured(Asking())]
    async with opened as spool:
        whole = Pipeline(
            sources=[Door()], conventions=registry.conventions(),
            workers=InThisLoop(LocalReader(registry.conventions(), ExtractionSettings(), chosen, salt="s")),
            assembly=Assembly(AssemblySettings(grace_period=GRACE, idle_timeout=4 * GRACE)),
            evaluation=live(chosen, judges={"": judge}, lent=lent,
                            sinks={"history": deliver}, memory=spool, draws=spool.draws),
            spool=spool, runtime=lent, rate=1.0, traffic=TrafficRules(TrafficSettings(), "s", lent),
            in_hand_limit=2**27, arrivals_at_most=2**23,
        )  # fmt: skip
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whole.run, stop, lambda *_: None)
            began = anyio.current_time()
            while anyio.current_time() - began < ends:
                await anyio.sleep(draw.uniform(0.1, 3))
                sums = balance(lent)
                replayed = anyio.current_time() - began > REPLAYED  # before, the spool may not have been looked at
                if replayed and until() and not whole.pending and not sums["spool_records"]:
                    history.step("done")
                    break
            else:
                history.step("killed")
                Door.open = None
                snapshot(folder)
            tasks.cancel_scope.cancel()


def snapshot(folder: Path) -> None:
    """Keep what a process that is killed now leaves on the disk, whatever it still writes while it is taken down."""
    kept = folder / "kept"
    kept.mkdir()
    for file in folder.glob("spool.db*"):
        shutil.copy2(file, kept)


def restore(folder: Path) -> None:
    kept = folder / "kept"
    if kept.exists():
        for file in folder.glob("spool.db*"):
            file.unlink()
        for file in kept.iterdir():
            file.rename(folder / file.name)
        kept.rmdir()


def balance(lent: Runtime) -> Counter[str]:
    """What was received has ended or is pending: traces, requests and evaluations. Returns the sum of each series."""
    sums = Counter[str]()
    for family in lent.metrics.registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                sums[sample.name.removeprefix("ragmonitor_")] += sample.value
    assert sums["traces_received_total"] == sums["traces_total"] + sums["traces_pending"], "traces do not balance"
    assert sums["requests_found_total"] == sums["requests_total"] + sums["requests_pending"], "requests do not balance"
    parts = ("evaluations_total", "unscored_total", "skipped_total", "evaluations_pending", "late_evaluations_total")
    assert sums["evaluations_selected_total"] == sum(sums[one] for one in parts), "evaluations do not balance"
    return sums


async def play(history: History, folder: Path) -> None:
    """Send everything, end and begin processes, and wait for the last request."""
    draw = history.draw
    sendings = plan(history)
    waiting = {id(one) for several in sendings.values() for one in several}
    missing = {name: sum(one.whole for one in several) for name, several in sendings.items()}

    def delivered(one: Sending) -> None:
        waiting.discard(id(one))
        missing[one.request_id] -= one.whole
        if not missing[one.request_id]:
            history.acknowledged.add(one.request_id)

    judge = Judging(draw, faulty=draw.choice((0.0, 0.1, 0.6)))
    kills = [draw.uniform(0.1, 25) for _ in range(draw.choice((0, 0, 1, 2, 4)))]
    with anyio.fail_after(LONGEST):
        async with anyio.create_task_group() as senders:
            for several in sendings.values():
                for one in several:
                    senders.start_soon(send, history, one, delivered)
            for ends in [*kills, LONGEST]:
                await live_once(history, folder, judge, lambda: not waiting, ends)
                restore(folder)
                if not waiting and ends == LONGEST:
                    break
                await anyio.sleep(draw.uniform(0, 5))
    verify(history)


def verify(history: History) -> None:
    """Nothing lost, nothing twice but what a killed process had under way, no verdict that the judge did not give."""
    found: dict[tuple[str, str], list[EvaluationResult]] = {}
    for several in history.published.values():
        for one in several:
            found.setdefault((one.case.request_id, one.evaluator), []).append(one)
    for request_id in history.acknowledged:
        for evaluator in EVALUATORS:
            results = found.pop((request_id, evaluator), [])
            assert results, f"lost: {evaluator} of {request_id}"
            assert len({one.id for one in results}) == 1, f"{evaluator} of {request_id} has two results"
            assert len(results) <= history.lives, f"{evaluator} of {request_id} was published {len(results)} times"
            for one in results:
                if evaluator == "asking" and isinstance(one.outcome, Score):
                    assert one.outcome.value == deserved(request_id), f"a verdict that was not given on {request_id}"
                if isinstance(one.outcome, Unscored):
                    assert one.outcome.reason in JUDGE_FAULTS, f"{one.outcome.reason} of {request_id}"
    assert not found, f"results of what was not sent: {sorted(found)}"


def simulate(seed: int, *, verbose: bool = False) -> History:
    """Play the history of `seed`. Raises `AssertionError` where it breaks a rule."""
    history = History(seed, verbose)
    loop = DiskLoop(random.Random(seed))
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_memory()) as folder:
        asyncio.set_event_loop(loop)
        try:
            _run(loop, play(history, Path(folder)))
        finally:
            asyncio.set_event_loop(None)
            loop.close()
    return history


def _run(loop: DiskLoop, work: Coroutine[Any, Any, None]) -> None:
    task = loop.create_task(work)
    loop.run_until_complete(task)


def _memory() -> str | None:
    """A folder in memory, where there is one: a simulated disk needs no real one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--seeds", type=int, default=100, help="play so many (default 100)")
    parser.add_argument("--first", type=int, default=0, help="begin with this seed")
    parser.add_argument("--verbose", action="store_true", help="print each step")
    asked = parser.parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    steps, lives = Counter[str](), 0
    for seed in seeds:
        print(f"\rseed {seed} ", end="", file=sys.stderr, flush=True)
        try:
            history = simulate(seed, verbose=asked.verbose)
        except BaseException as error:
            print(f"seed {seed}: {error!r}\nrepeat it: python -m tests.simulation --seed {seed} --verbose")
            raise
        steps += history.steps
        lives += history.lives
    print(f"{len(seeds)} histories, {lives} processes: {json.dumps(steps)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
