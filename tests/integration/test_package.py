"""The package as strangers get it: built, installed in a clean environment, used from outside the checkout."""

from __future__ import annotations

import email
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from monitor import __version__
from tests.supply_chain import unexpected
from tests.support import cache
from tests.support.tools import wait_until

ROOT = Path(__file__).parents[2]
EXTENDER = '''
"""An evaluator of one's own, in the types that the package promises."""

from typing import ClassVar

from monitor.plugins import Case, DefectRule, Evaluator, Judge, Level, Outcome, Scale, Score


class Politeness(Evaluator):
    """1 where the answer holds the word, else 0."""

    name: ClassVar[str] = "politeness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale(0.0, 1.0, better="higher", levels=(Level("rude", 0.0), Level("polite", 1.0)))
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)

    word: str = "please"
    """What a polite answer says."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        return Score(1.0 if self.word in case.response else 0.0, explanation=f"looked for {self.word!r}")
'''
USER = '''
"""What a user of `monitor`, `monitor.plugins` and `monitor.testing` writes, in the types that they promise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

from monitor import Case, DefectRate, Document, Evaluation, EvaluatorSummary, aevaluate, evaluate
from monitor.plugins import (
    Convention,
    Deliver,
    DefectRule,
    EvaluationResult,
    Evaluator,
    FixedSampler,
    InvalidData,
    Judge,
    Level,
    LogRecord,
    Observation,
    Outcome,
    Question,
    Runtime,
    Scale,
    Score,
    Sink,
    Skipped,
    SkippedReason,
    Span,
    why_trivial,
)
from monitor.testing import ManualClock, RecordingSink, ScriptedJudge


class Asking(Evaluator):
    name: ClassVar[str] = "asking"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale(0.0, 1.0, better="higher", levels=(Level("bad", 0.0), Level("good", 1.0)))
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        why: str = why_trivial(case)
        if why or judge is None:
            return Skipped(SkippedReason.NO_RESPONSE)
        question = Question(name=self.name, instructions="Is it good?", material={"response": case.response}, schema={})
        verdict = await judge.ask(question)
        return Score(float(verdict.data["score"]), "as the judge says")


class Silent(Sink):
    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        async def deliver(results: Sequence[EvaluationResult]) -> None:
            if any(one.outcome.kind not in ("score", "skipped", "unscored") for one in results):
                raise InvalidData("no such outcome")

        yield deliver


class Third(FixedSampler):
    def probability(self, case: Case) -> float:
        return 1 / 3 if case.app else 0.0


class Nothing(Convention):
    name: ClassVar[str] = "nothing"

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        return None


def check(clock: ManualClock, sink: RecordingSink) -> float | None:
    case = Case.from_texts("How long?", "Two years.", [Document("Two years.")])
    judge = ScriptedJudge([{"score": 1.0}])
    found: Evaluation = evaluate([case, {"query": "How long?"}], ["groundedness", Asking()], judge=judge)
    one: EvaluatorSummary = found["asking"]
    rate: DefectRate = one.defect_rate
    clock.advance(60.0)
    assert [result.evaluator for result in sink.results] == []
    return rate.rate


async def later() -> int:
    return (await aevaluate([], [Asking()]))["asking"].scored
'''
EXTENDER_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "polite"
version = "1"
[project.entry-points."rag_monitor.evaluators"]
politeness = "polite:Politeness"
"""


def run(*command: object, cwd: Path) -> str:
    """What a command says; it must succeed. It knows nothing of the checkout."""
    foreign = ("PYTHONPATH", "VIRTUAL_ENV", "RAG_MONITOR_CONFIG")
    surroundings = {name: value for name, value in os.environ.items() if name not in foreign}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=surroundings, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Built(NamedTuple):
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """The source distribution of the checkout, and the wheel that is built from that."""
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    run(*build, "sdist", cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run(*build, "wheel", cwd=folder / f"rag_monitor-{__version__}")
    (wheel,) = folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def python(built, tmp_path_factory) -> Path:
    """A new environment with the locked dependencies, the wheel, and a package with an evaluator of its own."""
    folder = tmp_path_factory.mktemp("installed")
    plug_in = folder / "plug-in"
    plug_in.mkdir()
    (plug_in / "polite.py").write_text(EXTENDER)
    (plug_in / "pyproject.toml").write_text(EXTENDER_PROJECT)
    uv = (sys.executable, "-m", "uv", "--quiet")
    run(*uv, "venv", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install = (*uv, "pip", "install", "--python", python)
    locked = (*install, "--require-hashes", "-r", ROOT / "requirements.lock")
    cache.run("an environment with the locked dependencies", list(map(str, locked)), cwd=folder)
    run(*install, "--no-deps", "--no-build-isolation", built.wheel, plug_in, cwd=folder)
    return python


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "monitor").rglob("*") if path.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    boards = {path.name for path in (ROOT / "grafana" / "dashboards").glob("*.json")}
    assert {name for name in names if name.startswith("monitor/")} == package
    rest = {name for name in names if not name.startswith("monitor/")}
    shared = f"rag_monitor-{__version__}.data/data/share/rag-monitor/dashboards/"
    assert {name.removeprefix(shared) for name in rest if name.startswith(shared)} >= boards
    information = f"rag_monitor-{__version__}.dist-info/"
    assert all(name.startswith((shared, information)) for name in rest), "nothing else lands in site-packages"
    assert f"{information}licenses/LICENSE" in rest


def test_the_installed_package_finds_its_dashboards(python, tmp_path):
    count = "from monitor.operations.dashboards import boards; print(len(boards()))"
    assert int(run(python, "-c", count, cwd=tmp_path)) == len([*(ROOT / "grafana" / "dashboards").glob("*.json")])


def test_the_wheel_and_the_source_distribution_hold_the_same_bytes(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        installed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("monitor/")}
    top = f"rag_monitor-{__version__}/"
    with tarfile.open(built.sdist) as archive:
        files = [one for one in archive.getmembers() if one.isfile() and one.name.startswith(f"{top}monitor/")]
        assert {one.name.removeprefix(top): archive.extractfile(one).read() for one in files} == installed
    assert not [name for name in installed if name.endswith((".pth", ".so"))]


def test_nothing_that_the_lock_installs_runs_at_the_start_of_python(python):
    (folder,) = python.parent.parent.glob("lib/python*/site-packages")
    assert unexpected(folder) == {}


def test_its_metadata_say_version_licence_extras_and_types(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        metadata = email.message_from_bytes(wheel.read(f"rag_monitor-{__version__}.dist-info/METADATA"))
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Provides-Extra") == ["hhem", "notify"]
    assert "Typing :: Typed" in metadata.get_all("Classifier")


def test_it_says_its_version_outside_the_checkout(python, tmp_path):
    assert run(python.parent / "rag-monitor", "--version", cwd=tmp_path).split() == ["rag-monitor", __version__]


def test_importing_it_does_nothing(python, tmp_path):
    program = """
