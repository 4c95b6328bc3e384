"""The command line finds its commands in the folder."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from monitor.cli.main import app
from tests.support.command import command

HEAVY = ("monitor.app", "monitor.config", "httpx", "rich.live")


def test_the_list_of_commands_has_a_line_of_help_for_each() -> None:
    shown = command("--help").stdout
    for name in ("backfill", "run", "top", "try", "why"):
        assert f" {name} " in shown
    assert " main " not in shown
    assert " console " not in shown


def test_the_list_of_commands_is_shown_without_importing_one() -> None:
    code = (
        "import contextlib, sys; from monitor.cli.main import app\n"
        "with contextlib.suppress(SystemExit): app(['--help'])\n"
        f"assert not {set(HEAVY)!r} & set(sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True, text=True).stdout
    assert "Watch the monitor detect" in shown


def test_a_command_that_does_not_exist_is_a_usage_error_that_suggests_the_nearest() -> None:
    done = command("chekc")
    assert done.exit_code == 2
    assert "No such command 'chekc'. Did you mean 'check'?" in done.stderr


def test_garbage_is_collected_again_once_the_command_is_imported() -> None:
    code = (
        "import contextlib, gc, sys; from monitor.__main__ import main\n"
        "sys.argv[1:] = ['health', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "assert gc.isenabled() and gc.get_freeze_count()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True)


def test_a_closed_standard_stream_leaves_its_number_to_no_other_file() -> None:
    code = (
        "import os, sys; from monitor.__main__ import main\n"
        "sys.argv[1:] = ['run', '-c', 'no-such-file']\n"
        "try: main()\n"
        "finally: assert all(os.path.sameopenfile(n, os.open(os.devnull, os.O_RDONLY)) for n in range(3))"
    )
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(closed, timeout=300, check=False).returncode == 2


@pytest.mark.parametrize("module", HEAVY)
def test_a_command_imports_nothing_of_the_others(module: str) -> None:
    code = f"import sys; from monitor.cli.main import app; assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_every_command_takes_the_name_of_an_app_as_its_service_states_it() -> None:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    options = {
        name: option
        for name in root.list_commands(context)
        for option in root.get_command(context, name).params
        if "--app" in option.opts
    }
    assert {"why", "gate", "backfill", "incidents"} < options.keys()
    for name, option in options.items():
        assert option.process_value(context, " a\u3000b ") == "a b", name


def test_a_blank_name_of_an_app_is_a_usage_error() -> None:
    found = command("incidents", "--app", "\u3000")
    assert found.exit_code == 2
    assert "must be the name of a service" in found.output
