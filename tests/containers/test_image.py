"""The image in a real container: how it starts, what it may do, how it receives, judges and stops."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor import __version__
from tests.support import containers
from tests.support.containers import CAREFUL, Container
from tests.support.fed import answered
from tests.support.llm import LLMServer
from tests.support.monitor import assert_balanced
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import free_port, wait_until

pytestmark = pytest.mark.timeout(3600)

MIB = 1024**2
STATE = "/var/lib/rag-monitor"
LARGEST = 300e6
"""Bytes of the image, unpacked."""


class Monitor:
    """The image with its own configuration, its ports published on this machine's loopback."""

    def __init__(self, container: Container, ports: dict[int, int]) -> None:
        self.container = container
        self.grpc, self.http, self.metrics = ports[4317], ports[4318], ports[9464]

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """One scrape: all samples by name."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=60) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for one in family.samples:
                    found.setdefault(one.name, []).append((one.labels, one.value))
        return found

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of a name with these labels."""
        return sum(value for found, value in self.samples().get(name, []) if labels.items() <= found.items())

    def post(self, body: bytes) -> int:
        """Send compressed OTLP; the status of the answer."""
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/v1/traces", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture(scope="module")
def image() -> str:
    return containers.monitor_image()[0]


@contextmanager
def started(image: str, *options: str) -> Iterator[Monitor]:
    """Start the image as the documentation says, and wait for its health check."""
    with ExitStack() as stack:
        ports = {inside: free_port() for inside in (4317, 4318, 9464)}
        published = [f"--publish=127.0.0.1:{outside}:{inside}" for inside, outside in ports.items()]
        volume = f"--volume={stack.enter_context(containers.volume())}:{STATE}"
        container = stack.enter_context(containers.running(image, *CAREFUL, *published, volume, *options))
        wait_until(container.healthy, 60, "the health check")
        yield Monitor(container, ports)


def test_the_image_is_small_and_says_what_it_is() -> None:
    name, printed = containers.monitor_image()
    found = containers.inspected(name)
    print(f"rag-monitor as built: {found['Size'] / 1e6:.0f} MB unpacked")
    assert found["Size"] <= LARGEST
    assert "LiteLLM's gateway server" in printed, "the build says what it leaves out"
    assert found["User"] == "65532:65532"
    assert found["Labels"]["org.opencontainers.image.title"] == "rag-monitor"
    assert found["Labels"]["org.opencontainers.image.version"] == __version__
    assert found["Healthcheck"]["Test"][0] == "CMD", "the check needs no shell"
    assert set(found["Config"]["Volumes"]) == {STATE}


def test_it_needs_no_network_and_stops_in_time(image: str) -> None:
    with containers.running(image, *CAREFUL, "--network=none") as container:
        wait_until(container.healthy, 60, "the health check")
        assert container.stop() == 0
        assert "Traceback" not in container.logs()


def test_it_receives_scores_and_is_scraped(image: str) -> None:
    with started(image) as monitor:
        for service in (RagService.over_http(monitor.http), RagService.over_grpc(monitor.grpc)):
            service.ask(answer=BAD)
            service.ask(answer=GOOD)
            service.flush()
            service.close()
        counted = {"evaluator": "overlap_groundedness"}
        wait_until(lambda: monitor.total("ragmonitor_evaluations_total", **counted) == 4, 60, "four evaluations")
        wait_until(
            lambda: monitor.total("ragmonitor_evaluations_total", **counted, defect="true") == 2, 60, "two defects"
        )
        assert_balanced(monitor.samples())
        process = monitor.container.processes()
        assert process["CapEff"] == "0000000000000000"
        assert process["NoNewPrivs"] == "1"
        assert process["Uid"].split() == ["65532"] * 4
        assert monitor.container.stop() == 0
        assert not monitor.container.look()["State"]["OOMKilled"]


def test_an_answer_is_judged_in_it(image: str, tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(answered)
        ports = {"otlp_http": free_port(), "prometheus": free_port()}
        config: dict[str, Any] = {
            "sources": [{"type": "otlp_http", "port": ports["otlp_http"]}],
            "sinks": [{"type": "prometheus", "port": ports["prometheus"]}],
            "judge": {
                "model": "openai/scripted",
                "api_key": "none",
                "api_base": llm.url,
                "price": {"input_per_million": 1, "output_per_million": 2},
            },
            "evaluators": [{"type": "groundedness"}],
            "assembly": {"grace_period": "300ms"},
        }
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        # The judge's libraries need more than 256 MiB. The scripted model listens on the loopback of this machine.
        options = (*CAREFUL, "--memory=512m", "--network=host", f"--volume={path}:/etc/rag-monitor/config.yaml:ro")
        with containers.running(image, *options) as container:
            monitor = Monitor(container, {4317: 0, 4318: ports["otlp_http"], 9464: ports["prometheus"]})
            wait_until(monitor.samples, 60, "a scrape")
            service = RagService.over_http(monitor.http)
            service.ask(answer=BAD)
            service.flush()
            service.close()
            wait_until(
                lambda: monitor.total("ragmonitor_evaluations_total", evaluator="groundedness", defect="true") == 1,
                120,
                "a verdict",
            )
            assert container.stop() == 0


def test_the_memory_of_the_container_is_the_limit_and_holds_under_load(image: str) -> None:
    with started(image) as monitor:
        assert monitor.total("ragmonitor_memory_limit_bytes") == 256 * MIB
        answers = [monitor.post(export(number)) for number in range(120)]
        assert answers.count(200) > 0
        assert set(answers) <= {200, 503}, "what does not fit is to be sent again"
        wait_until(lambda: monitor.post(export(1_000)) == 200, 60, "room again")
        wait_until(monitor.container.healthy, 60, "the health check")
        assert_balanced(monitor.samples())
        state = monitor.container.look()["State"]
        assert state["Running"]
        assert not state["OOMKilled"]


def export(number: int) -> bytes:
    """One trace of its own with a text of a megabyte, gzip."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    span = group.scope_spans.add().spans.add(
        trace_id=(number + 1).to_bytes(16, "big"),
        span_id=b"12345678",
        name="ask",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
    )
    span.attributes.add(key="openinference.span.kind").value.string_value = "CHAIN"
    span.attributes.add(key="input.value").value.string_value = "Can I get my money back? "
    span.attributes.add(key="output.value").value.string_value = f"{number} " * 200_000
    return gzip.compress(request.SerializeToString(), 1)


def test_a_volume_of_someone_else_is_named(image: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)  # of root
    with containers.running(image, *CAREFUL, f"--volume={folder}:{STATE}") as container:
        assert container.ended() not in (0, 137)
        said = container.logs()
    assert STATE in said
    assert "Traceback" not in said
    assert "65532" in said, "which user must own it"
