"""What an evaluator returns is an outcome with plain fields before anything else sees it, or an error of its own."""

from __future__ import annotations

import math
import pickle
from asyncio import CancelledError
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from monitor import evaluate
from monitor.errors import JudgeError
from monitor.model.case import Case
from monitor.model.outcome import Evidence, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.pipeline.local_evaluation import InvalidOutcome, evaluate_local, valid_outcome
from monitor.pipeline.scoring import Scorer
from monitor.storage.history.rows import as_json, dump
from tests.support.evaluators import FakeJudge, JudgedEvaluator, LocalEvaluator, case, configured
from tests.support.results import judged
from tests.support.runtime import runtime

SECRET = "the answer of a user"


class Verdicts(StrEnum):
    """An enumeration of a plug-in, whose members are texts."""

    FOUND = "found"


class Marked(Score):
    """A score of a plug-in's own class."""


class Numbered(float):
    """A number of a library's own class."""


class Returning(LocalEvaluator):
    """Returns what its test says."""

    returned: ClassVar[Any] = None

    async def evaluate(self, case, judge):
        return self.returned


class Raising(LocalEvaluator):
    """Raises what its test says."""

    raised: ClassVar[Any] = None

    async def evaluate(self, case, judge):
        raise self.raised


class RaisingAtJudge(JudgedEvaluator):
    """Raises what its test says."""

    raised: ClassVar[Any] = None

    async def evaluate(self, case, judge):
        raise self.raised


BAD = {
    "nothing": (None, "returned NoneType"),
    "a number": (4.0, "returned float"),
    "a reason that does not exist": (Skipped(SECRET), "Skipped.reason is not one of context_not_recorded,"),
    "no reason": (Skipped(None), "Skipped.reason is of type NoneType"),
    "the reason of another outcome": (Unscored("no_response"), "Unscored.reason is not one of timeout,"),
    "a detail that is no text": (Unscored("error", 5), "Unscored.detail"),
    "claims below 0": (Unscored("error", "", -1), "Unscored.claims_not_found"),
    "a value that is a text": (Score("4", "x"), "Score.value is of type str"),
    "a value that is a list": (Score([4], "x"), "Score.value is of type list"),
    "a value that no float holds": (Score(10**400, "x"), "Score.value"),
    "an explanation that is a number": (Score(4, 5), "Score.explanation is of type int"),
    "no explanation": (Score(4, None), "Score.explanation is of type NoneType"),
    "no label": (Score(4, "x", label=None), "Score.label is of type NoneType"),
    "evidence that is a text": (Score(4, "x", evidence=(SECRET,)), "Score.evidence contains an object of type str"),
    "no evidence": (Score(4, "x", evidence=None), "Score.evidence is of type NoneType"),
    "a claim that is bytes": (Score(4, "x", evidence=(Evidence(b"c", "found"),)), "Evidence.claim"),
    "a note that is none": (Score(4, "x", evidence=(Evidence("c", "found", note=None),)), "Evidence.note"),
    "a verdict of its own": (Score(4, "x", evidence=(Evidence("c", SECRET),)), "Evidence.verdict is not one of"),
    "a verdict that is a list": (Score(4, "x", evidence=(Evidence("c", ["found"]),)), "Evidence.verdict"),
    "an offset that is a text": (Score(4, "x", evidence=(Evidence("c", "found", "0", 1),)), "Evidence.start"),
    "an offset below 0": (Score(4, "x", evidence=(Evidence("c", "found", -5, 1),)), "Evidence.start is below 0"),
    "an offset without end": (Score(4, "x", evidence=(Evidence("c", "found", 0, 10**400),)), "Evidence.end"),
    "an end before the start": (Score(4, "x", evidence=(Evidence("c", "found", 3, 1),)), "Evidence needs both offsets"),
    "one offset": (Score(4, "x", evidence=(Evidence("c", "found", 3),)), "Evidence needs both offsets"),
    "a measure that is a text": (Score(4, "x", measures={"a": "b"}), "Score.measures"),
    "a measure without end": (Score(4, "x", measures={"a": math.inf}), "Score.measures contains inf"),
    "measures in a list": (Score(4, "x", measures=[1.0]), "Score.measures is of type list"),
    "a fact that is a number": (Score(4, "x", facts={"a": 1}), "Score.facts"),
    "a fact without a name": (Score(4, "x", facts={None: "a"}), "Score.facts"),
    "no facts": (Score(4, "x", facts=None), "Score.facts"),
    "sources that are a number": (Score(4, "x", used_sources=5), "Score.used_sources"),
    "sources with other digits": (Score(4, "x", used_sources="012"), "Score.used_sources"),
    "a contradiction that is a text": (Score(4, "x", contradicts="no"), "Score.contradicts"),
    "a contradiction without a judge": (Score(4, "x", contradicts=True), "Score.contradicts"),
    "claims that are a fraction": (Score(4, "x", claims_not_found=0.5), "Score.claims_not_found"),
}


@pytest.mark.parametrize(("returned", "said"), BAD.values(), ids=BAD)
def test_a_field_that_nothing_can_store_is_an_error_of_this_evaluator_that_names_the_field(
    monkeypatch: pytest.MonkeyPatch, returned: Any, said: str
) -> None:
    monkeypatch.setattr(Returning, "returned", returned)
    found = evaluate_local(Returning(), case(), runtime().clock)
    assert isinstance(found.outcome, Unscored)
    assert found.outcome.reason is UnscoredReason.ERROR
    assert said in found.outcome.detail
    assert found.fault == f"InvalidOutcome: {found.outcome.detail}"
    assert SECRET not in found.fault, "it may quote the traffic"


