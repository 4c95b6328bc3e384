"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from monitor.config import Config
from monitor.errors import ConfigError
from monitor.extraction.template import RowPrompt
from monitor.model.case import app_name
from monitor.operations.monitor_client import TOKEN_VARIABLE, MonitorClient, token_of

T = TypeVar("T")


def read(option: str, parse: Callable[[str], T], text: str) -> T:
    """Parse the text of an option. A `ValueError` or `ConfigError` of `parse` becomes a usage error of the option."""
    try:
        return parse(text)
    except (ValueError, ConfigError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def requires(option: str, given: object, other: str, other_given: object) -> None:
    """Refuse an option that has no meaning without another option."""
    if given and not other_given:
        raise typer.BadParameter(f"requires {other}", param_hint=option)


def app(given: str | None) -> str | None:
    """Return the name of a service as the monitor stores it, for the option `--app`."""
    name = app_name(given or "")
    if given and not name:
        raise typer.BadParameter("must be the name of a service, not blank", param_hint="--app")
    return name if given else given


ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The YAML configuration. Without it, defaults apply."),
]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="Read results of the sink jsonl or kafka instead of the history. Repeat it for several replicas.",
    ),
]
MetricsUrl = Annotated[str, typer.Option("--url", metavar="URL", help="The metrics port of the monitor.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN_VARIABLE,
        show_envvar=True,
        metavar="TOKEN",
        help="Bearer token of the port. Prefer the variable.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="A file with the bearer token of the port.")
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", help="CA certificates that verify the port, PEM.")
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        metavar="TEXT",
        help="The prompt that the service builds from a row: a text with {question}, {context}, {history}.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def client_of(url: str, token: str | None, token_file: Path | None, ca_file: Path | None) -> MonitorClient:
    """Return a client of the monitor that the options name. Raises `ConfigError` if they cannot work."""
    return MonitorClient(url, token=token_of(token, token_file), ca_file=ca_file)


def with_prompt(config: Config, prompt: str | None) -> Config:
    """Return the configuration with `extraction.row_prompt` from the option `--prompt`, if that is given."""
    if prompt is None:
        return config
    read("--prompt", RowPrompt.parse, prompt)
    extraction = config.extraction.model_copy(update={"row_prompt": prompt})
    return config.model_copy(update={"extraction": extraction})


def complete_evaluators(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the evaluators whose names begin as typed, for the shell: those of `--config` and all built-in ones.

    In a list such as `a,b`, the last name is completed.
    """
    from monitor.operations.describe import evaluator_names  # noqa: PLC0415 - only for a shell that asks

    done, comma, begun = incomplete.rpartition(",")
    config = ctx.params.get("config")  # as typed, or converted: typer's releases differ
    found = evaluator_names(Path(config) if config else None)
    return [f"{done}{comma}{name}" for name in found if name.startswith(begun)]


def comma_list(text: str | None) -> list[str] | None:
    """Split `a, b` into its names, each once; None stays None."""
    return None if text is None else list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
