"""The compose stack: every file in it is read by the program that reads it there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor import config
from tests.support import deploy
from tests.support.prometheus import amtool, promtool

COMPOSE = deploy.DEPLOY / "compose"
_BUILDER = Path(__file__).parents[1] / "collector" / "builder.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return deploy.services(COMPOSE / "compose.yaml")


def test_the_library_of_docker_compose_would_find_a_slip(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {one: {image: x, depends_on: {two: {condition: healthy}}}}")
    assert deploy.compose(tmp_path / "compose.yaml").returncode != 0


def test_every_port_is_open_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for one in services.values() for port in one.get("ports", ())]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    assert {port["published"] for port in ports} >= {"9464", "4317", "4318", "3000", "9090", "9093", "8080"}


def test_one_variable_says_for_all_ports_where_they_are_open() -> None:
    written = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    ports = [port for one in written.values() for port in one.get("ports", ())]
    assert all(port.startswith("${BIND:-127.0.0.1}:") for port in ports)


def test_whatever_is_mounted_or_built_from_is_there(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for mount in service.get("volumes", ()):
            assert mount["type"] == "volume" or Path(mount["source"]).exists(), name
            assert mount["type"] == "volume" or mount["read_only"], f"{name} could change {mount['source']}"
        if "build" in service:
            assert (Path(service["build"]["context"]) / service["build"]["dockerfile"]).exists(), name


def test_no_service_has_capabilities_or_gains_privileges(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert all(services[name]["read_only"] for name in ("monitor", "sample", "collector"))


def test_images_are_of_a_version_and_the_collector_is_the_one_that_is_tested(
    services: dict[str, dict[str, Any]],
) -> None:
    images = {name: one["image"] for name, one in services.items() if "build" not in one}
    assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in images.values()), images
    (tested,) = set(re.findall(r"gomod: \S+ v(\S+)", _BUILDER.read_text()))
    assert images["collector"].endswith(f":{tested}")


def test_the_topics_that_are_made_are_those_that_are_read_and_written(services: dict[str, dict[str, Any]]) -> None:
    (listed,) = re.findall(r"for topic in (.*);", services["topics"]["command"][-1])
    made = {one.partition(":")[0] for one in listed.split()}
    loaded = config.load(COMPOSE / "monitor.yaml")
    (source,) = loaded.sources
    written = [sink.topic for sink in loaded.sinks if hasattr(sink, "topic")]
    assert made == {*source.topics, source.dead_letters, *written}  # type: ignore[attr-defined]


def test_the_variables_that_can_be_set_are_listed(services: dict[str, dict[str, Any]]) -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", (COMPOSE / "compose.yaml").read_text()))
    assert used == set(re.findall(r"^#(\w+)=", (COMPOSE / ".env.example").read_text(), re.MULTILINE))


def test_promtool_accepts_prometheus_and_its_rules() -> None:
    done = promtool("check", "config", "--lint=all", "--lint-fatal", COMPOSE / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_keeps_exemplars_and_long_enough_for_its_rules(services: dict[str, dict[str, Any]]) -> None:
    words = services["prometheus"]["command"]
    assert "--enable-feature=exemplar-storage" in words
    assert "--storage.tsdb.retention.time=30d" in words  # the baseline of a regression reaches ten days back


def test_amtool_accepts_alertmanager() -> None:
    done = amtool("check-config", COMPOSE / "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_finds_prometheus_under_its_name_and_scrapes_as_often_as_it_is_told(
    services: dict[str, dict[str, Any]],
) -> None:
    folder = deploy.REPOSITORY / "grafana" / "provisioning"
    found = yaml.safe_load((folder / "datasources" / "rag-monitor.yaml").read_text())["datasources"][0]
    assert found["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    scraping = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert found["jsonData"]["timeInterval"] == scraping
    boards = yaml.safe_load((folder / "dashboards" / "rag-monitor.yaml").read_text())["providers"][0]["options"]["path"]
    assert boards in [mount["target"] for mount in services["grafana"]["volumes"]]
