"""The command line. Each module in this folder is a command: `gate.py` with its function `gate` is `rag-monitor gate`.

A module is imported when its command runs; for the list of commands only its docstring is read. A command with the name
of a Python keyword carries an underscore (`try_.py`).
"""

from __future__ import annotations

import ast
import gc
import os
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperCommand, TyperGroup

from monitor import __version__, cli

_OTHERS: Final = frozenset({"main", "console"})
COMPLETION: Final = "_RAG_MONITOR_COMPLETE"
"""The variable by which the scripts of `rag-monitor completion` ask for completions."""


class CommandFolder(TyperGroup):
    """The commands of this folder."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        nearest: Any = dict.fromkeys(_modules())
        self.commands = nearest  # typer suggests the nearest of these for an unknown name

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands in alphabetical order."""
        return sorted(_modules())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Return a command; None if there is no such module."""
        if self.commands.get(cmd_name) is not None:
            return self.commands[cmd_name]
        name = _modules().get(cmd_name)
        if name is None:
            return None
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        one.command(cmd_name)(getattr(import_module(f"{cli.__name__}.{name}"), name))
        if not gc.isenabled():  # `__main__` disables it
            gc.freeze()
            gc.enable()
        return typer.main.get_command(one)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands that begin as typed, for the shell; none is imported."""
        self.commands = {command: TyperCommand(command, help=_help(name)) for command, name in _modules().items()}
        return super().shell_complete(ctx, incomplete)

    def main(self, *given: Any, **named: Any) -> Any:
        """Run a command, or answer a shell that asks for completions."""
        if COMPLETION in os.environ:
            get_completion_inspect_parameters()  # registers the shells, as typer does for its own options
        named.setdefault("complete_var", COMPLETION)  # also if it runs as `python -m monitor`
        return super().main(*given, **named)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the list of commands. Importing them all would take as long as starting the monitor."""
        self.commands = {command: TyperCommand(command, help=_help(name)) for command, name in _modules().items()}
        super().format_help(ctx, formatter)


def _help(name: str) -> str:
    """Return the docstring of the command in the module `name`."""
    source = find_spec(f"{cli.__name__}.{name}")
    parsed = ast.parse(Path(source.origin).read_bytes()) if source is not None and source.origin else ast.Module([], [])
    functions = (one for one in parsed.body if isinstance(one, ast.FunctionDef) and one.name == name)
    return next((ast.get_docstring(one) or "" for one in functions), "")


def _modules() -> dict[str, str]:
    """Return the modules of the commands, by the command's name."""
    names = (one.name for one in pkgutil.iter_modules(cli.__path__))
    return {name.rstrip("_"): name for name in names if name not in _OTHERS and not name.startswith("_")}


app = typer.Typer(
    name="rag-monitor",
    cls=CommandFolder,
    help="Monitor the answer quality of RAG services: defect rates with intervals, and alerts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rag-monitor {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options of every command."""
