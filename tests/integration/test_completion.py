"""What Tab types in real shells, after the script of `rag-monitor completion`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from monitor.registry import types
from tests.support.command import command
from tests.support.paths import ROOT
from tests.support.terminal import Terminal
from tests.support.tools import require, wait_until

SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), ""),
    "zsh": (("-f", "-i"), "autoload -Uz compinit; compinit -u -D"),
    "fish": (("--no-config", "--interactive"), ""),
}
"""How each is started without the files of a user, and what it needs to complete at all."""

TYPED = {
    "a command": ("pre", ["preview"]),
    "an option": ("check --js", ["check", "--json"]),
    "a choice": ("rules --format te", ["rules", "--format", "tests"]),
    "an evaluator": ("try grounded", ["try", "groundedness"]),
    "a file": ("check -c ours", ["check", "-c", "ours.yaml"]),
}

CONFIGURATION = """
judge: {model: openai/x, api_key: none}
evaluators:
  - {type: rubric, file: my_own.md}
"""

RUBRIC = ROOT / "monitor" / "evaluators" / "rubrics" / "coherence.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a configuration, and a `rag-monitor` that writes down its arguments unless a shell asks."""
    (tmp_path / "ours.yaml").write_text(CONFIGURATION)
    (tmp_path / "my_own.md").write_text(RUBRIC.read_text().replace("name: coherence", "name: my_own"))
    program = tmp_path / "bin" / "rag-monitor"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
if [ -n "$_RAG_MONITOR_COMPLETE" ]; then exec {sys.executable} -m monitor "$@"; fi
printf '%s\\n' "$@" > run.part && mv run.part run.txt
"""
    )
    program.chmod(0o755)
    return tmp_path


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, home: Path) -> Iterator[Terminal]:
    """A shell in which the script was sourced."""
    name = str(request.param)
    options, before = SHELLS[name]
    program = require(name, name)
    (home / "script").write_text(command("completion", name).stdout)
    environment = {
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
    }
    with Terminal() as terminal:
        process = terminal.shell(program, *options, **environment)
        try:
            terminal.press(f"cd {home}\n{before}\n. ./script\ntouch ready\n")
            wait_until((home / "ready").exists, what="a prompt")
            yield terminal
        finally:
            process.kill()
            process.wait()


@pytest.mark.lengthy
def test_tab_completes_commands_options_choices_evaluators_and_files(home: Path, shell: Terminal) -> None:
    ran = home / "run.txt"
    for what, (begun, completed) in TYPED.items():
        shell.press(f"rag-monitor {begun}\t\n")
        wait_until(ran.exists, 20, f"{what} in {shell.drawn[-300:]!r}")
        assert ran.read_text().splitlines() == completed, what
        ran.unlink()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, home: Path) -> Callable[[str], list[str]]:
    """Ask as bash does what could stand in the place of the last word."""
    monkeypatch.chdir(home)

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_RAG_MONITOR_COMPLETE", "complete_bash")
        return command().stdout.split()

    return ask


def test_evaluators_of_the_configuration_come_first_and_the_last_of_a_list_is_completed(
    asked: Callable[[str], list[str]],
) -> None:
    names = asked("rag-monitor why -c ours.yaml -e ")
    assert names[0] == "my_own"
    assert set(names) == {"my_own", *types("evaluators"), "retrieval_empty", "context_not_recorded"}
    assert asked("rag-monitor why -c ours.yaml -e my") == ["my_own"]
    assert asked("rag-monitor evaluate --evaluators hhem,jailb") == ["hhem,jailbreak"]


def test_a_configuration_that_cannot_be_read_leaves_the_built_in_evaluators(
    asked: Callable[[str], list[str]], home: Path
) -> None:
    (home / "broken.yaml").write_text("evaluators: [{type: no_such}]\n")
    assert asked("rag-monitor why -c broken.yaml -e grounded") == ["groundedness"]
    assert asked("rag-monitor why -c missing.yaml -e grounded") == ["groundedness"]


def test_every_command_and_every_option_can_be_completed(asked: Callable[[str], list[str]]) -> None:
    commands = asked("rag-monitor ")
    assert {"run", "check", "try", "completion"} <= set(commands)
    for one in commands:
        assert "--help" in asked(f"rag-monitor {one} --"), one
    assert set(asked("rag-monitor rules --")) == {
        "--config",
        "--datasource",
        "--format",
        "--output",
        "--json",
        "--help",
    }


def test_another_shell_is_refused_with_those_that_there_are() -> None:
    result = command("completion", "tcsh")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in SHELLS)
