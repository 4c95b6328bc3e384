"""`rag-monitor check`: validate a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import echo_json, echo_lines
from monitor.errors import ConfigError
from monitor.errors.deprecation import deprecated_options
from monitor.operations.check import warnings
from monitor.operations.describe import describe, evaluators


def check(
    config: ConfigPath = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, also when the configuration is wrong.")
    ] = False,
) -> None:
    """Validate a configuration and say what it will do. Exit status 2 when it is wrong.

    Warns of settings with which the monitor would start but could not work, such as a judge without an API key, and of
    deprecated options.
    """
    name = str(config or "the defaults")
    try:
        loaded = configuration.load(config)
        warned = [*configuration.readable_secrets(config), *deprecated_options(loaded), *warnings(loaded)]
        sentences = list(describe(loaded))
    except ConfigError as error:
        if not as_json:
            raise
        echo_json({"config": name, "valid": False, "error": str(error)})
        raise typer.Exit(2) from None
    if as_json:
        summaries = [asdict(one) for one in evaluators(loaded)]
        echo_json({"config": name, "valid": True, "warnings": warned, "does": sentences, "evaluators": summaries})
    else:
        echo_lines([first_line(name, warned), *(f"warning: {one}" for one in warned), *sentences])


def first_line(name: str, warned: Sequence[str]) -> str:
    """Return the sentence on a configuration that can be used."""
    but = f", with {len(warned)} warning{'s' if len(warned) > 1 else ''}" if warned else ""
    return f"{name}: valid{but}"
