"""Trials in a running monitor: when one may start, how long it is kept, and that it always ends."""

from __future__ import annotations

import anyio
import pytest

from monitor import registry
from monitor.clock import ManualClock
from monitor.errors import ConfigError, InvalidData, Overloaded
from monitor.jobs.trial import queue as trial_queue
from monitor.jobs.trial import run as trials
from monitor.jobs.trial.queue import TrialQueue
from monitor.judge.settings import JudgeSettings
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio
ROW = {
    "request_id": "a" * 32,
    "app": "shop",
    "request": {"query": "How long?"},
    "retrieved_context": [{"content": "A label is valid for 30 days."}],
    "response": "It is valid for 30 days.",
}
NAME = "overlap_groundedness"


def assigned(name: str) -> ConfiguredEvaluator:
    evaluator = registry.read("evaluators", {"type": name}, Evaluator, "here")
    return ConfiguredEvaluator(evaluator, Uniform(rate=0.1), evaluator.default_defect)


def queue_of(per_hour=30, clock=None, **judge):
    lent = runtime(clock)
    working = [assigned(NAME), assigned("groundedness")]
    return TrialQueue(per_hour, working, {"": JudgeSettings(**judge)}, runtime=lent), lent


async def finish(queue, trial):
    async with anyio.create_task_group() as beside:
        beside.start_soon(queue.run)
        with anyio.fail_after(120):
            await trial.finished.wait()
        beside.cancel_scope.cancel()


async def test_a_try_has_its_times_and_its_case():
    ours, lent = queue_of()
    trial = ours.start(ROW, NAME, 3)
    assert trial.result is None
    await finish(ours, trial)
    assert (len(trial.result.runs), trial.error, trial.trace_id) == (3, "", "a" * 32)
    assert ours.find(trial.name) is trial
    assert total(lent.metrics, "ragmonitor_trials_total", evaluator=NAME, outcome="scored") == 3


async def test_there_is_one_at_a_time_and_so_many_an_hour():
    clock = ManualClock()
    ours, _ = queue_of(2, clock)
    async with anyio.create_task_group() as beside:
        beside.start_soon(ours.run)
        first = ours.start(ROW, NAME, 1)
        with pytest.raises(Overloaded, match="only one runs at a time"):
            ours.start(ROW, NAME, 1)
        await first.finished.wait()
        clock.advance(600)
        await ours.start(ROW, NAME, 1).finished.wait()
        with pytest.raises(Overloaded, match=r"ui\.max_trials_per_hour") as refused:
            ours.start(ROW, NAME, 1)
        assert refused.value.retry_after == 3000
        clock.advance(3000)
        await ours.start(ROW, NAME, 1).finished.wait()
        beside.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("row", "name", "times", "fault"),
    [
        ({"request_id": "a" * 32}, NAME, 1, InvalidData),
        (ROW, "nobody", 1, ConfigError),
        (ROW, NAME, 0, ConfigError),
        (ROW, NAME, 6, ConfigError),
    ],
)
async def test_what_cannot_be_tried_is_refused_and_is_none_of_the_hour(row, name, times, fault):
    ours, _ = queue_of(1)
    with pytest.raises(fault):
        ours.start(row, name, times)
    await finish(ours, ours.start(ROW, NAME, 1))


async def test_what_was_tried_is_forgotten_after_an_hour_and_behind_twenty_newer_ones():
    clock = ManualClock()
    ours, _ = queue_of(1000, clock)
    async with anyio.create_task_group() as beside:
        beside.start_soon(ours.run)
        made = []
        for _ in range(21):
            made.append(ours.start(ROW, NAME, 1))
            await made[-1].finished.wait()
        beside.cancel_scope.cancel()
    assert ours.find(made[0].name) is None
    assert ours.find(made[-1].name) is made[-1]
    clock.advance(3601)
    assert ours.find(made[-1].name) is None


async def test_a_judge_that_cannot_work_ends_the_try_with_the_reason_and_the_next_one_goes():
    ours, _ = queue_of(model="openai/none", api_key_file="/nowhere/key")
    async with anyio.create_task_group() as beside:
        beside.start_soon(ours.run)
        failed = ours.start(ROW, "groundedness", 1)
        await failed.finished.wait()
        assert "The evaluator cannot run" in failed.error
        await ours.start(ROW, NAME, 1).finished.wait()
        beside.cancel_scope.cancel()


@pytest.mark.parametrize(("happens", "said"), [(TypeError("secret"), "TypeError"), (None, "stopped after")])
async def test_whatever_happens_within_a_try_it_ends_and_says_so(monkeypatch, happens, said):
    async def run(*_, **__):
        if happens is not None:
            raise happens
        await anyio.sleep_forever()

    monkeypatch.setattr(trials, "run", run)
    monkeypatch.setattr(trial_queue, "TIMEOUT", 0.05)
    ours, _ = queue_of()
    trial = ours.start(ROW, NAME, 1)
    await finish(ours, trial)
    assert said in trial.error
    assert "secret" not in trial.error
