"""The second judgement of severe answers: by whom, when, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from monitor.alerts.policy import AlertPolicy, SevereSettings
from monitor.alerts.severe import SevereLog
from monitor.errors import JudgeError
from monitor.model.external import ExternalScore, ScoreSource
from monitor.model.outcome import Cost, DefectRule, RateScope, UnscoredReason
from monitor.pipeline import severe as severe_module
from monitor.pipeline.severe import SevereCases
from monitor.samplers.uniform import Uniform
from monitor.stages import Prompt, Question, Runtime, Verdict
from monitor.storage.history.rows import as_json
from monitor.storage.severe_cases import SevereCaseFile
from tests.support.evaluators import FakeJudge, JudgedEvaluator, case, configured, live
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio
RULES = {"judged": DefectRule("below", 2)}


class Second(FakeJudge):
    """Remembers what it was asked."""

    def __init__(self, score: float, error: Exception | None = None) -> None:
        super().__init__(score, error)
        self.asked: list[Question | Prompt] = []

    async def ask(self, question: Question | Prompt) -> Verdict:
        self.asked.append(question)
        return await super().ask(question)


class Bench:
    def __init__(
        self, first: float, second: FakeJudge | None = None, file: Callable[[Runtime], SevereCaseFile] | None = None
    ) -> None:
        self.runtime = runtime()
        policies = [AlertPolicy(evaluator="judged", severe=SevereSettings(judge="second" if second else None))]
        self.first = Second(first)
        judges = {"": self.first, **({"second": second} if second else {})}
        one = configured(JudgedEvaluator(), Uniform(rate=1.0))
        self.log = SevereLog(policies, RULES)
        self.file = file(self.runtime) if file is not None else None
        self.severe = SevereCases(
            policies, RULES, configured=[one], judges=judges, log=self.log, file=self.file, runtime=self.runtime
        )
        self.evaluation = live([one], judges={"": self.first}, lent=self.runtime, severe=self.severe)

    async def run(self, **fields: object) -> None:
        one = replace(case(), app="shop", **fields)  # type: ignore[arg-type]
        await self.evaluation.score_judged(one, self.evaluation.choose(one))

    def counted(self, outcome: str) -> float | None:
        labels = {"app": "shop", "evaluator": "judged", "outcome": outcome}
        return self.runtime.metrics.registry.get_sample_value("ragmonitor_severe_verdicts_total", labels)

    def sessions(self) -> float | None:
        labels = {"app": "shop", "evaluator": "judged"}
        return self.runtime.metrics.registry.get_sample_value("ragmonitor_severe_confirmed_total", labels)


async def test_a_mild_answer_is_judged_once() -> None:
    bench = Bench(3)
    await bench.run()
    assert len(bench.first.asked) == 1
    assert bench.counted("confirmed") is None


async def test_the_same_judge_is_asked_in_other_words() -> None:
    bench = Bench(1)
    await bench.run(session_id="a")
    first, second = bench.first.asked
    assert isinstance(first, Question)
    assert isinstance(second, Question)
    assert second.instructions != first.instructions
    assert second.instructions.endswith(first.instructions)
    assert (second.material, second.schema) == (first.material, first.schema)
    assert (bench.counted("confirmed"), bench.sessions()) == (1, 1)


async def test_another_judge_is_asked_the_same_and_may_refute() -> None:
    other = Second(5)
    bench = Bench(1, other)
    await bench.run()
    assert other.asked == bench.first.asked
    assert (bench.counted("refuted"), bench.sessions()) == (1, None)


async def test_without_a_second_judgement_nothing_is_confirmed() -> None:
    bench = Bench(1, FakeJudge(error=JudgeError(UnscoredReason.BUDGET, "spent")))
    await bench.run()
    assert (bench.counted("unscored"), bench.sessions()) == (1, None)


@pytest.mark.parametrize("error", [None, JudgeError(UnscoredReason.MALFORMED, "prose", Cost("", 0.25, 10, 5, 1.0, 1))])
async def test_what_the_second_judgement_cost_is_in_the_result(error: JudgeError | None) -> None:
    bench = Bench(1, Second(1, error))
    one = replace(case(), app="shop")
    (result,) = await bench.evaluation._scorer.score(one, bench.evaluation.choose(one))
    cost = (await bench.severe.check(one, result)).cost
    assert (cost.dollars, cost.input_tokens, cost.output_tokens, cost.attempts) == (0.5, 20, 10, 2)
    assert (cost.model, cost.seconds) == (result.cost.model, result.cost.seconds)


async def test_two_cases_of_a_session_are_one_session() -> None:
    bench = Bench(1)
    for number in range(3):
        await bench.run(session_id="a", request_id=f"r{number}")
    await bench.run(session_id="b", request_id="other")
    assert (bench.counted("confirmed"), bench.sessions()) == (4, 2)


async def test_only_live_results_are_judged_again() -> None:
    bench = Bench(1)
    one = replace(case(), app="shop")
    (result,) = await bench.evaluation._scorer.score(one, bench.evaluation.choose(one))
    for scope in RateScope:
        bench.first.asked.clear()
        checked = await bench.severe.check(one, replace(result, scope=scope))
        assert len(bench.first.asked) == (scope is RateScope.LIVE)
        assert (checked.second is not None) == (scope is RateScope.LIVE)


@pytest.mark.parametrize(
    ("second", "outcome", "score"),
    [
        (Second(1), "confirmed", 1),
        (Second(5), "refuted", 5),
        (Second(1, JudgeError(UnscoredReason.BUDGET, "spent")), "unscored", None),
    ],
)
async def test_the_second_judgement_is_stored_with_the_first(second: Second, outcome: str, score: float | None) -> None:
    bench = Bench(1, second)
    one = replace(case(), app="shop")
    (result,) = await bench.evaluation._scorer.score(one, bench.evaluation.choose(one))
    checked = await bench.severe.check(one, result)
    assert checked.outcome == result.outcome
    row = as_json(checked, texts=False, quotes=False)
    assert (row["second"]["outcome"], row["second"]["score"]) == (outcome, score)
    assert "second" not in as_json(result)


def call(label: str, **fields: object) -> ExternalScore:
    made = ExternalScore(
        request_id="r1", evaluator="judged", score_source=ScoreSource.FEEDBACK, label=label, annotator="HUMAN"
    )
    return replace(made, **fields)  # type: ignore[arg-type]


async def test_the_first_call_on_a_case_counts_and_the_last_one_holds() -> None:
    bench = Bench(1)
    await bench.run(request_id="r1")
    for label in ("wrong", "right", "right"):
        assert await bench.severe.called(call(label))
    labels = {"app": "shop", "evaluator": "judged"}
    value = bench.runtime.metrics.registry.get_sample_value
    assert value("ragmonitor_severe_called_total", {**labels, "call": "wrong"}) == 1
    assert value("ragmonitor_severe_called_total", {**labels, "call": "right"}) is None


@pytest.mark.parametrize(
    "score",
    [
        call("helpful"),
        call("right", evaluator="other"),
        call("right", value=1.0),
        call("right", score_source=ScoreSource.OPENINFERENCE),
    ],
)
async def test_other_feedback_is_no_call(score: ExternalScore) -> None:
    assert not await Bench(1).severe.called(score)


async def test_a_call_on_an_unknown_case_is_taken_and_changes_nothing() -> None:
    assert await Bench(1).severe.called(call("right"))


async def test_a_case_that_cannot_be_written_holds_nothing_up_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(severe_module, "_WRITE_AGAIN", 0.005)
    path = tmp_path / "severe_cases.db"
    path.mkdir()
    bench = Bench(1, file=partial(SevereCaseFile, path, 3600.0))
    for number in range(3):
        await bench.run(session_id=f"s-{number}")
    assert bench.sessions() == 3, "in memory it is known"
    assert total(bench.runtime.metrics, "ragmonitor_database_failing", database="severe_cases") == 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.severe.run)
        path.rmdir()
        await until(lambda: total(bench.runtime.metrics, "ragmonitor_database_failing", database="severe_cases") == 0)
        tasks.cancel_scope.cancel()
    assert bench.file is not None
    assert len(bench.file.load()) == 3
    assert total(bench.runtime.metrics, "ragmonitor_database_unwritten_records_total") == 0


async def test_cases_that_could_not_be_written_before_the_end_are_counted(tmp_path: Path) -> None:
    (tmp_path / "severe_cases.db").mkdir()
    bench = Bench(1, file=partial(SevereCaseFile, tmp_path / "severe_cases.db", 3600.0))
    for number in range(3):
        await bench.run(session_id=f"s-{number}")
    with anyio.move_on_after(0.01):
        await bench.severe.run()
    lost = total(bench.runtime.metrics, "ragmonitor_database_unwritten_records_total", database="severe_cases")
    assert lost == 3
