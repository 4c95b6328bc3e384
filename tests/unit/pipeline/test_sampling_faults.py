"""A sampler of a plug-in that fails, or gives no probability, costs an evaluation: no process, and no true rate."""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar

import pytest

from monitor.model.case import Case
from monitor.model.outcome import Unscored, UnscoredReason
from monitor.pipeline.local_evaluation import LocalReader
from monitor.pipeline.traffic import Quota
from monitor.stages import FixedSampler, probability_of
from monitor.testing import RecordingSink
from tests.support.evaluators import FakeJudge, JudgedEvaluator, LocalEvaluator, case, configured, live, run_local
from tests.support.runtime import runtime, total


class Careless(FixedSampler):
    """Gives what its test says."""

    given: ClassVar[Any] = None

    def probability(self, case: Case) -> float:
        found: float = self.given() if callable(self.given) else self.given
        return found


def broken() -> float:
    raise KeyError("the secret of a user")


BAD = {
    "raises": (broken, "raised KeyError"),
    "ends": (lambda: sys.exit(4), "raised SystemExit"),
    "above 1": (2.0, "gave 2.0, not a number from 0 to 1"),
    "below 0": (-0.5, "gave -0.5, not"),
    "no number": (math.nan, "gave nan, not"),
    "nothing": (None, "gave an object of type NoneType, not"),
    "a text": ("0.5", "gave an object of type str, not"),
}


class JudgeOfNone(FakeJudge):
    async def ask(self, question):
        raise AssertionError("it is asked nothing")


@pytest.mark.anyio
@pytest.mark.parametrize("evaluator", [LocalEvaluator(), JudgedEvaluator()], ids=["local", "judged"])
@pytest.mark.parametrize("quotas", [None, {"*": Quota(per_day=100)}], ids=["without quota", "with quota"])
@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
async def test_an_evaluation_without_a_probability_is_counted_as_unscored(
    monkeypatch: pytest.MonkeyPatch, evaluator: Any, quotas: Any, given: Any, said: str
) -> None:
    monkeypatch.setattr(Careless, "given", given if not callable(given) else staticmethod(given))
    lent, sink = runtime(), RecordingSink()
    judges = {"": JudgeOfNone()} if evaluator.cost == "judge" else {}
    one = configured(evaluator, Careless())
    evaluation = live([one], judges=judges, sinks={"test": sink.deliver}, lent=lent, quotas=quotas)
    await run_local(evaluation, case())
    await evaluation.score_judged(case(), evaluation.choose(case()))
    (result,) = sink.results
    assert isinstance(result.outcome, Unscored)
    assert result.outcome.reason is UnscoredReason.ERROR
    assert said in result.outcome.detail
    assert "secret" not in result.outcome.detail
    assert total(lent.metrics, "ragmonitor_events_total", event="evaluator_failed") == 1
    assert total(lent.metrics, "ragmonitor_evaluations_selected_total") == 1
    assert total(lent.metrics, "ragmonitor_evaluation_weight_total") == 0


@pytest.mark.parametrize("given", [broken, 2.0])
def test_a_worker_evaluates_nothing_ahead_without_a_probability(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    monkeypatch.setattr(Careless, "given", given if not callable(given) else staticmethod(given))
    reader = LocalReader((), None, [configured(LocalEvaluator(), Careless())])  # type: ignore[arg-type]
    assert not reader._chooses(configured(LocalEvaluator(), Careless()), case())


@pytest.mark.parametrize(("given", "probability"), [(0, 0.0), (0.25, 0.25), (True, 1.0), (1, 1.0)])
def test_every_number_from_0_to_1_is_a_probability(
    monkeypatch: pytest.MonkeyPatch, given: Any, probability: float
) -> None:
    monkeypatch.setattr(Careless, "given", given)
    found, fault = probability_of(Careless(), case())
    assert (found, type(found), fault) == (probability, float, "")
