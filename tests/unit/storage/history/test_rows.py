"""Rows of results: what the JSON Schema in docs says they are, and what they teach whoever reads them."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from monitor.model.case import Traffic
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    Cost,
    EvaluationResult,
    RateScope,
    Score,
    Selection,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.model.service_version import ServiceVersion
from monitor.model.severe import SecondJudgement, SevereOutcome
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.storage.history.erasing import blanked
from monitor.storage.history.rows import SCHEMA, as_json, dump, from_json, load, past_result
from tests.support.paths import DOCS
from tests.support.results import judged

DOCUMENT = DOCS / "results.schema.json"
VALIDATOR = Draft202012Validator(json.loads(DOCUMENT.read_text()))
INPUTS = (0.5, -1.0, 0.25, 0.0, 1.5, 0.0, -0.75)
CHOSEN = Selection(0.1, 0.05, INPUTS, 0.5, INPUTS_VERSION)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
RESULTS = [
    judged(1),
    judged(
        2,
        selection=CHOSEN,
        service_version=ServiceVersion(evaluator="v1", judge="m", prompt="p", index="i", service="s"),
    ),
    judged(3, selection=Selection(1.0, 1.0), cost=Cost("m", 0.01, 100, 20, 1.5, 2)),
    judged(7, outcome=Score(1.0, "fine", contradicts=True)),
    judged(9, outcome=Score(1.0, "fine", used_sources="1")),
    judged(8, 1.0, second=SecondJudgement(SevereOutcome.CONFIRMED, 1.0, "m")),
    judged(4, outcome=Skipped(SkippedReason.NO_RETRIEVAL), level="", defect=False),
    judged(5, outcome=Unscored(UnscoredReason.TIMEOUT, "after 60 s"), level="", defect=False, scope=RateScope.LATE),
    replace(judged(6), case=replace(judged(6).case, attributes={"prompt.version": "7"}, traffic=Traffic.SYNTHETIC)),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda one: one.id[:4])
@pytest.mark.parametrize("texts", [False, True])
def test_a_row_is_what_its_json_schema_says(result: EvaluationResult, texts: bool) -> None:
    row = load(dump(as_json(result, texts=texts)))
    VALIDATOR.validate(row)
    assert ("request" in row) == texts


@pytest.mark.parametrize("result", RESULTS, ids=lambda one: one.id[:4])
@pytest.mark.parametrize("texts", [False, True])
def test_a_result_read_from_its_row_is_written_as_the_same_row(result: EvaluationResult, texts: bool) -> None:
    """An external score has an id that its row alone does not explain."""
    for one in (result, replace(result, key="theirs", score_source=ScoreSource.FEEDBACK)):
        row = load(dump(as_json(one, texts=texts)))
        again = from_json(row)
        assert again.id == one.id
        assert load(dump(as_json(again))) == row


def test_of_a_result_whose_texts_were_deleted_no_empty_texts_are_written() -> None:
    row = blanked(as_json(judged(1)))
    assert "request" not in as_json(from_json(row), texts=True)


@given(st.dictionaries(st.sampled_from(sorted(as_json(judged(1)))), JSON, max_size=6))
def test_a_row_from_anywhere_is_a_result_or_a_value_error(changes: dict[str, Any]) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(from_json({**as_json(judged(1)), **changes}), EvaluationResult)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a":' * 50_000])
def test_a_line_that_is_nested_too_deeply_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        load(line)


def test_the_json_schema_allows_no_other_key_and_misses_none() -> None:
    row = load(dump(as_json(judged(1))))
    assert not VALIDATOR.is_valid({**row, "more": 1})
    for key in as_json(judged(1), texts=False):
        assert not VALIDATOR.is_valid({name: value for name, value in row.items() if name != key}), key


def test_the_json_schema_is_of_the_version_that_rows_carry() -> None:
    assert VALIDATOR.schema["properties"]["schema"] == {**VALIDATOR.schema["properties"]["schema"], "const": SCHEMA}


def test_a_row_teaches_what_the_sampler_learned() -> None:
    result = judged(1, value=1.0, selection=CHOSEN, cost=Cost("m", 0.002, attempts=1))
    told = past_result(load(dump(as_json(result, texts=False))))
    assert told is not None
    assert (told.result, told.app, told.evaluator, told.version) == (result.id, "shop", "groundedness", "v1")
    assert (told.inputs, told.shift, told.defect, told.dollars) == (INPUTS, 0.5, True, 0.002)
    assert told.emphasis == 0.05 / 0.1


def test_a_row_from_before_services_had_one_name_everywhere_is_read_under_that_name() -> None:
    row = load(dump({**as_json(judged(1, value=1.0, selection=CHOSEN)), "app": " a\u3000b "}))
    told = past_result(row)
    assert told is not None
    assert (told.app, from_json(row).case.app) == ("a b", "a b")


def test_inputs_by_other_definitions_teach_nothing() -> None:
    for version in (0, INPUTS_VERSION + 1):
        result = judged(1, value=1.0, selection=replace(CHOSEN, inputs_version=version))
        told = past_result(load(dump(as_json(result, texts=False))))
        assert told is not None
        assert (told.inputs, told.defect) == ((), True)


def test_a_score_that_only_ranks_teaches_nothing() -> None:
    told = past_result(load(dump(as_json(judged(1, value=1.0, selection=CHOSEN, scope=RateScope.RANKING)))))
    assert told is not None
    assert told.defect is None


@pytest.mark.parametrize(
    "result",
    [
        judged(1, outcome=Unscored(UnscoredReason.TIMEOUT), selection=CHOSEN),
        judged(1, outcome=Skipped(SkippedReason.NO_RETRIEVAL), selection=CHOSEN),
        replace(judged(1, value=1.0, selection=CHOSEN), case=replace(judged(1).case, traffic=Traffic.INTERNAL)),
    ],
)
def test_only_verdicts_on_production_traffic_say_whether_there_was_a_defect(result: EvaluationResult) -> None:
    told = past_result(load(dump(as_json(result, texts=False))))
    assert told is not None
    assert told.defect is None


def test_a_row_of_another_schema_teaches_nothing() -> None:
    row = load(dump(as_json(judged(1, selection=CHOSEN))))
    assert past_result({**row, "schema": SCHEMA + 1}) is None
    del row["schema"]
    assert past_result(row) is None


anything: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ["schema", "sampling", "outcome", "traffic", "judge", "id", "app", "evaluator", "version", "defect"]


@given(changes=st.dictionaries(st.sampled_from(KEYS), anything, max_size=3), drawn=anything)
def test_a_row_from_anywhere_teaches_finite_numbers_or_nothing(changes: dict[str, Any], drawn: Any) -> None:
    row = {**as_json(judged(1, selection=CHOSEN)), **changes}
    for one in (row, {**row, "sampling": drawn}, {**row, "sampling": {**CHOSEN_ROW, "inputs": drawn}}):
        told = past_result(one)
        assert told is None or all(map(math.isfinite, (*told.inputs, told.shift, told.emphasis, told.dollars)))


CHOSEN_ROW = as_json(judged(1, selection=CHOSEN))["sampling"]
