"""The cases of the canary set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor import config, registry
from monitor.errors import ConfigError
from monitor.jobs.canary import SHIPPED, load
from monitor.operations.describe import describe
from monitor.stages import Evaluator

ROW = {"request": "How warm is it?", "response": "It is warm.", "retrieved_context": [{"content": "It is warm."}]}


def test_every_shipped_case_can_be_judged_and_stands_there_once() -> None:
    cases = load(None)
    assert len(cases) == len(SHIPPED.read_text().splitlines()) == 24
    assert all(case.request.query and case.response and case.retrieved_context for case in cases.values())
    assert sum(case.expected_response is not None for case in cases.values()) >= 6
    assert len({case.request_id for case in cases.values()}) == 24


def test_the_shipped_cases_give_every_rubric_and_its_kin_something_to_judge() -> None:
    """Those that need something rare, such as the service's own prompt, skip the set."""
    cases = load(None).values()
    has = {
        "context": all(case.retrieved_context for case in cases),
        "history": any(case.request.history for case in cases),
        "reference": any(case.expected_response for case in cases),
        "response": all(case.response for case in cases),
    }
    for name in registry.types("evaluators"):
        if name != "rubric":
            assert all(has[need] for need in registry.component("evaluators", name, Evaluator).needs), name


def test_a_case_is_known_by_what_an_evaluator_sees_of_it(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    rows = [ROW, {**ROW, "request_id": "again"}, {**ROW, "response": "It is cold."}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    first = load(path)
    assert len(first) == 2
    path.write_text(json.dumps(rows[::-1]))
    assert set(load(path)) == set(first)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "cannot be read: no rows"),
        ("{not json", "row 1: line 1: not JSON"),
        (json.dumps(ROW) + "\n{}", "row 2: "),
        (
            json.dumps({"request": "How warm is it?", "response": "", "retrieved_context": []}),
            "row 1 cannot be evaluated",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_when_the_configuration_is_read(
    content: str | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    if content is not None:
        path.write_text(content)
    (tmp_path / "config.yaml").write_text("canary: {cases: cases.jsonl}")
    with pytest.raises(ConfigError) as error:
        config.load(tmp_path / "config.yaml")
    assert f"canary.cases: {path}" in str(error.value)
    assert told in str(error.value)
    config.parse({"canary": {"interval": "off", "cases": str(path)}})


@pytest.mark.parametrize(("given", "seconds"), [("off", None), (False, None), (None, None), ("1h", 3600.0), (60, 60.0)])
def test_the_schedule_is_a_duration_or_off(given: object, seconds: float | None) -> None:
    assert config.parse({"canary": {"interval": given}}).canary.interval == seconds


@pytest.mark.parametrize("given", ["9h", 0, "soon", "-1s"])
def test_a_schedule_that_leaves_a_day_without_two_runs_is_an_error(given: object) -> None:
    with pytest.raises(ConfigError, match=r"canary\.interval"):
        config.parse({"canary": {"interval": given}})


def test_check_says_what_the_canary_costs_and_nothing_where_there_is_none() -> None:
    told = {
        "judge": {"model": "m"},
        "evaluators": [{"type": "relevance", "optional": True}, {"type": "overlap_groundedness"}],
        "alerts": [],
    }
    said = "Evaluates 24 canary cases every 8h, by relevance: up to 72 evaluations a day."
    assert said in describe(config.parse(told))
    for without in ({**told, "canary": {"interval": "off"}}, {**told, "judge": {}}):
        assert not any("canary" in line for line in describe(config.parse(without)))
