"""`rag-monitor completion`: the script that completes commands in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_inspect_parameters, shell_complete

from monitor.cli.main import COMPLETION


class Shell(StrEnum):
    """The shells that can complete commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(ctx: typer.Context, shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the script that completes commands, options, evaluators and files in bash, zsh or fish.

    It asks `rag-monitor` itself at each Tab, so it needs no update with a new version.
    """
    get_completion_inspect_parameters()  # registers the shells
    shell_complete(ctx.find_root().command, {}, "rag-monitor", COMPLETION, f"source_{shell}")
