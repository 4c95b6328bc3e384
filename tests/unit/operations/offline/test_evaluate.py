"""Evaluating cases from Python: `from monitor import evaluate, aevaluate, Case`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import anyio
import pytest

import monitor
from monitor import Case, ConfigError, Document, Evaluation, InvalidData, aevaluate, evaluate
from monitor.errors import JudgeError
from monitor.model.case import Usage
from monitor.model.outcome import Score, UnscoredReason
from monitor.stages import Evaluator, Verdict
from monitor.statistics.rates import Sums, estimate
from monitor.testing import ScriptedJudge
from tests.support.evaluators import JudgedEvaluator, LocalEvaluator

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."


def case(response: str = GOOD, **fields: Any) -> Case:
    return Case.from_texts("How long?", response, [CONTEXT], **fields)


def scored(score: float, **fields: Any) -> Verdict:
    return Verdict({"score": score}, "scripted", **fields)


def test_results_stand_in_the_order_of_cases_and_then_of_evaluators() -> None:
    judge = ScriptedJudge(lambda _question: scored(4))
    cases = [case(GOOD, request_id="a"), case(BAD, request_id="b"), case(GOOD, request_id="a")]
    found = evaluate(cases, [JudgedEvaluator(), "overlap_groundedness"], judge=judge)
    assert [(one.case.request_id, one.evaluator) for one in found.results] == [
        (name, evaluator) for name in "aba" for evaluator in ("judged", "overlap_groundedness")
    ]


def test_a_summary_has_the_numbers_and_intervals_of_the_product() -> None:
    found = evaluate([case(), case(BAD), case(), Case.from_texts("?", "!")], ["overlap_groundedness"])
    one = found["overlap_groundedness"]
    assert (one.scored, one.defects, one.skipped, one.unscored) == (3, 1, {"no_retrieval": 1}, {})
    rate = estimate(Sums.counted(3, 1))
    assert rate is not None
    shown = one.defect_rate
    assert (shown.rate, shown.lower, shown.upper) == (rate.rate, rate.lower, rate.upper)
    assert one.mean_score == pytest.approx(sum(each.outcome.value for each in found.results[:3]) / 3)  # type: ignore[union-attr]
    assert found.dollars == one.dollars == 0


def test_an_evaluator_may_be_a_name_an_entry_of_the_configuration_or_an_instance() -> None:
    entry = {"type": "overlap_groundedness", "defect": {"below": 1}, "sample": "1%"}
    found = evaluate([case("Books may be kept for three long weeks.")], [entry, "response_length", LocalEvaluator()])
    assert list(found.summaries) == ["overlap_groundedness", "response_length", "local"]
    assert found["overlap_groundedness"].defects == 1
    assert all(one.scored == 1 for one in found.summaries.values())


@pytest.mark.parametrize(
    "row",
    [
        {"question": "How long?", "contexts": [CONTEXT], "answer": GOOD},
        {"user_input": "How long?", "retrieved_contexts": [CONTEXT], "response": GOOD},
        {"query": "How long?", "context": CONTEXT, "response": GOOD},
        {"request": "How long?", "retrieved_context": [{"content": CONTEXT, "doc_uri": "kb/1"}], "response": GOOD},
        {"request": "How long?", "retrieved_context": [Document(CONTEXT)], "response": GOOD, "score": float("nan")},
    ],
)
def test_a_row_in_any_known_shape_is_a_case(row: dict[str, Any]) -> None:
    (result,) = evaluate([row], ["overlap_groundedness"]).results
    assert isinstance(result.outcome, Score)
    assert result.outcome.value == 1
    assert (result.case.request.query, result.case.response) == ("How long?", GOOD)


class Array:
    """What numpy and pandas put into cells."""

    def tolist(self) -> list[str]:
        return [CONTEXT]


class NAType:
    """The missing value of pandas, which is nothing that JSON knows."""


def test_cells_of_a_data_frame_are_read_as_json_would_have_them() -> None:
    row = {
        "question": "How long?",
        "contexts": Array(),
        "answer": GOOD,
        "timestamp": NAType(),
        "attributes": {"tags": {"a"}},
    }
    (result,) = evaluate([row], ["overlap_groundedness"]).results
    assert isinstance(result.outcome, Score)
    with pytest.raises(InvalidData, match=r"cases\[1\]: the row cannot be written as JSON"):
        evaluate([row, {**row, "tags": object()}], ["overlap_groundedness"])


def test_a_row_without_an_answer_is_left_out_and_said() -> None:
    rows = [
        {"question": "?", "contexts": [CONTEXT], "answer": None},
        case(),
        {"question": "", "contexts": [], "answer": "a"},
    ]
    found = evaluate(rows, ["overlap_groundedness", "response_length"])
    assert found.excluded == {0: "the row has no answer", 2: "the row has no question"}
    assert [one["case"] for one in found.records()] == [1, 1]
    assert found.problems == [
        "case 0 is left out: the row has no answer",
        "case 2 is left out: the row has no question",
    ]


def test_whatever_is_no_good_score_is_a_problem() -> None:
    answers = [scored(1), JudgeError(UnscoredReason.TIMEOUT, "no answer within 30 s"), scored(5)]
    given = [case(), case(), case(), Case.from_texts("?", "!")]
    assert evaluate(given, [JudgedEvaluator()], judge=ScriptedJudge(answers)).problems == [
        "case 0: judged is 1 (below 3): because",
        "case 1: judged is unscored: timeout: no answer within 30 s",
        "case 3: judged is skipped: no_retrieval",
    ]
    assert not evaluate(given[:1], [JudgedEvaluator()], judge=ScriptedJudge([scored(5)])).problems


def test_a_record_is_flat_and_names_the_case() -> None:
    judge = ScriptedJudge([scored(1, dollars=0.5, input_tokens=7), JudgeError(UnscoredReason.TIMEOUT, "late")])
    found = evaluate([case(app="shop"), case(BAD)], [JudgedEvaluator()], judge=judge)
    good, bad = found.records()
    assert good.keys() == bad.keys()
    assert all(isinstance(value, str | int | float | bool | None) for one in (good, bad) for value in one.values())
    assert (good["case"], good["app"], good["query"], good["score"], good["defect"]) == (
        0,
        "shop",
        "How long?",
        1,
        True,
    )
    assert (bad["case"], bad["outcome"], bad["reason"], bad["score"]) == (1, "unscored", "timeout", None)
    assert (good["dollars"], good["input_tokens"], found.dollars, found["judged"].dollars) == (0.5, 7, 0.5, 0.5)


def test_of_an_empty_set_nothing_is_known_and_no_bound_holds() -> None:
    found = evaluate([], ["overlap_groundedness"])
    one = found["overlap_groundedness"]
    assert (found.results, found.records(), found.problems, one.scored, one.mean_score) == ((), [], [], 0, None)
    assert (one.defect_rate.rate, one.defect_rate.lower, one.defect_rate.upper) == (None, 0, 1)


def test_a_summary_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(KeyError, match="'relevance' was not run; there are: overlap_groundedness"):
        evaluate([case()], ["overlap_groundedness"])["relevance"]


def test_an_evaluator_that_raises_is_unscored_and_the_others_go_on() -> None:
    found = evaluate([case()], [LocalEvaluator(value=-1), "overlap_groundedness"])
    assert found["local"].unscored == {"error": 1}
    assert found["overlap_groundedness"].scored == 1


def test_an_evaluator_that_returns_no_outcome_is_unscored() -> None:
    class Forgetful(LocalEvaluator):
        async def evaluate(self, case: Case, judge: Any) -> Any:
            return None

    found = evaluate([case()], [Forgetful()])
    assert found["local"].unscored == {"error": 1}
    assert found.records()[0]["outcome"] == "unscored"


def test_a_judge_that_breaks_every_promise_is_unscored() -> None:
    class Broken(ScriptedJudge):
        async def ask(self, question: object) -> Verdict:
            raise ZeroDivisionError

    found = evaluate([case()], [JudgedEvaluator()], judge=Broken([]))
    assert found["judged"].unscored == {"error": 1}


HALF = "\ud800 half a pair \udc00"


def test_halves_of_characters_are_no_reason_to_fail() -> None:
    row = {"question": f"How long? {HALF}", "contexts": [CONTEXT + HALF], "answer": GOOD + HALF, HALF: HALF}
    whole = Case.from_texts(HALF, GOOD + HALF, [CONTEXT + HALF], request_id=HALF)
    with pytest.warns(UserWarning, match="half a pair"):  # a field of that name is not read
        found = evaluate([row, whole, Case.from_texts(HALF, GOOD)], ["overlap_groundedness"])
    assert found["overlap_groundedness"].scored == 2
    assert found.records()[1]["request_id"] == HALF


def test_huge_texts_are_scored_like_any_other() -> None:
    text = "Books may be kept. " * 100_000
    found = evaluate([Case.from_texts(text, text, [text])], ["overlap_groundedness", "response_length"])
    assert [one.scored for one in found.summaries.values()] == [1, 1]


class Busy(JudgedEvaluator):
    """Counts how many of it are under way at once."""

    now: ClassVar[int] = 0
    most: ClassVar[int] = 0

    async def evaluate(self, case: Case, judge: Any) -> Any:
        Busy.now += 1
        Busy.most = max(Busy.most, Busy.now)
        await anyio.sleep(0.001)
        Busy.now -= 1
        return Score(5, "")


def test_thousands_of_cases_wait_for_the_judge_in_small_numbers_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    cases = (case(f"{GOOD} {number}") for number in range(3_000))
    found = evaluate(cases, [Busy()], judge=ScriptedJudge([]), progress=lambda *done: told.append(done))
    assert found["judged"].scored == len(found.results) == 3_000
    assert 1 < Busy.most <= 16
    assert told == [(number, 3_000) for number in range(1, 3_001)]


@pytest.mark.parametrize(
    ("evaluators", "judge", "said"),
    [
        (["groundednes"], None, r"evaluators\[0\]: there is no 'groundednes' in .* \(did you mean 'groundedness'\?\)"),
        (["overlap_groundedness", "groundedness"], None, r"evaluators\[1\]: groundedness asks a judge"),
        ([LocalEvaluator(), LocalEvaluator(value=3)], None, r"evaluators\[1\]: 'local' is given twice"),
        ([], None, "evaluators: name at least one evaluator"),
        ("groundedness", "m", r"evaluators: must be a list, such as \['groundedness'\], not str"),
        (None, None, "evaluators: must be a list"),
        ([5], None, r"evaluators\[0\]: must be a name, a dictionary or an instance of `Evaluator`, not int"),
        ([LocalEvaluator], None, r"evaluators\[0\]: .*not the class LocalEvaluator"),
        ([{"type": "overlap_groundedness", "at": 1}], None, r"evaluators\[0\].at: unknown key"),
        ([{"type": "groundedness", "defect": {"at_least": 3}}], "m", r"evaluators\[0\].defect"),
        ([{"type": "groundedness", "judge": "small"}], "m", r"evaluators\[0\].judge: 'small' is not in `judges`"),
        (["hhem"], "openai/gpt-4o-mini", r"evaluators\[0\]: hhem needs `classifier/NAME`"),
        (["groundedness"], "", "judge.model: must not be empty"),
        (["groundedness"], {"modell": "m"}, "judge.modell: unknown key .did you mean .model"),
        (["groundedness"], {"model": "m", "api_base": "ftp://x"}, "judge.api_base"),
        (["groundedness"], 5, "judge: must be the name of a model or a dictionary of options, not int"),
        (["groundedness"], ScriptedJudge, "judge: .* not the class ScriptedJudge"),
    ],
)  # fmt: skip
def test_wrong_evaluators_and_judges_are_refused_with_their_place(evaluators: Any, judge: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        evaluate([case()], evaluators, judge=judge)


def test_an_evaluator_that_is_not_declared_in_full_says_what_it_lacks() -> None:
    class Bare(Evaluator):
        name: ClassVar[str] = "bare"

        async def evaluate(self, case: Case, judge: Any) -> Any: ...

    with pytest.raises(ConfigError, match="the class Bare does not set version, scale, default_defect"):
        evaluate([case()], [Bare()])


class Frame:
    """As pandas has it: iterating gives the names of the columns."""

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        raise AssertionError(orient)

    def __iter__(self) -> Any:
        return iter(["question"])


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (case(), "cases: must be a list of cases or rows, not Case"),
        ({"question": "?"}, "not dict"),
        ("question", "not str"),
        (None, "not NoneType"),
        (Frame(), r'for a pandas DataFrame, pass `df.to_dict\("records"\)`'),
        ([Case(request_id="1", request="How long?")], r"cases\[0\]: `request` must be a `Request`"),  # type: ignore[arg-type]
        ([Case(request_id=5)], r"cases\[0\]: .* texts a str"),  # type: ignore[arg-type]
        ([Case(request_id="1", response=None)], r"cases\[0\]: .* texts a str"),  # type: ignore[arg-type]
        ([Case(request_id="1", retrieved_context=("a text",))], r"cases\[0\]: `retrieved_context`"),  # type: ignore[arg-type]
        ([case(), "question"], r"cases\[1\]: must be a `Case` or a row \(a dictionary\), not str"),
        ([{"foo": 1}], r"cases\[0\]: the row has 'foo'; expected one of: "),
        ([{"question": "?", "contexts": [], "answer": b"bytes"}], r"cases\[0\]: the row cannot be written as JSON"),
    ],
)
def test_what_is_no_case_is_refused_with_its_place(cases: Any, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        evaluate(cases, ["overlap_groundedness"])


@pytest.mark.anyio
async def test_inside_a_running_loop_the_async_form_is_named_and_works() -> None:
    with pytest.raises(RuntimeError, match="await aevaluate"):
        evaluate([case()], ["overlap_groundedness"])
    found = await aevaluate([case()], ["overlap_groundedness"])
    assert isinstance(found, Evaluation)
    assert found["overlap_groundedness"].scored == 1


def test_it_runs_in_a_thread_beside_a_loop() -> None:
    found: list[Evaluation] = []

    async def main() -> None:
        await anyio.to_thread.run_sync(lambda: found.append(evaluate([case()], ["overlap_groundedness"])))

    anyio.run(main)
    assert found[0]["overlap_groundedness"].scored == 1


@pytest.mark.anyio
async def test_errors_come_as_themselves_out_of_the_async_form() -> None:
    with pytest.raises(ConfigError, match="asks a judge"):
        await aevaluate([case()], ["groundedness"])


def test_the_package_names_what_it_offers_and_imports_it_when_it_is_used() -> None:
    code = """
