"""Plug-ins that cannot be used are mistakes of the configuration: named, with the place, and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor import registry
from monitor.config import Config, parse
from monitor.errors import ConfigError
from monitor.operations.check import warnings
from monitor.stages import Evaluator, named, type_name
from tests.support import plugins

HEAD = """
from typing import ClassVar

from pydantic import model_validator

from monitor.plugins import Convention, DefectRule, Evaluator, Scale, Score
"""
EVALUATOR = f"""{HEAD}
class Tone(Evaluator):
    name: ClassVar[str] = "tone"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(bad=0.0, good=0.5)
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)

    async def evaluate(self, case, judge):
        return Score(1.0, "x")
"""
DIALECT = f"""{HEAD}
class Acme(Convention):
    name: ClassVar[str] = "acme"

    def observe(self, span, records):
        return None
"""
SINK = """
from monitor.plugins import Sink


class Lines(Sink):
    async def deliver(self, results):
        pass
"""
Install = Callable[..., None]


def forget() -> None:
    for found in (registry._installed, registry.types, registry.conventions):
        found.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a plug-in `acme` of one module for this process."""

    def installed(
        code: str, target: str, folder: str = "evaluators", kind: str = "acme", file: str = "acme_plugin.py"
    ) -> None:
        plugins.install_package(tmp_path, "acme", {file: code}, {folder: {kind: target}})
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield installed
    for name in ("acme_plugin", "acme_of.storage", "acme_of"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    forget()


def test_a_sink_of_a_plug_in_is_named_after_its_type_and_not_after_its_module(install: Install) -> None:
    install(SINK, "acme_plugin:Lines", "sinks")
    sinks = parse({"sinks": [{"type": "acme"}, {"type": "acme"}]}).sinks
    assert [type_name(one) for one in sinks] == ["acme", "acme"]
    assert list(named(sinks)) == ["acme", "acme_2"]
    assert sinks[0].external_copies() == "acme"


@pytest.mark.parametrize("kind", ["storage", "listeners"])
def test_a_sink_whose_type_is_a_name_of_the_monitor_s_own_needs_a_name(install: Install, kind: str) -> None:
    install(SINK, "acme_plugin:Lines", "sinks", kind)
    with pytest.raises(
        ConfigError, match=rf"^sinks\[0\]\.name: is required: the monitor itself uses the name '{kind}'"
    ):
        parse({"sinks": [{"type": kind}]})
    assert list(named(parse({"sinks": [{"type": kind, "name": "lines"}]}).sinks)) == ["lines"]


def test_a_sink_may_be_written_in_a_file_with_a_name_of_the_monitor_s_own(install: Install) -> None:
    install(SINK, "acme_of.storage:Lines", "sinks", file="acme_of/storage.py")
    assert list(named(parse({"sinks": [{"type": "acme"}]}).sinks)) == ["acme"]


def read(**options: Any) -> Evaluator:
    return registry.read("evaluators", {"type": "acme", **options}, Evaluator, "evaluators[0]")


def test_a_plug_in_is_a_type_like_any_other(install: Install) -> None:
    install(EVALUATOR, "acme_plugin:Tone")
    assert read().name == "tone"


REFUSED = {
    "raises": (
        "raise RuntimeError('no model')",
        "Tone",
        "cannot be imported: RuntimeError: no model (acme_plugin.py, ",
    ),
    "ends": ("raise SystemExit(3)", "Tone", "cannot be imported: SystemExit: 3 (acme_plugin.py, line 1)"),
    "lacks a package": (
        "import not_here",
        "Tone",
        "cannot be imported: ModuleNotFoundError: No module named 'not_here'",
    ),
    "is no Python": ("def (", "Tone", "cannot be imported: SyntaxError: invalid syntax (acme_plugin.py, line 1)"),
    "has another name": (
        EVALUATOR,
        "Tune",
        "cannot be imported: AttributeError: module 'acme_plugin' has no attribute",
    ),
    "is a number": ("Tone = 5", "Tone", "is not a subclass of Evaluator"),
    "is another kind": (DIALECT, "Acme", "is not a subclass of Evaluator"),
    "lacks its method": (EVALUATOR.replace("def evaluate", "def score"), "Tone", "does not define the method evaluate"),
    "lacks its scale": (EVALUATOR.replace("    scale:", "    other:"), "Tone", "does not define the class field scale"),
    "has no scale": (
        EVALUATOR.replace("Scale.share(bad=0.0, good=0.5)", "5"),
        "Tone",
        "the class field scale must be of the type Scale",
    ),
    "has a number as its version": (
        EVALUATOR.replace('"1"', "1"),
        "Tone",
        "the class field version must be of the type str",
    ),
}


@pytest.mark.parametrize(("code", "name", "said"), REFUSED.values(), ids=REFUSED)
def test_a_plug_in_that_cannot_be_used_is_named_with_its_entry_and_what_is_wrong(
    install: Install, code: str, name: str, said: str
) -> None:
    install(code, f"acme_plugin:{name}")
    with pytest.raises(ConfigError) as caught:
        read()
    assert str(caught.value).startswith(f"evaluators[0]: the plug-in 'acme_plugin:{name}' for evaluators/acme")
    assert said in str(caught.value)


def test_an_evaluator_may_take_what_it_is_from_its_options(install: Install) -> None:
    code = EVALUATOR.replace('    version: ClassVar[str] = "1"', '    version: str = "1"').replace(
        "    scale: ClassVar[Scale] = Scale.share(bad=0.0, good=0.5)",
        "    @property\n    def scale(self):\n        return Scale.share(bad=0.0, good=0.5)",
    )
    install(code, "acme_plugin:Tone")
    assert read(version="2").version == "2"


def test_a_check_of_options_that_breaks_is_named_without_what_it_says(install: Install) -> None:
    code = (
        EVALUATOR
        + "\n    @model_validator(mode='after')\n    def checked(self):\n        raise KeyError('sk-secret')\n"
    )
    install(code, "acme_plugin:Tone")
    with pytest.raises(
        ConfigError, match=r"^evaluators\[0\]: the plug-in 'acme' cannot read its options: KeyError \(ac"
    ):
        read()


DIALECTS = {
    "raises": ("raise RuntimeError('no model')", "cannot be imported: RuntimeError: no model (acme_plugin.py, line 1)"),
    "is another kind": (EVALUATOR.replace("Tone", "Acme"), "is not a subclass of Convention"),
    "has no name": (DIALECT.replace('    name: ClassVar[str] = "acme"', ""), "does not define the class field name"),
    "cannot be made": (
        DIALECT + "\n    def __init__(self):\n        raise ValueError('no')\n",
        "cannot be made: ValueError: no (acme_plugin.py, line ",
    ),
}


@pytest.mark.parametrize(("code", "said"), DIALECTS.values(), ids=DIALECTS)
def test_a_dialect_that_cannot_be_used_is_found_by_check_and_reload(install: Install, code: str, said: str) -> None:
    install(code, "acme_plugin:Acme", "conventions")
    with pytest.raises(ConfigError) as caught:
        list(warnings(Config()))
    assert str(caught.value).startswith("the plug-in 'acme_plugin:Acme' for conventions/acme")
    assert said in str(caught.value)


def test_a_dialect_of_a_plug_in_is_one_of_all(install: Install) -> None:
    install(DIALECT, "acme_plugin:Acme", "conventions")
    assert "acme" in {one.name for one in registry.conventions()}


@pytest.mark.parametrize("folder", ["evaluators", "conventions"])
def test_check_and_run_end_with_status_2_and_one_line(tmp_path: Path, folder: str) -> None:
    entries = {folder: {"acme": "acme_plugin:Acme"}}
    code = {"acme_plugin.py": "raise RuntimeError('no model')"}
    environment = plugins.install_package(tmp_path / "plugins", "acme", code, entries)
    path = tmp_path / "config.json"
    sources, sinks = [{"type": "otlp_http", "port": 0}], [{"type": "prometheus", "port": 0}]
    config: dict[str, Any] = {"sources": sources, "sinks": sinks, "storage": {"path": str(tmp_path / "state")}}
    path.write_text(json.dumps({**config, **({"evaluators": [{"type": "acme"}]} if folder == "evaluators" else {})}))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "monitor", *arguments, "-c", os.fspath(path)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    for done in (run("check"), run("run")):
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert f"the plug-in 'acme_plugin:Acme' for {folder}/acme cannot be imported" in done.stderr.splitlines()[-1]
    done = run("check", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["valid"] is False
