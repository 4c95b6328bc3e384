"""The judge: asks a language model, behind a cache, budget, rate limit, circuit breaker, concurrency limit and retries.

The path of a question: cache -> evaluations left -> [ breaker -> rate limit -> slot -> dollars left -> call -> read ].
The part in brackets is `call.py`. The loop in `_judge` repeats it and is the only place that decides on another call.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import anyio.to_thread

from monitor.errors import ConfigError, JudgeError
from monitor.judge import budget, codec
from monitor.judge.api_key import ApiKey
from monitor.judge.budget import BudgetTracker
from monitor.judge.cache import Cache, question_key
from monitor.judge.call import Caller, JudgeMetrics, QuestionUsage
from monitor.judge.classifier import check_classifier, open_classifier
from monitor.judge.codec import RequestForm, VerdictFault
from monitor.judge.litellm_provider import LiteLLM, provider_fault
from monitor.judge.pause import Pause
from monitor.judge.provider import Loadable, Provider
from monitor.judge.retry import CallFault, backoff
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import SAID, PauseCause, before_a_call, remedy
from monitor.model.outcome import Attempt, UnscoredReason
from monitor.stages import Prompt, Question, Runtime, Verdict
from monitor.telemetry.events import Event


@asynccontextmanager
async def open_judge(
    settings: JudgeSettings,
    runtime: Runtime,
    *,
    rng: random.Random,
    begin: anyio.Event | None = None,
    seam: Callable[[Loadable], Loadable] = lambda provider: provider,
    pause: Pause | None = None,
    place: str = "judge",
) -> AsyncIterator[JudgeClient]:
    """Open a judge for the life of the context. Returns at once; the first question waits until the provider is loaded.

    Loading takes seconds of processor time, so it waits for `begin`, which is set when the receivers listen. `seam` may
    wrap the provider, for example in a `RecordingProvider`. Pass `pause` to observe the judge's pause. Then the first
    question that the provider refuses also ends as `paused`, not only those after it, and the judge starts out paused
    if it has no key. `place` is its section, such as `judges.small`. Leaving the context ends open questions with
    `JudgeError(shutdown)`. Raises `ConfigError` if the judge can never work, as `check_judge_settings` does.
    """
    tariff = await anyio.to_thread.run_sync(check_judge_settings, settings, place)

    def key_failed(why: str) -> None:
        message = "the judge's key file cannot be read; the last key that was read stays in use"
        runtime.events.warning(Event.JUDGE_KEY_FAILED, message, model=settings.model, error=why)

    key = ApiKey(settings, key_failed, place=place)
    await anyio.to_thread.run_sync(key.load)
    made = open_classifier if settings.is_classifier else LiteLLM
    provider = seam(made(settings, runtime.clock, key))
    client = JudgeClient(settings, runtime, provider, tariff, rng=rng, pause=pause, key=key, place=place)
    missing = before_a_call(settings, os.environ, place)
    if pause is not None and missing is not None:
        pause.refused(missing.cause, missing.why)

    async def load() -> None:
        if begin is not None:
            await begin.wait()
        try:
            await _beside(provider.load)
        except Exception as error:  # noqa: BLE001 - any failed import turns the judge off, not the monitor
            client.broken(f"{provider.label} cannot be loaded: {type(error).__name__}")
        else:
            client.ready()

    tasks = [asyncio.create_task(load()), asyncio.create_task(key.watch(client.pause.hasten))]
    try:
        yield client
    finally:
        client.close()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        with anyio.move_on_after(runtime.stop.left("connections"), shield=True):
            await provider.aclose()


def check_judge_settings(settings: JudgeSettings, place: str) -> budget.Tariff | None:
    """Return the price of the judge's model, and raise `ConfigError` if the judge can never work. Needs no network.

    It can never work if it has no model, no provider knows the model, a package is missing, the key file holds no key,
    or there is a budget in dollars and the price is unknown. `place` is its section. Takes milliseconds, or seconds for
    a model that is in no list. Call from a thread.
    """
    if settings.model is None:
        raise ConfigError(f"{place}.model: judged evaluators need a model, such as `openai/gpt-4o-mini`")
    ApiKey(settings, place=place).load()
    if settings.is_classifier:
        check_classifier(settings, place)
    elif not budget.is_listed(settings.model):
        words = provider_fault(settings.model, settings.api_base)
        if words:
            what = remedy(PauseCause.NO_PROVIDER, place, model=settings.model)
            raise ConfigError(f'{place}.model: {SAID[PauseCause.NO_PROVIDER]}: "{words}"; {what}')
    return budget.tariff(settings, place)


async def _beside(work: Callable[[], object]) -> None:
    """Run `work`, which takes seconds and cannot be interrupted, in a thread that does not delay the process's exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - re-raised in the coroutine that awaits it
            error = raised
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name="loading of the judge", daemon=True).start()
    await done


