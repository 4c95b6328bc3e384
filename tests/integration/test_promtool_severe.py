"""The rules for single severe cases as Prometheus reads them: they page and warn when the process would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy, SevereSettings
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render
from tests.support.prometheus import promtool

POLICIES = [
    AlertPolicy(evaluator="violence", severe=SevereSettings()),
    AlertPolicy(evaluator="sexual", severe=SevereSettings(page="each")),
    AlertPolicy(evaluator="self_harm", severe=SevereSettings(max_false_pages=0.5)),
]
ADDRESS = "https://runbooks.example.org"


def checked(folder: Path, rules: str, **changed: Any) -> tuple[int, str]:
    document = {**yaml.safe_load(render_tests(POLICIES)), **changed}
    document["tests"] = [one for one in document["tests"] if one["name"].startswith("RagSevereCase")]
    (folder / "rules.yml").write_text(rules)
    (folder / "test.yml").write_text(yaml.safe_dump(document))
    ended = promtool("test", "rules", "test.yml", cwd=folder)
    return ended.returncode, (ended.stdout + ended.stderr)[:4000]


def test_the_written_tests_of_severe_cases_pass(tmp_path: Path) -> None:
    status, said = checked(tmp_path, render(POLICIES))
    assert status == 0, said


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("increase1h[719h59m:1h] offset 1h)", "increase1h[719h59m:1h])"),
        ('{sessions="1"} + 0.5', '{sessions="3"} + 0.5'),
        ("- on (app, evaluator)\n", "- on (app, evaluator) 0 *\n"),
        ("unless on (app, evaluator)", "or on (app, evaluator)"),
        ("increase1h > 1.5", "increase1h > 0.5"),
    ],
)
def test_the_written_tests_notice_a_rule_on_severe_cases_that_is_broken(
    sound: str, broken: str, tmp_path: Path
) -> None:
    rules = render(POLICIES)
    assert sound in rules
    status, _ = checked(tmp_path, rules.replace(sound, broken))
    assert status != 0


def test_a_page_by_the_rules_says_how_many_and_how_many_were_right(tmp_path: Path) -> None:
    pair = 'app="shop", evaluator="violence"'
    series = {
        f"ragmonitor_severe_confirmed_total{{{pair}}}": "0+0x70 1+0x20 2+0x30",
        f'ragmonitor_severe_called_total{{{pair}, call="right"}}': "0+0x80 1+0x40",
        f'ragmonitor_severe_called_total{{{pair}, call="wrong"}}': "0+0x120",
        f'ragmonitor_severe_unexplained_limit_sessions{{{pair}, sessions="1"}}': "2x120",
    }
    text = (
        "Sessions with an answer that violence judged severe twice in shop within the last hour: 1. In the 30 days"
        " before, 0 were not called right. Of those called right or wrong in 30 days, 1 of 1 were right."
    )
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1h",
        "tests": [
            {
                "interval": "5m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {
                        "alertname": "RagSevereCase",
                        "eval_time": "8h",
                        "exp_alerts": [
                            {
                                "exp_labels": {"app": "shop", "evaluator": "violence", "severity": "critical"},
                                "exp_annotations": {
                                    "summary": "An answer was judged severe twice.",
                                    "description": text,
                                    "runbook_url": f"{ADDRESS}/RagSevereCase.md",
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "rules.yml").write_text(render(POLICIES, runbooks=ADDRESS))
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    ended = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4000]


def test_without_an_alert_on_severe_cases_the_rules_have_none() -> None:
    assert "severe" not in render([AlertPolicy(evaluator="violence", critical=0.1)])