import sys, threading
known = set(sys.modules)
import monitor, monitor.plugins, monitor.testing
assert threading.active_count() == 1, threading.enumerate()
heavy = {"litellm", "grpc", "uvicorn", "starlette", "kafka", "sqlite3", "httpx"} & (set(sys.modules) - known)
assert not heavy, heavy
"""
    assert not run(python, "-W", "error", "-c", program, cwd=tmp_path)
    assert not list(tmp_path.iterdir()), "no file was left"


def test_an_evaluator_of_another_package_scores_what_the_installed_command_is_given(python, tmp_path):
    rows = [
        {"id": str(number), "question": "?", "response": answer} for number, answer in enumerate(["yes please", "no"])
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = (python.parent / "rag-monitor", "evaluate", "rows.jsonl", "--evaluators", "politeness", "-o", "out.jsonl")
    run(*command, cwd=tmp_path)
    results = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(one["evaluator"], one["score"], one["defect"]) for one in results] == [
        ("politeness", 1.0, False),
        ("politeness", 0.0, True),
    ]


def test_the_rubrics_and_the_advice_are_found_where_it_is_installed(python, tmp_path):
    program = """
from monitor import registry
from monitor.stages import Evaluator
for name in registry.types("evaluators"):
    registry.component("evaluators", name, Evaluator)
print(*registry.types("evaluators"))
"""
    found = run(python, "-c", program, cwd=tmp_path).split()
    assert {path.stem for path in (ROOT / "monitor" / "evaluators" / "rubrics").glob("*.md")} < set(found)


@contextmanager
def demo(python: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`rag-monitor demo` of the installed package, and what it has said so far."""
    running = subprocess.Popen(
        [python.parent / "rag-monitor", "demo"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said: list[str] = []
    assert running.stdout is not None
    reader = threading.Thread(target=lambda: said.extend(iter(running.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        yield running, said
    finally:
        running.kill()
        running.wait()
        reader.join(60)
        running.stdout.close()


def test_the_installed_demo_judges_its_recorded_traffic_and_shows_it_on_the_page(python, tmp_path):
    with demo(python, tmp_path) as (running, said):
        wait_until(lambda: re.search(r"page: http\S+", "".join(said)), 30, "the page")
        (metrics,) = re.findall(r"metrics: (http\S+)", "".join(said))
        (page,) = re.findall(r"page: (http\S+)", "".join(said))

        def judged() -> bool:
            with urllib.request.urlopen(metrics, timeout=60) as answer:
                return b'ragmonitor_evaluations_total{app="acme-support"' in answer.read()

        wait_until(judged, 30, "a verdict")
        with urllib.request.urlopen(page, timeout=60) as shown:
            assert b"acme-support" in shown.read()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
    assert "Traceback" not in "".join(said)


def test_a_type_checker_knows_the_types_of_the_installed_package(python, tmp_path):
    """`py.typed` is shipped, and all that a user imports passes mypy under `--strict`."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    right, wrong, user = tmp_path / "right.py", tmp_path / "wrong.py", tmp_path / "user.py"
    right.write_text(EXTENDER)
    wrong.write_text(EXTENDER.replace("Score(1.0 if", 'Score("1.0" if'))
    user.write_text(USER)
    options = ("--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache")
    check = [sys.executable, "-m", "mypy", *map(str, options)]
    done = subprocess.run([*check, right, wrong, user], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"wrong.py:\d+: error: .*\[arg-type\]", done.stdout), done.stdout
    assert "right.py" not in done.stdout, done.stdout
    assert "user.py" not in done.stdout, done.stdout