class JudgeClient:
    """A `Judge` on top of a `Provider`. Questions wait for `ready()`."""

    def __init__(
        self,
        settings: JudgeSettings,
        runtime: Runtime,
        provider: Provider,
        tariff: budget.Tariff | None,
        *,
        rng: random.Random,
        pause: Pause | None = None,
        key: ApiKey | None = None,
        place: str = "judge",
    ) -> None:
        self.model = settings.model or ""
        self.pause = pause or Pause(runtime.clock, runtime.events, model=self.model)
        self._lent = pause is not None
        self._key = key or ApiKey(settings)
        self.max_characters = settings.max_characters
        self._settings = settings
        self._clock = runtime.clock
        self._events = runtime.events
        self._rng = rng
        self._priced = tariff is not None
        self._metrics = JudgeMetrics(self.model, runtime.metrics)
        self._cache = Cache(settings.cache, runtime.clock)
        self._budget = BudgetTracker(
            settings.budget, runtime.clock, self._budget_spent, runtime.share, kept=runtime.kept, name=place
        )
        self._caller = Caller(
            settings,
            runtime,
            provider,
            budget=self._budget,
            tariff=tariff or budget.Tariff(),
            metrics=self._metrics,
            pause=self.pause,
        )
        self._structured = True  # until the provider rejects response_format
        self._loaded = asyncio.Event()
        self.fault = ""
        """Why no call can ever be made; empty if calls can be made."""
        self._closed = False
        self._asking: set[anyio.CancelScope] = set()

    @property
    def held_back(self) -> bool:
        """Whether the circuit breaker is open."""
        return self._caller.held_back

    @property
    def held_back_by(self) -> str:
        """The error of the first of the calls that opened the circuit breaker; empty while it is closed."""
        return self._caller.held_back_by

    @property
    def asked_to_wait(self) -> str:
        """How long the provider asked for no calls, and when it is tried again; empty unless that opened it."""
        return self._caller.asked_to_wait

    def ready(self) -> None:
        """Allow calls from now on."""
        self._loaded.set()
        if self.pause.now is not None:
            return  # it was paused from the beginning, which has been logged
        cost = "" if self._priced else "; its price is unknown, so its cost is reported as 0"
        self._events.info(
            Event.JUDGE_READY,
            f"the judge is ready{cost}",
            model=self.model,
            temperature=self._settings.temperature,
            seed=self._settings.seed,
        )

    def broken(self, why: str) -> None:
        """End all questions with `why` from now on: no call can be made."""
        self._events.error(Event.JUDGE_BROKEN, f"the judge cannot work: {why}", model=self.model)
        self.fault = why
        self._loaded.set()

    async def loaded(self) -> None:
        """Wait until the provider is loaded, has failed to load, or the judge is closed."""
        await self._loaded.wait()

    def close(self) -> None:
        """Cancel all open questions and refuse new ones."""
        self._closed = True
        self._budget.close()
        self._loaded.set()
        for scope in list(self._asking):
            scope.cancel()

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Answer one question, from the cache or by calling the model. Raises `JudgeError`, nothing else.

        The error carries what was spent: a reply that cannot be used is paid for like any other.
        """
        if self._settings.language is not None and isinstance(question, Question):
            instructions = f"{question.instructions}\n\nWrite all free text of your reply in {self._settings.language}."
            question = dataclasses.replace(question, instructions=instructions)
        usage = QuestionUsage()
        if not self._closed:
            with anyio.CancelScope() as scope:
                self._asking.add(scope)
                try:
                    return await self._ask(question, usage)
                except JudgeError as error:
                    error.spent = usage.cost()
                    raise
                finally:
                    self._asking.discard(scope)
        self._metrics.outcome(UnscoredReason.SHUTDOWN)
        raise JudgeError(UnscoredReason.SHUTDOWN, "the monitor is stopping", usage.cost())

    async def _ask(self, question: Question | Prompt, usage: QuestionUsage) -> Verdict:
        deadline = self._clock.monotonic() + self._settings.max_age
        length = codec.material_length(question)
        if length > self._settings.max_characters:
            self._metrics.outcome(UnscoredReason.TOO_LARGE)
            limit = self._settings.max_characters
            raise JudgeError(
                UnscoredReason.TOO_LARGE, f"{length} characters of material; judge.max_characters is {limit}"
            )
        key = question_key(self.model, question)
        async with self._cache.turn(key):
            kept = self._cache.get(key)
            if kept is not None:
                self._metrics.outcome("cached")
                free = {
                    "dollars": 0.0,
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "seconds": 0.0,
                    "attempts": 0,
                    "tries": (),
                }
                return dataclasses.replace(kept, cached=True, **free)  # type: ignore[arg-type] # by name
            await self._loaded.wait()
            if self.fault:
                self._metrics.outcome(UnscoredReason.PROVIDER_ERROR)
                raise JudgeError(UnscoredReason.PROVIDER_ERROR, self.fault)
            verdict = await self._unless_paused(question, deadline, usage)
            self._cache.put(key, verdict)
            return verdict

    async def _unless_paused(self, question: Question | Prompt, deadline: float, usage: QuestionUsage) -> Verdict:
        try:
            usage.probe = self.pause.enter()
        except JudgeError as error:
            self._metrics.outcome(error.reason)
            raise
        try:
            if usage.probe:
                await self._key.refresh()
            return await self._within_budget(question, deadline, usage)
        except CallFault as fault:
            if fault.pauses is None or not self._lent:
                raise
            raise JudgeError(UnscoredReason.PAUSED, f"the judge is paused: {fault}") from None
        finally:
            if usage.probe:
                self.pause.probed()

    async def _within_budget(self, question: Question | Prompt, deadline: float, usage: QuestionUsage) -> Verdict:
        try:
            with self.pause.waiting(probe=usage.probe):
                judgement = await self._budget.wait_for_judgement(deadline)
        except JudgeError as error:
            self._metrics.outcome(error.reason)
            raise
        try:
            await self._budget.claim()
            data, model = await self._judge(question, deadline, usage)
        except JudgeError as error:
            first = _first_cause(error, usage.tries)
            if first is None:
                raise
            raise first from None
        finally:
            self._budget.settle(judgement, 1.0 if usage.charged else 0.0)
        return Verdict(
            data,
            model or self.model,
            dollars=usage.dollars,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            seconds=usage.seconds,
            attempts=usage.calls,
            tries=tuple(usage.tries),
        )

    async def _judge(
        self, question: Question | Prompt, deadline: float, usage: QuestionUsage
    ) -> tuple[dict[str, Any], str]:
        """Call until there is a verdict or another call makes no sense. The only place that decides this."""
        form = RequestForm(question.max_tokens)
        widened = refused = False
        while True:
            form.structured = self._structured and not refused
            try:
                found = await self._caller.call(question, form, deadline, usage)
            except VerdictFault as fault:
                if form.fault:
                    raise
                form.fault = str(fault)
            except CallFault as fault:
                if fault.plain and form.structured:
                    refused = True
                elif fault.reason is UnscoredReason.TRUNCATED and not widened:
                    widened = True
                    form.max_tokens *= 2
                elif fault.again:
                    if usage.failures >= self._settings.max_attempts:
                        raise
                    with self.pause.waiting(probe=usage.probe):
                        await self._wait_after(fault, usage.failures, deadline)
                else:
                    raise
            else:
                self._structured = self._structured and not refused  # rejected with a format, answered without it
                return found

    async def _wait_after(self, fault: CallFault, failures: int, deadline: float) -> None:
        """Wait before the next attempt, without a slot. Raises `fault` if that would take too long."""
        if fault.retry_after is None:
            seconds = backoff(max(failures, 1), self._rng)
        elif fault.retry_after <= self._settings.max_retry_after:
            seconds = fault.retry_after + backoff(1, self._rng)  # with jitter, so that not all return at once
        else:
            seconds = 0.0  # the breaker is open for that long anyway
        if self._clock.monotonic() + seconds > deadline:
            raise fault
        await anyio.sleep(seconds)

    def _budget_spent(self, cap: str, until: str) -> None:
        message = f"the judge's {cap} is spent: evaluations until {until} stay unscored"
        if not until:
            message = f"one call to the judge may cost more than its {cap}: such evaluations stay unscored"
        self._events.warning(Event.JUDGE_BUDGET_SPENT, message, model=self.model, cap=cap, until=until)


def _first_cause(error: JudgeError, tries: Sequence[Attempt]) -> JudgeError | None:
    """Return the fault of the question's first failed call, or None if `error` already says it.

    A later fault says less: that calls were held back does not say why, and a third attempt may fail in another way.
    """
    if error.reason is not UnscoredReason.BREAKER_OPEN and not (isinstance(error, CallFault) and error.again):
        return None
    first = next((one for one in tries if one.result in _CAUSES), None)
    if first is None or first.result == error.reason.value:
        return None
    return JudgeError(UnscoredReason(first.result), f"{first.detail}; then: {error}")


_CAUSES: Final = (
    UnscoredReason.TIMEOUT.value,
    UnscoredReason.RATE_LIMITED.value,
    UnscoredReason.PROVIDER_ERROR.value,
)
