"""What deploy/ has of the rest of the project is what the rest of the project says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate import CHART, KUBERNETES, ROOT, texts
from monitor import __version__, config
from monitor.alerts.prometheus.rules import render

NOTED_DOWN = 262_144  # bytes of annotations, in one of which `kubectl apply` keeps the whole object


@pytest.mark.parametrize(("path", "text"), list(texts()), ids=lambda one: one.name if isinstance(one, Path) else "")
def test_a_generated_file_is_fresh(path, text):
    assert path.read_text() == text, "python -m deploy.generate"


@pytest.mark.parametrize("mode", ["sidecar", "fleet"])
def test_the_rules_of_one_shape_are_those_of_every_shape(mode, monkeypatch):
    monkeypatch.setenv("KAFKA_BROKERS", "kafka:9092")
    alerts = config.load(CHART / "files" / f"config-{mode}.yaml").alerts
    assert render(alerts) == (CHART / "files" / "rules.yaml").read_text()


def test_the_chart_and_the_kustomizations_name_the_image_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    for path in (KUBERNETES / "base", KUBERNETES / "components" / "sidecar"):
        assert yaml.safe_load((path / "kustomization.yaml").read_text())["images"] == [
            {"name": "rag-monitor", "newTag": __version__}
        ]


def test_every_board_is_a_config_map_that_kubectl_can_apply():
    boards = ROOT / "grafana" / "dashboards"
    generated = yaml.safe_load((boards / "kustomization.yaml").read_text())["configMapGenerator"]
    assert [name for one in generated for name in one["files"]] == sorted(path.name for path in boards.glob("*.json"))
    for path in boards.glob("*.json"):
        assert len(json.dumps(path.read_text())) < NOTED_DOWN / 2, path.name


def test_the_schema_knows_every_value_of_the_chart_and_no_other():
    def keys(schema: dict[str, Any], values: dict[str, Any], place: str = "") -> None:
        known = set(schema["properties"]) - {"global"}
        assert known == set(values), place
        assert schema["additionalProperties"] is False, place
        for name in known:
            if isinstance(values[name], dict) and values[name] and "properties" in schema["properties"][name]:
                keys(schema["properties"][name], values[name], f"{place}.{name}")

    keys(json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text()))


def test_every_value_of_the_chart_is_explained():
    """A comment stands above each value, above the section that it begins, or above its neighbours."""
    block: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        block = [*block, line] if line else []
        if line and not line.endswith(":") and not line.lstrip().startswith("#"):
            assert any(one.lstrip().startswith("#") for one in block), line
