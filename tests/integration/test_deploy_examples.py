"""docs/kubernetes.md: every example on it is rendered by the real tools, and valid."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli.main import app
from tests.support import kubernetes
from tests.support.kubernetes import CHART, ROOT, VERSIONS, documents

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
BLOCK = re.compile(r"^```(?:yaml|gotemplate)\n# (?P<name>\S+\.yaml)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> dict[str, dict[str, str]]:
    """The files in each section of the page, by their names."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for section in PAGE.split("\n## ")[1:]:
        for block in BLOCK.finditer(section):
            found[section.partition("\n")[0]][block["name"]] = block["text"]
    return found


EXAMPLES = examples()


def those_with(name: str) -> list[str]:
    return [section for section, files in EXAMPLES.items() if name in files]


def test_no_example_on_the_page_goes_unchecked() -> None:
    named = sum(len(files) for files in EXAMPLES.values())
    assert named == PAGE.count("```yaml") + PAGE.count("```gotemplate")


@pytest.mark.parametrize("section", those_with("kustomization.yaml"))
def test_an_example_of_a_kustomization_builds_what_is_valid(section: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "rag-monitor").symlink_to(ROOT)
    for name, text in EXAMPLES[section].items():
        if "/" not in name:
            (mine / name).write_text(text)
    built = kubernetes.kustomize(mine)
    assert "image: images.example.com/rag-monitor:0.1.0" in built
    assert kubernetes.faults(built, VERSIONS[-1]) == []


@pytest.mark.parametrize("section", those_with("values.yaml"))
def test_an_example_of_values_renders_what_is_valid(section: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(EXAMPLES[section]["values.yaml"])
    templated = kubernetes.template("-f", str(tmp_path / "values.yaml"))
    assert "image: images.example.com/rag-monitor:0.1.0" in templated
    assert kubernetes.faults(templated, VERSIONS[-1]) == []


def test_the_examples_of_a_configuration_are_one_that_the_monitor_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-example")
    files = EXAMPLES["Set up"]
    (tmp_path / "values.yaml").write_text(files["values.yaml"])
    (of_chart,) = (
        one["data"]["config.yaml"]
        for one in documents(kubernetes.template("-f", str(tmp_path / "values.yaml")))
        if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "rag-monitor"
    )
    for text in (files["config.yaml"], of_chart):
        (tmp_path / "config.yaml").write_text(text)
        checked = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "config.yaml")])
        assert checked.exit_code == 0, checked.output


def test_a_chart_of_ones_own_takes_the_sidecar_into_its_pod(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "charts" / "rag-monitor").symlink_to(CHART)
    (tmp_path / "Chart.yaml").write_text(
        "{apiVersion: v2, name: answers, version: 1.0.0, dependencies: [{name: rag-monitor, version: 0.x}]}\n"
    )
    (tmp_path / "values.yaml").write_text("rag-monitor: {mode: sidecar, podMonitor: {enabled: true}}\n")
    (section,) = those_with("templates/deployment.yaml")
    (tmp_path / "templates" / "deployment.yaml").write_text(EXAMPLES[section]["templates/deployment.yaml"])
    rendered = kubernetes.template(chart=tmp_path, name="answers")
    assert kubernetes.faults(rendered, VERSIONS[-1]) == []
    by_kind = {one["kind"]: one for one in documents(rendered)}
    (alone,) = (
        one["spec"]["template"]["spec"]["initContainers"][0]
        for one in documents(kubernetes.template("-f", str(CHART / "values-sidecar.yaml"), name="answers"))
        if one["kind"] == "Deployment"
    )
    spec = by_kind["Deployment"]["spec"]["template"]["spec"]
    assert spec["initContainers"] == [alone]
    named = {one["configMap"]["name"] for one in spec["volumes"] if "configMap" in one}
    assert named == {by_kind["ConfigMap"]["metadata"]["name"]}
