"""The judge around a provider with scripted answers and failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from monitor.errors import JudgeError
from monitor.judge.budget import Tariff
from monitor.judge.client import JudgeClient
from monitor.judge.pause import Pause
from monitor.judge.provider import ModelCall, Reply
from monitor.judge.retry import CallFault
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import UnscoredReason
from monitor.stages import Question, Runtime, Verdict
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from tests.support.virtual_time import LoopClock

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer", "minimum": 1}}, "required": ["score"]}
GOOD = Reply('{"score": 5}', "stop", model="told", input_tokens=10, output_tokens=5)


def down(reason: UnscoredReason = UnscoredReason.PROVIDER_ERROR, retry_after: float | None = None) -> CallFault:
    return CallFault(reason, "down", again=True, sick=True, retry_after=retry_after)


class FakeProvider:
    """Answers with a function of the number of the call, after `seconds`; a fault is raised."""

    def __init__(self, answer: Callable[[int], Reply | CallFault], seconds: float = 0.5) -> None:
        self.answer = answer
        self.seconds = seconds
        self.calls: list[float] = []
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

    async def complete(self, call: ModelCall) -> Reply:
        self.calls.append(asyncio.get_running_loop().time())
        self.asked.append(call.messages[1]["content"])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = self.answer(len(self.calls))
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        if isinstance(answer, CallFault):
            raise answer
        return answer


class Rig:
    """The judge around `provider`; with `pause` it can be paused, as in the application."""

    def __init__(
        self,
        provider: FakeProvider,
        rng: random.Random | None = None,
        pause: Callable[[Runtime], Pause] | None = None,
        **options: Any,
    ) -> None:
        self.registry = CollectorRegistry()
        metrics = Metrics(self.registry)
        self.runtime = Runtime(LoopClock(), metrics, Events(metrics), Health())
        settings = JudgeSettings.model_validate({"model": "m", "cache": {"max_entries": 0}, **options})
        tariff = Tariff(0.001, 0.001)
        lent = pause(self.runtime) if pause is not None else None
        self.judge = JudgeClient(settings, self.runtime, provider, tariff, rng=rng or random.Random(1), pause=lent)
        self.judge.ready()

    async def ask(self, text: str = "r") -> Verdict:
        return await self.judge.ask(Question("q", "Score.", {"response": text}, SCHEMA, max_tokens=100))

    async def reason(self, text: str = "r") -> UnscoredReason | None:
        """Return the reason, or None for a verdict."""
        try:
            await self.ask(text)
        except JudgeError as error:
            return error.reason
        return None

    def count(self, outcome: str) -> float:
        value = self.registry.get_sample_value("ragmonitor_judge_requests_total", {"model": "m", "outcome": outcome})
        assert value is not None
        return value

    def events(self, event: str) -> float:
        value = self.registry.get_sample_value("ragmonitor_events_total", {"event": event})
        assert value is not None
        return value


def question(name: str, **material: str) -> Question:
    """Return a question of a rubric with this name."""
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    return Question(name, f"Do {name}.", material or {"context": "c", "response": "r"}, schema, max_tokens=100)
