"""Makes one call: wait for admission, reserve its cost, call with a time limit, settle, count, read the reply."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from monitor.errors import JudgeError
from monitor.judge import codec
from monitor.judge.admission import Admission, Breaker, Pass
from monitor.judge.budget import BudgetTracker, Reservation, Tariff, estimate_tokens
from monitor.judge.codec import RequestForm
from monitor.judge.pause import Pause
from monitor.judge.provider import ModelCall, Provider, Reply
from monitor.judge.retry import CallFault
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import Attempt, Cost, UnscoredReason
from monitor.stages import Prompt, Question, Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.tracing import Fact, Work

# Reasons that never result from a call: the pipeline sets them without asking the judge.
_ELSEWHERE = frozenset({UnscoredReason.OVERLOADED, UnscoredReason.ERROR})


class JudgeMetrics:
    """The metrics of one model."""

    def __init__(self, model: str, metrics: Metrics) -> None:
        label = metrics.model(model)
        reasons = [reason for reason in UnscoredReason if reason not in _ELSEWHERE]
        self._outcomes = {name: metrics.judge_requests.labels(label, str(name)) for name in ("ok", "cached", *reasons)}
        self._input = metrics.judge_tokens.labels(label, "input")
        self._output = metrics.judge_tokens.labels(label, "output")
        self._dollars = metrics.judge_cost.labels(label)
        self._seconds = metrics.judge_duration.labels(label)
        self._breaker = metrics.judge_breaker_open.labels(label)
        self._breaker.set(0)

    def outcome(self, outcome: Literal["ok", "cached"] | UnscoredReason) -> None:
        """Count how a call ended, or why there was none."""
        self._outcomes[outcome].inc()

    def spent(self, input_tokens: int, output_tokens: int, dollars: float, seconds: float) -> None:
        """Count what a call used."""
        self._input.inc(input_tokens)
        self._output.inc(output_tokens)
        self._dollars.inc(dollars)
        self._seconds.observe(seconds)

    def breaker(self, is_open: bool) -> None:
        """Record whether the circuit breaker is open."""
        self._breaker.set(int(is_open))


_SECRET_BYTES = 32


@dataclass(slots=True)
class QuestionUsage:
    """What one question has used so far, over all its calls. Costs are in US dollars; `seconds` are spent in calls."""

    calls: int = 0
    failures: int = 0  # calls that failed with a temporary fault while the breaker was closed
    charged: bool = False
    probe: bool = False  # whether this question probes a paused judge
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    tries: list[Attempt] = field(default_factory=list)

    def cost(self) -> Cost:
        """Return what was used so far as the cost of the question."""
        return Cost(
            dollars=self.dollars,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seconds=self.seconds,
            attempts=self.calls,
            tries=tuple(self.tries),
        )


class Caller:
    """Makes calls to one provider."""

    def __init__(
        self,
        settings: JudgeSettings,
        runtime: Runtime,
        provider: Provider,
        *,
        budget: BudgetTracker,
        tariff: Tariff,
        metrics: JudgeMetrics,
        pause: Pause,
    ) -> None:
        self._model = settings.model
        self._pause = pause
        self._tracer = runtime.tracer
        self._facts = _facts(settings)
        self._name = f"{self._facts['gen_ai.operation.name']} {self._facts['gen_ai.request.model']}"
        self._timeout = settings.timeout
        self._max_retry_after = settings.max_retry_after
        self._clock = runtime.clock
        self._events = runtime.events
        self._provider = provider
        self._budget = budget
        self._tariff = tariff
        self._metrics = metrics
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._breaker = Breaker(runtime.clock, self._breaker_changed)
        per_minute = settings.budget.requests_per_minute
        self._admission = Admission(self._breaker, per_minute, settings.max_concurrency, runtime, pause)

    @property
    def held_back(self) -> bool:
        """Whether the breaker is open."""
        return self._breaker.is_open

    @property
    def held_back_by(self) -> str:
        """The error of the first of the calls that opened the breaker; empty while it is closed."""
        return self._breaker.cause

    @property
    def asked_to_wait(self) -> str:
        """How long the provider asked for no calls, and when it is tried again; empty unless that opened it."""
        return self._breaker.asked

    async def call(
        self, question: Question | Prompt, form: RequestForm, deadline: float, usage: QuestionUsage
    ) -> tuple[dict[str, Any], str]:
        """Make one call and return the data of its verdict and the model's name as the provider reports it.

        Waits until `deadline` (monotonic clock) for the breaker and up to `timeout` for the reply. Adds to `usage`.
        Raises `CallFault`, `VerdictFault`, or a plain `JudgeError` if no call could be made.
        """
        calls, seconds = usage.calls, usage.seconds
        try:
            async with self._admission.admit(deadline, probe=usage.probe) as held:
                reply = await self._exchange(question, form, held, deadline, usage)
            data = codec.decode(reply, question)
        except JudgeError as error:
            self._metrics.outcome(error.reason)
            if usage.calls > calls:
                usage.tries.append(Attempt(usage.seconds - seconds, error.reason.value, str(error)))
            raise
        self._metrics.outcome("ok")
        usage.tries.append(Attempt(usage.seconds - seconds, "ok"))
        return data, reply.model

    async def _exchange(
        self, question: Question | Prompt, form: RequestForm, held: Pass, deadline: float, usage: QuestionUsage
    ) -> Reply:
        call = codec.encode(question, self._secret, form)
        prompt_tokens = estimate_tokens(message["content"] for message in call.messages)
        highest = self._tariff.dollars(prompt_tokens, form.max_tokens)
        with self._pause.waiting(probe=usage.probe):
            reserved = await self._budget.wait_for_dollars(highest, deadline)
        try:
            self._pause.check(probe=usage.probe)
            await self._budget.claim()
        except BaseException:
            self._budget.settle(reserved, 0.0)
            raise
        # Count the call at its full estimate until its usage is known, and for good if it is cut off or reports none.
        spent = (prompt_tokens, form.max_tokens)
        usage.calls += 1
        started = self._clock.monotonic()
        try:
            with self._tracer.part(self._name, self._facts, "client") as work:
                reply = await self._timed(call)
                if work.recorded:
                    _tell_of(reply, call, work)
            if reply.input_tokens is not None and reply.output_tokens is not None:
                spent = (reply.input_tokens, reply.output_tokens)
        except CallFault as fault:
            if not fault.charged:
                spent = (0, 0)  # no connection was made, or the provider refused the call or broke it off unanswered
            # A failed probe meets the outage that every question is waiting out, so it does not count as an attempt.
            usage.failures += fault.again and not held.probe
            self._report(fault, held, usage)
            raise
        finally:
            self._settle(reserved, spent, self._clock.monotonic() - started, usage)
        held.succeeded()
        if usage.probe:
            self._pause.answered()
        return reply

    async def _timed(self, call: ModelCall) -> Reply:
        """Limit the total time: a provider that sends a byte now and then never trips a read timeout."""
        try:
            with anyio.fail_after(self._timeout):
                return await self._provider.complete(call)
        except TimeoutError:
            message = f"no answer within {self._timeout:g} s"
            raise CallFault(UnscoredReason.TIMEOUT, message, again=True, sick=True, charged=True) from None

    def _settle(self, reserved: Reservation, spent: tuple[int, int], seconds: float, usage: QuestionUsage) -> None:
        dollars = self._tariff.dollars(*spent)
        self._budget.settle(reserved, dollars)
        self._metrics.spent(*spent, dollars, seconds)
        usage.charged |= spent != (0, 0)
        usage.dollars += dollars
        usage.input_tokens += spent[0]
        usage.output_tokens += spent[1]
        usage.seconds += seconds

    def _report(self, fault: CallFault, held: Pass, usage: QuestionUsage) -> None:
        """Tell the breaker and the pause what a fault says about the provider."""
        if fault.pauses is not None:  # before the slot is released, so that the next caller is held back
            self._pause.refused(fault.pauses, str(fault))
        elif usage.probe and not fault.sick:
            self._pause.answered()
        if not fault.sick:
            held.succeeded()
            return
        held.failed(str(fault))
        if fault.retry_after is not None and fault.retry_after > self._max_retry_after:
            self._breaker.hold(fault.retry_after, str(fault))

    def _breaker_changed(self, is_open: bool) -> None:
        self._metrics.breaker(is_open)
        if is_open:
            why = f" ({self._breaker.cause})" if self._breaker.cause else ""
            message = f"calls to the judge are held back after failures{why}; the monitor probes it until it answers"
            if self._breaker.asked:
                message = f"calls to the judge are held back: {self._breaker.asked}{why}"
            self._events.warning(Event.JUDGE_BREAKER_OPENED, message, model=self._model)
        else:
            self._events.info(Event.JUDGE_BREAKER_CLOSED, "the judge answers again", model=self._model)


def _facts(settings: JudgeSettings) -> dict[str, Fact]:
    """Return the attributes of a call's span that are known beforehand (OpenTelemetry GenAI semantic conventions)."""
    provider, _, model = (settings.model or "").rpartition("/")
    facts: dict[str, Fact] = {"gen_ai.operation.name": "classify" if settings.is_classifier else "chat"}
    facts |= {"gen_ai.provider.name": provider.partition("/")[0]} if provider else {}
    return {**facts, "gen_ai.request.model": model}


def _tell_of(reply: Reply, call: ModelCall, work: Work) -> None:
    """Add names and figures of the reply to the span; no text."""
    facts: dict[str, Fact | None] = {
        "gen_ai.request.max_tokens": call.max_tokens,
        "gen_ai.response.model": reply.model or None,
        "gen_ai.usage.input_tokens": reply.input_tokens,
        "gen_ai.usage.output_tokens": reply.output_tokens,
    }
    work.set({name: value for name, value in facts.items() if value is not None})
