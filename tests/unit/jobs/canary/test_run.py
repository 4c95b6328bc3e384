"""The canary at work: asked past the cache, held against its first runs, apart from all that production counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.config.entries import read_evaluator
from monitor.errors import JudgeError
from monitor.jobs.canary import CanarySettings, load
from monitor.jobs.canary.run import AGREEMENTS, Canary
from monitor.model.canary import CanaryRun
from monitor.model.case import Case
from monitor.model.outcome import UnscoredReason
from monitor.stages import Runtime
from monitor.statistics.reference import RUNS
from monitor.testing import ScriptedAnswer, ScriptedJudge
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio
VERDICTS = "ragmonitor_canary_verdicts_total"
DOWN = JudgeError(UnscoredReason.PROVIDER_ERROR, "down")


def rated(score: int) -> dict[str, Any]:
    return {"observations": ["seen"], "explanation": "as seen", "score": score}


class World:
    """Eight cases, of which the judge finds `bad` ones bad."""

    def __init__(self, folder: Path, *, evaluators: tuple[dict[str, Any], ...] = ({"type": "relevance"},)) -> None:
        self.path = folder / "canary.json"
        self.lent: Runtime = runtime(ManualClock())
        self.bad: set[int] = {0}
        self.answer: Callable[[int], ScriptedAnswer] = lambda number: rated(1 if number in self.bad else 5)
        self.judge = ScriptedJudge(self.asked)
        self.evaluators = evaluators
        self.heard: list[CanaryRun] = []
        file = folder / "cases.jsonl"
        rows = [
            {"request": f"How warm is day {n}?", "response": f"It is {n}.", "retrieved_context": [{"content": "c"}]}
            for n in range(8)
        ]
        file.write_text("\n".join(json.dumps(row) for row in rows))
        self.settings = CanarySettings(cases=file)

    def asked(self, question: Any) -> ScriptedAnswer:
        return self.answer(int(question.material["response"].removeprefix("It is ").rstrip(".")))

    def canary(self, lent: Runtime | None = None, cases: dict[str, Case] | None = None) -> Canary:
        return Canary(
            self.settings,
            [read_evaluator(entry, "evaluators") for entry in self.evaluators],
            judges={"": self.judge},
            cases=cases or load(self.settings.cases),
            runtime=lent or self.lent,
            path=self.path,
            on_run=self.heard.append,
        )

    async def learn(self) -> Canary:
        canary = self.canary()
        for _ in range(RUNS):
            await canary.once()
        return canary

    def verdicts(self) -> dict[str, float]:
        return {one: total(self.lent.metrics, VERDICTS, agreement=one) for one in AGREEMENTS}


async def test_from_the_first_runs_on_verdicts_are_held_against_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    canary = await world.learn()
    assert world.heard == []
    assert sum(world.verdicts().values()) == 0
    world.bad = {1, 2}
    await canary.once()
    (run,) = world.heard
    assert (run.same, run.stricter, run.milder, run.tolerance) == (5, 2, 1, 0.05)
    assert (run.evaluator, run.at) == ("relevance", world.lent.clock.now())
    assert world.verdicts() == {"same": 5, "stricter": 2, "milder": 1, "unscored": 0}
    assert total(world.lent.metrics, "ragmonitor_canary_runs_total", version=run.version) == 1
    assert total(world.lent.metrics, "ragmonitor_canary_tolerance_ratio", evaluator="relevance") == 0.05


async def test_no_run_is_answered_from_the_cache_and_none_asks_what_another_has_asked(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.learn()
    repeats = [question.repeat for question in world.judge.questions]
    assert len(repeats) == 8 * RUNS
    assert sorted(set(repeats)) == [1000 * number for number in range(1, RUNS + 1)]


async def test_nothing_that_production_counts_is_touched_and_the_judge_is(tmp_path: Path) -> None:
    world = World(tmp_path)
    before = {
        (sample.name, *sample.labels.items()): sample.value
        for family in world.lent.metrics.registry.collect()
        for sample in family.samples
    }
    await world.learn()
    for family in world.lent.metrics.registry.collect():
        for sample in family.samples:
            if not sample.name.startswith(("ragmonitor_canary", "ragmonitor_events")):
                assert sample.value == before[sample.name, *sample.labels.items()], sample


async def test_the_noise_of_the_first_runs_is_part_of_what_may_differ(tmp_path: Path) -> None:
    world = World(tmp_path)
    canary = world.canary()
    for number in range(RUNS):
        world.bad = {0, 1} if number % 3 == 0 else {0}
        await canary.once()
    assert total(world.lent.metrics, "ragmonitor_canary_tolerance_ratio") == pytest.approx(0.05 + 3 / 72)


async def test_what_was_learned_outlives_the_process_and_a_drift_across_the_restart_shows(tmp_path: Path) -> None:
    world = World(tmp_path)
    canary = await world.learn()
    await canary.once()
    first = world.heard.pop()
    world.bad = set(range(8))
    again = world.canary()
    await recalled(again, world.lent)
    assert world.heard == [first]
    await again.once()
    assert world.heard[-1].stricter == 7


@pytest.mark.parametrize("change", ["model", "defect", "cases"])
async def test_another_version_defect_rule_or_set_of_cases_begins_a_new_reference(change: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.learn()
    cases = load(world.settings.cases)
    if change == "model":
        world.judge.model = "other"
    elif change == "defect":
        world.evaluators = ({"type": "relevance", "defect": {"below": 2}},)
    else:
        cases.popitem()
    changed = world.canary(cases=cases)
    await recalled(changed, world.lent)
    await changed.once()
    assert world.heard == []


async def test_a_file_that_cannot_be_read_is_told_and_everything_begins_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.learn()
    world.path.write_text("{")
    canary = world.canary()
    await recalled(canary, world.lent)
    assert total(world.lent.metrics, "ragmonitor_events_total", event="canary_failed") == 1
    await canary.once()
    assert world.heard == []
    assert json.loads(world.path.read_text())["known"][0]["reference_runs"] == 1


async def test_a_file_that_cannot_be_written_is_told_and_the_canary_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.path.symlink_to(tmp_path / "elsewhere")
    world.path.with_name("canary.json.new").symlink_to(tmp_path / "elsewhere")
    canary = await world.learn()
    await canary.once()
    assert len(world.heard) == 1
    assert total(world.lent.metrics, "ragmonitor_events_total", event="canary_failed") == RUNS + 1
    assert not (tmp_path / "elsewhere").exists()


async def test_a_run_with_less_than_half_of_its_verdicts_tells_nothing_but_that(tmp_path: Path) -> None:
    world = World(tmp_path)
    canary = await world.learn()
    world.answer = lambda number: DOWN if number % 2 or number == 0 else rated(1)
    await canary.once()
    assert world.verdicts() == {"same": 0, "stricter": 0, "milder": 0, "unscored": 5}
    assert world.heard == []


async def test_a_judge_that_is_down_is_asked_about_three_cases_and_teaches_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = lambda _: DOWN
    canary = world.canary()
    await canary.once()
    assert len(world.judge.questions) == 3
    assert world.verdicts()["unscored"] == 8
    world.answer = lambda number: rated(1 if number in world.bad else 5)
    for _ in range(RUNS):
        await canary.once()
    assert world.heard == []


async def test_what_does_not_apply_to_a_case_is_left_out(tmp_path: Path) -> None:
    world = World(tmp_path, evaluators=({"type": "correctness"}, {"type": "relevance"}))
    canary = await world.learn()
    await canary.once()
    assert {run.evaluator: run.judged for run in world.heard} == {"relevance": 8}
    assert total(world.lent.metrics, VERDICTS, evaluator="correctness") == 0


async def test_evaluators_of_one_group_are_asked_in_one_call_as_in_production(tmp_path: Path) -> None:
    world = World(tmp_path, evaluators=({"type": "relevance", "group": "both"}, {"type": "coherence", "group": "both"}))
    world.answer = lambda number: {"relevance": rated(5), "coherence": rated(1 if number else 5)}
    canary = await world.learn()
    assert len(world.judge.questions) == 8 * RUNS
    await canary.once()
    assert {run.evaluator: run.same for run in world.heard} == {"relevance": 8, "coherence": 8}


@pytest.mark.parametrize(
    ("every", "evaluators"), [("off", ({"type": "relevance"},)), ("1h", ({"type": "overlap_groundedness"},))]
)
async def test_without_a_schedule_or_a_judge_there_is_no_canary(
    every: str, evaluators: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    world = World(tmp_path, evaluators=evaluators)
    world.settings = CanarySettings.model_validate({"interval": every, "initial_delay": 0})
    with anyio.fail_after(120):
        await world.canary().run()
    assert world.judge.questions == []
    assert not world.path.exists()


async def test_all_series_stand_at_zero_before_the_first_run_and_a_restart_brings_none_forward(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.settings = CanarySettings.model_validate({"initial_delay": "0s", "cases": str(world.settings.cases)})
    canary = world.canary()
    await canary.once()
    again = runtime(world.lent.clock)
    await recalled(world.canary(again), again)
    assert len(world.judge.questions) == 8
    for agreement in AGREEMENTS:
        (sample,) = [
            sample
            for family in again.metrics.canary_verdicts.collect()
            for sample in family.samples
            if sample.name == VERDICTS and sample.labels["agreement"] == agreement
        ]
        assert sample.value == 0
    assert total(again.metrics, "ragmonitor_canary_last_run_timestamp_seconds") == world.lent.clock.now()
    assert not again.metrics.canary_tolerance.collect()[0].samples


async def recalled(canary: Canary, lent: Runtime) -> None:
    """Begin with the metrics of `lent`, and stop before the first run."""
    lent.metrics.canary_last_run.set(-1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(canary.run)
        await until(lambda: total(lent.metrics, "ragmonitor_canary_last_run_timestamp_seconds") >= 0, "the references")
        tasks.cancel_scope.cancel()
