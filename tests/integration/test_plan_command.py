"""`rag-monitor plan`: what judging brings, before it is paid for."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.statistics.rates import judged_to_tell
from tests.support.command import command
from tests.support.written import ROOT


def planned(*arguments: object) -> dict[str, Any]:
    ended = command("plan", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


@pytest.mark.lengthy
def test_more_judged_answers_notice_sooner_and_cost_in_proportion() -> None:
    found = planned("--rate", "2%", "--worse", "10%", "--threshold", "3%", "--price-per-evaluation", "0.001",
                    "--scored-per-hour", "10,100,1000")  # fmt: skip
    delays = [one["high"]["median"] for one in found["volumes"]]
    assert delays == sorted(delays, reverse=True)
    assert [round(one["dollars_per_day"], 6) for one in found["volumes"]] == [0.24, 2.4, 24.0]
    # Simulated apart from this, with 200 runs each: 6.7, 1.0 and 0.4 h, and 10.4, 1.2 and 0.4 h.
    assert delays == pytest.approx([6.7, 1.0, 0.4], rel=0.25)
    assert [one["regression"]["median"] for one in found["volumes"]] == pytest.approx([10.4, 1.2, 0.4], rel=0.25)


def test_the_numbers_needed_are_those_that_the_alerts_themselves_go_by() -> None:
    found = planned("--rate", "1%", "--worse", "6%", "--threshold", "3%", "--scored-per-hour", "10")
    assert [one["scored"] for one in found["needed"]] == [judged_to_tell(0.03, 0.06, z) for z in (3.09, 2.58, 2.33)]


@pytest.mark.lengthy
def test_where_answers_come_in_sessions_it_takes_as_many_sessions_as_answers_else() -> None:
    asked = ("--rate", "2%", "--worse", "10%", "--threshold", "3%")
    alone = planned(*asked, "--scored-per-hour", "10,100")
    in_sessions = planned(*asked, "--scored-per-hour", "100,1000", "--answers-per-session", "10")
    assert [one["scored"] for one in in_sessions["needed"]] == [10 * one["scored"] for one in alone["needed"]]
    for few, many in zip(alone["volumes"], in_sessions["volumes"], strict=True):
        assert many["high"]["median"] == pytest.approx(few["high"]["median"], rel=0.2)
        assert many["regression"]["median"] == pytest.approx(few["regression"]["median"], rel=0.2)
        assert (many["day_lower"], many["day_upper"]) == pytest.approx((few["day_lower"], few["day_upper"]), rel=0.2)
        assert max(few["false_alarms"], many["false_alarms"]) <= 0.6


@pytest.mark.lengthy
def test_a_plan_for_sessions_says_so() -> None:
    printed = command("plan", "--scored-per-hour", "100", "--answers-per-session", "10").stdout
    assert "Answers come in sessions of 10 that are bad or good together." in printed
    assert "sessions" not in command("plan", "--scored-per-hour", "100").stdout


def test_a_rate_below_the_threshold_is_never_noticed_by_the_level_and_may_be_by_the_rise() -> None:
    found = planned("--rate", "0.5%", "--worse", "2%", "--threshold", "5%", "--scored-per-hour", "1000")
    (one,) = found["volumes"]
    assert one["high"] is None
    assert one["regression"]["median"] < 2
    assert found["needed"] == []


def test_the_price_is_that_of_the_evaluator_s_judge_and_the_threshold_its_policy_s(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    price = {"input_per_million": 1.0, "output_per_million": 10.0}
    config.write_text(
        yaml.safe_dump(
            {
                "judge": {"model": "openai/mine", "price": price},
                "evaluators": [{"type": "groundedness"}],
                "alerts": [{"evaluator": "groundedness", "warning": "7%", "windows": [{"window": "2h", "z": 3}]}],
            }
        )
    )
    found = planned("-c", config, "--evaluator", "groundedness", "--tokens", "1000,100", "--scored-per-hour", "100",
                    "--worse", "15%")  # fmt: skip
    assert found["price"]["dollars"] == pytest.approx(0.002)
    assert found["question"]["threshold"] == 0.07
    assert [one["window"] for one in found["needed"]] == ["2h"]


def test_what_is_printed_names_the_price_and_both_rules() -> None:
    ended = command("plan", "--price-per-evaluation", "0.002", "--scored-per-hour", "100")
    assert ended.exit_code == 0
    for said in ("One evaluation costs $0.002 (as given).", "RagDefectRateHigh", "RagDefectRateRegression", "$4.80"):
        assert said in ended.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        ("--rate", "5%", "--worse", "4%"),
        ("--rate", "2%", "--worse", "4%", "--threshold", "1%"),
        ("--scored-per-hour", "many"),
        ("--scored-per-hour", "0"),
        ("--rate", "150%"),
        ("--tokens", "1000"),
        ("--answers-per-session", "0"),
        ("--answers-per-session", "101"),
        ("--evaluator", "nobody"),
        ("--requests-per-second", "0"),
        ("--requests-per-second", "1e9"),
        ("--requests-per-second", "nan"),
        ("--requests-per-second", "many"),
        ("--requests-per-second", "10", "--scored-per-hour", "10"),
        ("--requests-per-second", "10", "--services", "0"),
        ("--requests-per-second", "10", "--spans", "0"),
        ("--requests-per-second", "10", "--rate", "4%", "--worse", "2%"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(wrong: tuple[str, ...]) -> None:
    assert command("plan", *wrong).exit_code == 2


@pytest.mark.lengthy
def test_the_false_pages_of_an_alert_on_severe_cases_are_stated(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    config = {
        "judge": {"model": "openai/gpt-4o-mini", "api_key": "none"},
        "evaluators": [{"type": "violence", "sample": "5%"}],
        "alerts": [{"evaluator": "violence", "severe": {"level": "high"}}],
    }
    path.write_text(yaml.safe_dump(config))
    asked = ("-c", path, "--evaluator", "violence", "--scored-per-hour", "10,1000", "--severe-error", "0.1%")
    (severe,) = planned(*asked)["severe"]
    assert (severe["accepted"], severe["judged"]) == (3, 0.05)
    few, many = severe["volumes"]
    assert few["confirmed"] == pytest.approx([7200 * 0.001 * rho for rho in (0.2, 0.5, 0.8)], rel=0.01)
    assert many["confirmed"][2] == pytest.approx(576, rel=0.01)
    assert max(*few["pages"], *many["pages"]) < 3
    printed = command("plan", *asked).stdout
    assert "RagSevereCase, violence, level high (6 or more): false pages in 30 days" in printed
    assert "No more than 3 are to be expected at any volume." in printed
    assert "one severe case in 20" in printed


def test_the_policy_is_chosen_by_its_own_defect_rule(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    alerts = [
        {"evaluator": "violence", "defect": {"at_least": "low"}, "warning": "5%"},
        {"evaluator": "violence", "defect": {"at_least": "high"}, "critical": "30%"},
    ]
    path.write_text(yaml.safe_dump({"evaluators": [{"type": "violence", "optional": True}], "alerts": alerts}))
    asked = ("-c", path, "--evaluator", "violence", "--scored-per-hour", "10", "--worse", "40%")
    assert planned(*asked, "--defect-rule", "high")["question"]["threshold"] == 0.3
    refused = command("plan", *asked)
    assert "choose one: 'low or higher', 'high'" in str(refused.exception)


PAGE = ROOT / "docs" / "scaling.md"
OF_THE_PAGE = re.compile(
    r"```yaml\n(?P<config>.*?)```.*?```console\n\$ rag-monitor (?P<command>plan .*?)\n```\n\n"
    r"```text\n(?P<printed>.*?)```",
    re.DOTALL,
)


def test_the_page_on_scaling_shows_what_the_command_prints(tmp_path: Path) -> None:
    page = PAGE.read_text()
    section = page.index("## What it takes")
    found = OF_THE_PAGE.search(page, section)
    assert found is not None
    path = tmp_path / "config.yaml"
    path.write_text(found["config"])
    arguments = [str(path) if word == "config.yaml" else word for word in shlex.split(found["command"])]
    ended = command(*arguments)
    assert ended.exit_code == 0, ended.output
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page[: found.start("printed")] + ended.stdout + page[found.end("printed") :])
        return
    said = "UPDATE_GOLDEN=1 .venv/bin/pytest tests/integration/test_plan_command.py -k scaling"
    assert found["printed"] == ended.stdout, said


def traffic(tmp_path: Path, sizes: str, config: dict[str, Any], *arguments: object) -> list[dict[str, Any]]:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return planned("-c", path, "--requests-per-second", sizes, *arguments)["plans"]


JUDGED = {
    "judge": {"model": "openai/mine", "price": {"input_per_million": 1.0, "output_per_million": 10.0}},
    "evaluators": [{"type": "groundedness", "sample": "1%"}],
    "alerts": [],
}


def test_a_share_costs_in_proportion_and_a_budget_always_the_same(tmp_path: Path) -> None:
    few, many = traffic(tmp_path, "10,100", {**JUDGED, "sampling": {"traces": 1}}, "--tokens", "1000,100")
    assert few["judge_calls_per_day"] == pytest.approx(10 * 86_400 * 0.01 * 1.01)
    assert many["judge_calls_per_day"] == pytest.approx(10 * few["judge_calls_per_day"])
    assert few["dollars_per_day"] == pytest.approx(few["judge_calls_per_day"] * 0.002)
    budget = {**JUDGED, "evaluators": [{"type": "groundedness", "sample": {"per_day": 500}}]}
    few, many = traffic(tmp_path, "10,100", budget)
    assert few["judge_calls_per_day"] == many["judge_calls_per_day"] == pytest.approx(505)


def test_evaluators_of_one_group_share_a_call(tmp_path: Path) -> None:
    both = [{"type": name, "sample": "1%"} for name in ("groundedness", "relevance")]
    (alone,) = traffic(tmp_path, "10", {**JUDGED, "evaluators": both})
    (grouped,) = traffic(tmp_path, "10", {**JUDGED, "evaluators": [{**one, "group": "all"} for one in both]})
    assert grouped["judge_calls_per_day"] == pytest.approx(alone["judge_calls_per_day"] / 2)


def test_budgets_are_each_replica_s_own_unless_they_share_a_kafka_group(tmp_path: Path) -> None:
    config = {**JUDGED, "evaluators": [{"type": "groundedness", "sample": {"per_day": 500}}]}
    (alone,) = traffic(tmp_path, "100000", config)
    assert alone["replicas"] > 1
    assert alone["judge_calls_per_day"] == pytest.approx(505 * alone["replicas"])
    assert any("divide them by" in note for note in alone["notes"])
    kafka = {"type": "kafka", "brokers": ["kafka:9092"], "topics": {"otlp_spans": "otlp_proto"}}
    (shared,) = traffic(tmp_path, "100000", {**config, "sources": [kafka]})
    assert shared["judge_calls_per_day"] == pytest.approx(505)
    assert not any("divide them by" in note for note in shared["notes"])


def test_more_traffic_never_takes_less(tmp_path: Path) -> None:
    plans = traffic(tmp_path, "0.001,1,10,1000,100000,10000000", {**JUDGED, "sampling": {"traces": "10%"}})
    for name in ("cores", "replicas", "partitions", "memory_each", "disk_per_day", "series", "judge_calls_per_day"):
        figures = [one[name] for one in plans]
        assert figures == sorted(figures), name
    assert [one["partitions"] >= one["replicas"] for one in plans] == [True] * len(plans)


def test_what_is_suggested_is_said_and_what_is_configured_is_kept(tmp_path: Path) -> None:
    small, large = traffic(tmp_path, "5,50000", JUDGED)
    assert (small["head"], large["head"]) == (1.0, pytest.approx(0.0002))
    assert any("`sampling.traces: 0.02%`" in note for note in large["notes"])
    small, large = traffic(tmp_path, "5,50000", {**JUDGED, "sampling": {"traces": "10%"}})
    assert (small["head"], large["head"]) == (0.1, 0.1)
    assert not any("sampling.traces" in note for note in large["notes"])


def test_an_evaluator_without_an_alert_on_its_rate_notices_nothing_and_says_so(tmp_path: Path) -> None:
    (found,) = traffic(tmp_path, "10", JUDGED)
    assert [one["why"] for one in found["noticed"] if one["evaluator"] == "groundedness"] == ["no alert"]
    assert "no alert" in command("plan", "-c", tmp_path / "config.yaml", "--requests-per-second", "10").stdout


def test_limits_of_the_judge_that_do_not_fit_are_named(tmp_path: Path) -> None:
    judge = {**JUDGED["judge"], "max_concurrency": 1, "budget": {"evaluations_per_day": 100, "dollars_per_day": 1}}
    (found,) = traffic(tmp_path, "100", {**JUDGED, "judge": judge, "sampling": {"traces": 1}})
    said = " ".join(found["notes"])
    for name in ("judge.max_concurrency", "judge.budget.evaluations_per_day", "judge.budget.dollars_per_day"):
        assert name in said


def test_every_figure_of_a_plan_names_a_benchmark_that_exists() -> None:
    measured = planned("--requests-per-second", "1")["measured"]
    for name, one in measured.items():
        path = ROOT / one["by"].replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name
