"""Rows of results, key by key, and what samplers learn from those that are nearly none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from monitor.model.case import Traffic
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    Attempt,
    Cost,
    RateScope,
    RecheckOutcome,
    Score,
    Selection,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.model.severe import SecondJudgement, SevereOutcome
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.storage.history.rows import as_json, dump, from_json, load, past_result
from tests.support.results import judged

CHOSEN = Selection(0.5, 0.25, (1.0, 0.0), 0.5, INPUTS_VERSION)


def test_a_score_has_its_level_and_verdict_and_no_reason() -> None:
    row = as_json(judged(1, 1.0, cost=Cost("m", 0.5, tries=(Attempt(1.0, "ok", ""),))))
    names = ("outcome", "reason", "detail", "score", "label", "level", "defect", "explanation", "weight", "schema")
    assert [row[name] for name in names] == ["score", None, None, 1.0, "x", "high", True, "because", 10.0, 1]
    assert (row["judge"]["dollars"], "tries" in row["judge"], row["sampling"]) == (0.5, False, None)
    assert row["evidence"][0] == {"claim": "two years", "verdict": "supported", "start": 6, "end": 15, "note": ""}


@pytest.mark.parametrize(("attempts", "asked"), [(0, False), (2, True)])
def test_a_row_that_does_not_tell_whether_a_judge_was_asked_is_read_by_its_calls(attempts: int, asked: bool) -> None:
    row = as_json(judged(1, cost=Cost("m", attempts=attempts)))
    del row["judge"]["asked"]
    assert from_json(row).cost.asked is asked


def test_a_row_tells_that_a_judge_was_asked_whose_call_another_evaluator_has() -> None:
    row = as_json(judged(1, cost=Cost("m", attempts=0, asked=True)))
    assert (row["judge"]["asked"], from_json(row).cost.asked) == (True, True)


@pytest.mark.parametrize(
    ("outcome", "reason", "detail", "hidden"),
    [
        (Unscored(UnscoredReason.TIMEOUT, "after 60 s"), "timeout", "after 60 s", ""),
        (Skipped(SkippedReason.REFUSAL), "refusal", None, None),
    ],
)
def test_without_a_score_there_is_a_reason_and_nothing_of_a_score(
    outcome: Any, reason: str, detail: str | None, hidden: str | None
) -> None:
    row = as_json(judged(1, outcome=outcome, defect=True))
    assert [row[name] for name in ("reason", "detail")] == [reason, detail]
    assert [row[name] for name in ("score", "label", "level", "defect", "explanation")] == [None] * 5
    assert row["evidence"] == []
    assert as_json(judged(1, outcome=outcome), quotes=False)["detail"] == hidden


def test_without_quotes_offsets_stay_and_words_do_not() -> None:
    row = as_json(judged(1), quotes=False)
    assert row["explanation"] == ""
    assert row["evidence"] == [{"claim": "", "verdict": "supported", "start": 6, "end": 15, "note": ""}]


def test_what_few_results_have_is_left_out_of_the_others() -> None:
    few = {"second", "recheck", "contradicts", "origin", "used"}
    assert few.isdisjoint(as_json(judged(1)))
    whole = judged(
        1,
        outcome=Score(1.0, "", contradicts=True, used_sources="1"),
        second=SecondJudgement(SevereOutcome.REFUTED, 4.0, "m"),
        recheck=RecheckOutcome.OTHER,
        origin="kafka",
    )
    row = as_json(whole)
    assert {name: row[name] for name in few} == {
        "second": {"outcome": "refuted", "score": 4.0, "model": "m"},
        "recheck": "other",
        "contradicts": True,
        "origin": "kafka",
        "used": "1",
    }
    assert "used" not in as_json(whole, texts=False)
    assert from_json(load(dump(row))).recheck is RecheckOutcome.OTHER


def test_texts_are_only_in_rows_of_our_own_scores_that_have_some() -> None:
    texts = {"request", "retrieved_context", "context_status", "response", "user_id"}
    assert texts <= as_json(judged(1)).keys()
    assert texts.isdisjoint(as_json(judged(1), texts=False))
    assert texts.isdisjoint(as_json(replace(judged(1), score_source=ScoreSource.FEEDBACK)))
    silent = replace(judged(1), case=replace(judged(1).case, response=""))
    assert texts <= as_json(silent).keys()


def test_half_a_pair_of_characters_is_written_and_read_again() -> None:
    assert load(dump({"a": "\ud800"})) == {"a": "\ud800"}
    assert dump({"a": 1}) == b'{"a":1}'


@pytest.mark.parametrize("key", ["id", "outcome", "judge", "versions", "weight"])
def test_a_row_that_lacks_a_key_is_no_result(key: str) -> None:
    row = as_json(judged(1))
    del row[key]
    with pytest.raises(ValueError, match=f"not a result: KeyError: '{key}'"):
        from_json(row)


def learned(**changes: Any) -> Any:
    return past_result({**as_json(judged(1, selection=CHOSEN, cost=Cost("m", 0.5, attempts=1))), **changes})


def test_a_result_that_was_not_sampled_weighs_one_and_has_no_inputs() -> None:
    found = learned(sampling=None)
    assert (found.inputs, found.shift, found.emphasis, found.defect) == ((), 0.0, 1.0, False)


def test_a_sampled_result_is_emphasized_by_target_over_probability() -> None:
    found = learned()
    assert (found.inputs, found.shift, found.emphasis, found.dollars) == ((1.0, 0.0), 0.5, 0.5, 0.5)


@pytest.mark.parametrize("scope", list(RateScope))
def test_cases_that_people_chose_teach_no_verdict(scope: RateScope) -> None:
    chosen = (RateScope.BACKFILL, RateScope.USER_DISLIKED, RateScope.RANKING)
    assert learned(scope=scope.value).defect is (None if scope in chosen else False)


@pytest.mark.parametrize("traffic", list(Traffic))
def test_only_production_teaches_a_verdict(traffic: Traffic) -> None:
    assert learned(traffic=traffic.value).defect is (False if traffic is Traffic.PRODUCTION else None)


@pytest.mark.parametrize(
    "changes",
    [
        {"defect": None},
        {"defect": 1},
        {"id": 7},
        {"app": None},
        {"judge": {"dollars": float("inf")}},
        {"judge": {"dollars": "x"}},
        {"judge": {}},
        {"sampling": {"probability": 0.0, "target": 1.0, "inputs": ()}},
        {"sampling": {"probability": 1.0, "target": float("nan"), "inputs": ()}},
        {"sampling": {"probability": 1.0, "target": 1.0, "inputs": (), "shift": float("inf")}},
        {"sampling": {"probability": 1.0, "target": 1.0}},
        {"schema": 2},
    ],
)
def test_a_row_that_is_nearly_one_teaches_nothing(changes: dict[str, Any]) -> None:
    assert learned(**changes) is None


def test_costs_below_zero_are_none() -> None:
    assert learned(judge={"dollars": -1.0}).dollars == 0.0
