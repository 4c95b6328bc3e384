"""`rag-monitor plan`: what judging brings, before it is paid for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.statistics.rates import judged_to_tell
from tests.support.command import command


def planned(*arguments: object) -> dict[str, Any]:
    ended = command("plan", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


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
    ],
)
def test_a_question_that_makes_no_sense_is_refused(wrong: tuple[str, ...]) -> None:
    assert command("plan", *wrong).exit_code == 2


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
