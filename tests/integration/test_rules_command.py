"""`rag-monitor rules`: each format is written, and what is written works together."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from monitor import config as configuration
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.cli.main import app
from tests.support.prometheus import promtool

CONFIG = """
alerts:
  - {evaluator: overlap_groundedness, warning: 10%, windows: [{window: 30m, z: 3}]}
runbooks_url: https://example.org/runbooks
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path / "config.yaml"


def written(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["rules", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_written_tests_are_those_of_the_written_rules(config: Path, tmp_path: Path) -> None:
    written("-c", str(config), "-o", str(tmp_path / "rules.yml"))
    written("-c", str(config), "--format", "tests", "-o", str(tmp_path / "rules_test.yml"))
    policies = configuration.load(config).as_run().alerts
    assert (tmp_path / "rules_test.yml").read_text() == render_tests(policies)
    assert yaml.safe_load((tmp_path / "rules_test.yml").read_text())["rule_files"] == ["rules.yml"]
    checked = promtool("check", "rules", "rules.yml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_resource_for_the_operator_holds_the_groups_of_the_file(config: Path) -> None:
    rules = yaml.safe_load(written("-c", str(config), "--format", "prometheus"))
    resource = yaml.safe_load(written("-c", str(config), "--format", "prometheusrule"))
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"] == rules


def test_the_default_configuration_alerts_on_regressions(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("{}\n")
    rules = yaml.safe_load(written("-c", str(tmp_path / "empty.yaml")))
    alerts = {rule.get("alert") for group in rules["groups"] for rule in group["rules"]}
    assert "RagDefectRateRegression" in alerts
    checked = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "empty.yaml")])
    assert "when it has clearly risen above the week before (default), after three days of data" in checked.stdout


def test_a_format_that_does_not_exist_is_refused(config: Path) -> None:
    assert CliRunner().invoke(app, ["rules", "-c", str(config), "--format", "json"]).exit_code == 2


def test_grafana_gets_the_same_expressions_for_the_data_source_that_is_named(config: Path) -> None:
    rules = yaml.safe_load(written("-c", str(config)))
    grafana = yaml.safe_load(written("-c", str(config), "--format", "grafana", "--datasource", "mimir"))
    assert [rule["expr"] for group in rules["groups"] for rule in group["rules"]] == [
        rule["data"][0]["model"]["expr"] for group in grafana["groups"] for rule in group["rules"]
    ]
    assert {rule["data"][0]["datasourceUid"] for group in grafana["groups"] for rule in group["rules"]} == {"mimir"}


def test_a_data_source_is_for_grafana_only(config: Path) -> None:
    result = CliRunner().invoke(app, ["rules", "-c", str(config), "--datasource", "mimir"])
    assert result.exit_code == 2
    assert "requires --format grafana" in result.output