import sys, monitor
assert set(monitor.__all__) <= set(dir(monitor))
assert [name for name in sys.modules if name.startswith("monitor.")] == []
from monitor import Case
assert "monitor.operations" not in sys.modules and "pydantic" not in sys.modules
for name in monitor.__all__:
    getattr(monitor, name)
assert "litellm" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    with pytest.raises(AttributeError, match="module 'monitor' has no attribute 'evaluat'"):
        monitor.evaluat  # noqa: B018


def test_a_case_of_the_full_value_is_scored_like_one_from_texts() -> None:
    plain = case()
    full = Case(
        request_id="1", request=plain.request, retrieved_context=plain.retrieved_context, response=GOOD, usage=Usage(1)
    )
    one, other = (evaluate([each], ["overlap_groundedness"]).results[0].outcome for each in (plain, full))
    assert one == other


ROW = {"request": "How long?", "response": GOOD, "retrieved_context": [{"content": CONTEXT}]}


def test_fields_of_rows_that_are_not_read_are_a_warning_and_part_of_the_result() -> None:
    rows = [{**ROW, "latency": 3}, {**ROW, "latency": 4, "mood": "good"}, ROW]
    with pytest.warns(UserWarning, match=r"these fields are not read: 'latency' \(2 rows\), 'mood' \(1 row\)") as seen:
        found = evaluate(rows, ["response_length"])
    assert found.unread_fields == {"latency": 2, "mood": 1}
    assert seen[0].filename == __file__


def test_names_that_are_not_read_are_bounded() -> None:
    rows = [{**ROW, **{f"field-{number}-{at}": 1 for at in range(20)}} for number in range(10)]
    with pytest.warns(UserWarning, match=r"and 92 more$"):
        found = evaluate(rows, ["response_length"])
    assert len(found.unread_fields) == 100


def test_rows_get_the_prompt_that_the_service_makes_of_them() -> None:
    asked: list[str] = []

    class SeesPrompt(LocalEvaluator):
        async def evaluate(self, case: Case, judge: Any) -> Score:
            asked.append(case.prompt[-1].content if case.prompt else "")
            return Score(1.0, "seen", "")

    own = {**ROW, "prompt": "Own."}
    evaluate([ROW, own], [SeesPrompt()], row_prompt="By these: {context} {question}")
    assert asked == [f"By these: {CONTEXT} How long?", "Own."]


def test_a_prompt_without_a_question_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"row_prompt: .*question"):
        evaluate([ROW], ["response_length"], row_prompt="{context}")