@pytest.mark.parametrize("raised", [SystemExit(4), KeyboardInterrupt(), CancelledError(), GeneratorExit()], ids=repr)
def test_whatever_a_local_evaluator_raises_ends_nothing_but_its_own_evaluation(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    monkeypatch.setattr(Raising, "raised", raised)
    assert evaluate_local(Raising(), case(), runtime().clock).outcome == Unscored(
        UnscoredReason.ERROR, type(raised).__name__
    )


GOOD = {
    "the text of a reason to skip": (Skipped("no_response"), Skipped(SkippedReason.NO_RESPONSE)),
    "the text of a reason of no score": (Unscored("truncated", "x"), Unscored(UnscoredReason.TRUNCATED, "x")),
    "a score of its own class": (Marked(4.0, "x"), Score(4.0, "x")),
    "a whole number": (Score(4, "x"), Score(4.0, "x")),
    "a yes": (Score(True, "x"), Score(1.0, "x")),
    "a number of a library": (Score(Numbered(4), "x", measures={"a": Numbered(1)}), Score(4.0, "x")),
    "a decimal": (Score(Decimal(4), "x"), Score(4.0, "x")),
    "a fraction": (Score(Fraction(4), "x"), Score(4.0, "x")),
    "a label of an enumeration": (Score(4.0, "x", label=Verdicts.FOUND), Score(4.0, "x", label="found")),
    "evidence in a list": (
        Score(4.0, "x", evidence=[Evidence("c", Verdicts.FOUND, False, True)]),
        Score(4.0, "x", evidence=(Evidence("c", "found", 0, 1),)),
    ),
    "facts of an enumeration": (Score(4.0, "x", facts={Verdicts.FOUND: Verdicts.FOUND}), Score(4.0, "x")),
}


@pytest.mark.parametrize(("returned", "meant"), GOOD.values(), ids=GOOD)
def test_what_means_the_same_becomes_plain_so_that_it_can_be_stored_and_sent_to_another_process(
    returned: Any, meant: Any
) -> None:
    found = valid_outcome(LocalEvaluator(), returned)
    assert found == meant
    for one in (found, *getattr(found, "evidence", ())):
        kinds = {type(getattr(one, field.name)) for field in fields(one)}
        assert kinds <= {str, float, int, bool, tuple, dict, SkippedReason, UnscoredReason}
    assert __name__.encode() not in pickle.dumps(found), "no class that only the plug-in knows"
    dump(as_json(judged(1, outcome=found)))


def test_a_score_whose_fields_are_plain_loses_nothing() -> None:
    whole = Score(
        4.0,
        "because",
        "good",
        (Evidence("c", "absent", note="n"), Evidence("d", "supported", 0, 3)),
        {"words": 0.5},
        {"language": "fr"},
        claims_not_found=2,
        used_sources="0110",
    )
    found = valid_outcome(LocalEvaluator(), whole)
    assert isinstance(found, Score)
    assert {one.name: getattr(found, one.name) for one in fields(found)} == {
        one.name: getattr(whole, one.name) for one in fields(whole)
    }


def test_a_judged_evaluator_may_say_itself_that_its_explanation_contradicts_its_score() -> None:
    assert valid_outcome(JudgedEvaluator(), Score(4.0, "x", contradicts=True)) == Score(4.0, "x", contradicts=True)


@pytest.mark.anyio
@pytest.mark.parametrize(("reason", "expected"), [("timeout", "timeout"), (SECRET, "error"), (None, "error")])
async def test_a_judge_error_of_a_plug_in_has_a_known_reason_or_is_an_error(
    monkeypatch: pytest.MonkeyPatch, reason: Any, expected: str
) -> None:
    monkeypatch.setattr(RaisingAtJudge, "raised", JudgeError(reason, "no"))
    (result,) = await Scorer([configured(RaisingAtJudge())], {"": FakeJudge()}, runtime=runtime()).score(case())
    assert isinstance(result.outcome, Unscored)
    assert result.outcome.reason is UnscoredReason(expected)
    assert SECRET not in result.outcome.detail


@pytest.mark.anyio
async def test_a_judged_evaluator_cannot_end_the_process_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaisingAtJudge, "raised", SystemExit(4))
    (result,) = await Scorer([configured(RaisingAtJudge())], {"": FakeJudge()}, runtime=runtime()).score(case())
    assert result.outcome == Unscored(UnscoredReason.ERROR, "SystemExit")


@pytest.mark.parametrize("returned", [Skipped(SECRET), Score(4.0, "x", evidence=None)])
def test_evaluate_in_python_takes_the_same_outcomes_as_the_monitor(
    monkeypatch: pytest.MonkeyPatch, returned: Any
) -> None:
    monkeypatch.setattr(Returning, "returned", returned)
    found = evaluate([Case.from_texts("Is it so?", "It is so.", ["It is."])], [Returning()])
    (result,) = found.results
    assert isinstance(result.outcome, Unscored)
    assert result.outcome.reason is UnscoredReason.ERROR


def test_the_refusal_names_what_was_returned() -> None:
    with pytest.raises(InvalidOutcome, match=r"^local returned str, which is not an outcome$"):
        valid_outcome(LocalEvaluator(), "good")  # type: ignore[arg-type]
