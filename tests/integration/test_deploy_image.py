"""The image: its Dockerfile holds to the rules, its steps work, and what they make runs with a read-only root."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from deploy.docker import slim
from monitor import config
from tests.support import deploy, dockerfile, image
from tests.support.fed import answered
from tests.support.image import DOCKERFILE, Image
from tests.support.llm import LLMServer
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, RagService
from tests.support.tools import wait_until

pytestmark = pytest.mark.timeout(1200)
_DEFAULT = deploy.DEPLOY / "docker" / "config.yaml"


class Contained(MonitorProcess):
    """The monitor as the image starts it: its own configuration, on loopback and free ports, and a judge."""

    def __init__(self, made: Image, folder: Path, llm: LLMServer) -> None:
        super().__init__(folder)
        self.image = made
        own = yaml.safe_load(_DEFAULT.read_text())
        ports = {"otlp_grpc": self.grpc, "otlp_http": self.http, "prometheus": self.metrics_port}
        for entry in [*own["sources"], *own["sinks"]]:
            entry |= {"host": "127.0.0.1", "port": ports[entry["type"]]}
        price = {"input_per_million": 1, "output_per_million": 2}
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": price}
        evaluators = [{"type": "overlap_groundedness"}, {"type": "groundedness"}]
        self.config = {**own, "judge": judge, "evaluators": evaluators, "assembly": {"grace_period": "300ms"}}

    def spawn(self) -> None:
        words = [*self.image.said("ENTRYPOINT"), *self.image.said("CMD")]
        path = self.image.root / words[-1].lstrip("/")
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            self.process = self.image.popen(words, stdout=log, stderr=log)  # type: ignore[assignment]

    def healthy(self) -> subprocess.CompletedProcess[str]:
        """Ask as the image's health check does."""
        asks = [*self.image.said("HEALTHCHECK"), "--url", f"http://127.0.0.1:{self.metrics_port}"]
        asking = self.image.popen(asks, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, complained = asking.communicate(timeout=300)
        return subprocess.CompletedProcess(asks, asking.returncode, said, complained)


@pytest.fixture(scope="module")
def made() -> Iterator[Image]:
    with image.made() as one:
        yield one


@pytest.mark.parametrize("folder", ["docker", "sample-service"])
def test_hadolint_finds_nothing_in_the_dockerfiles(folder: str) -> None:
    done = deploy.hadolint(deploy.DEPLOY / folder / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN apt-get install curl\n")
    assert "DL3006" in deploy.hadolint(tmp_path / "Dockerfile").stdout


def test_the_image_runs_as_nobody_in_particular_and_needs_no_shell() -> None:
    last = {one.name: one for one in dockerfile.read(DOCKERFILE) if one.stage == 1}
    assert last["USER"].text == f"{image.USER}:{image.USER}"
    assert "RUN" not in last  # the base has nothing that could run one
    assert all(last[name].words[0].startswith(("/usr/bin/python3", "run")) for name in ("ENTRYPOINT", "HEALTHCHECK"))
    assert last["VOLUME"].text == dockerfile.environment(dockerfile.read(DOCKERFILE))["STATE_DIRECTORY"]


def test_the_context_of_the_build_holds_what_is_copied_and_little_else() -> None:
    ignored = (image.REPOSITORY / ".dockerignore").read_text()
    kept = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    copied = {
        source
        for one in dockerfile.read(DOCKERFILE)
        if one.name == "COPY" and not one.text.startswith("--from")
        for source in one.text.split()[:-1]
    }
    assert kept == copied


def test_the_configuration_of_the_image_is_valid_and_listens_beyond_its_container() -> None:
    loaded = config.load(_DEFAULT)
    assert {one.host for one in [*loaded.sources, *loaded.sinks]} == {"0.0.0.0"}  # type: ignore[attr-defined]


def test_only_the_volume_can_be_written_to_and_there_is_no_shell(made: Image) -> None:
    assert made.writable() == {made.state.relative_to(made.root)}
    with pytest.raises(FileNotFoundError):
        made.popen(["/bin/sh", "-c", "true"])


def test_all_code_is_compiled(made: Image) -> None:
    """Else each start would compile anew, since nothing can be written beside the code."""
    for room in ("monitor", "litellm", "pydantic", "grpc"):
        folder = made.root / "opt/rag-monitor" / room
        (version,) = {path.name.split(".")[1] for path in (folder / "__pycache__").iterdir()}
        for path in folder.glob("*.py"):
            assert (folder / "__pycache__" / f"{path.stem}.{version}.pyc").exists(), path


_LOAD = """
import importlib, json, os, pathlib, pkgutil, sys, warnings
warnings.simplefilter("ignore")
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
import litellm.llms
loaded = []
for name in sys.argv[1:] or [one.name for one in pkgutil.walk_packages(litellm.llms.__path__, "litellm.llms.")]:
    try:
        importlib.import_module(name)
        loaded.append(name)
    except Exception:
        pass
print(json.dumps(loaded))
"""


def test_every_provider_that_litellm_can_load_can_be_loaded_without_what_is_left_out(made: Image) -> None:
    """And so can the modules of which the debug symbols were taken."""
    whole = subprocess.check_output([sys.executable, "-c", _LOAD], stderr=subprocess.DEVNULL, text=True)
    modules = {
        str(path.relative_to(made.root / "opt/rag-monitor")) for path in made.root.glob("opt/rag-monitor/**/*.so")
    }
    compiled = {name.partition(".")[0].replace("/", ".") for name in modules}
    assert {"uvloop.loop", "grpc._cython.cygrpc", "zstandard.backend_c"} <= compiled
    providers = json.loads(whole.splitlines()[-1])
    assert len(providers) > 200
    asked = [*providers, *sorted(compiled)]
    asking = made.popen(["/usr/bin/python3", "-c", _LOAD, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, complained = asking.communicate(timeout=600)
    assert asking.returncode == 0, complained
    assert set(asked) - set(json.loads(said.splitlines()[-1])) == set()


def test_what_is_left_out_has_a_reason_and_is_nowhere_in_the_image(made: Image) -> None:
    """A pattern without a match ends the build: so each names something of the locked environment."""
    for gone in ("litellm/proxy/proxy_server.py", "litellm/rust_bridge/_native.abi3.so", "hf_xet", "hatchling", "bin"):
        assert not (made.root / "opt/rag-monitor" / gone).exists(), gone
    files = [path for path in (made.root / "opt/rag-monitor").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 260e6  # 378 MB with everything


@pytest.mark.parametrize(("pattern", "said"), [("nothing/*", "nothing matches 'nothing/\\*'"), ("one/*", "")])
def test_a_pattern_without_a_match_ends_the_build(tmp_path: Path, pattern: str, said: str) -> None:
    for path in ("one/goes.py", "one/stays/a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    part = slim.Part("unused", (pattern,), ("one/stays/*",))
    with pytest.raises(LookupError, match=said) if said else nullcontext():
        assert slim.slim(tmp_path, [part]) == 1
        assert [path.name for path in tmp_path.rglob("*.py")] == ["a.py"]


def test_what_the_steps_made_receives_judges_and_stops_as_the_image_starts_it(made: Image, tmp_path: Path) -> None:
    """No shell, another user, nothing to write to but the volume, no memory both written and executed."""
    with LLMServer() as llm:
        llm.always(answered)
        with Contained(made, tmp_path, llm) as monitor:
            assert monitor.healthy().stdout == "healthy\n"
            for service in (RagService.over_http(monitor.http), RagService.over_grpc(monitor.grpc)):
                service.ask(answer=BAD)
                service.flush()
                service.close()
            for evaluator in ("overlap_groundedness", "groundedness"):
                wait_until(
                    lambda name=evaluator: (
                        monitor.total("ragmonitor_evaluations_total", evaluator=name, defect="true") == 2
                    ),
                    60,
                    f"two verdicts of {evaluator}",
                )
            assert monitor.terminate() == 0
            assert monitor.healthy().returncode == 1
    assert {"history.db", "spool.db"} <= {path.name for path in made.state.iterdir()}
