"""`rag-monitor digest`: the figures of the past week compared with the week before."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import clean, echo_json, echo_lines, exit_status_1, in_markdown
from monitor.clock import SystemClock
from monitor.operations.digest import Digest, as_object, build_digest, digest_request
from monitor.operations.digest.words import sections_of, title_of
from monitor.operations.storage_folder import existing_history
from monitor.quantities import parse_duration
from monitor.storage import files

_MINUTE: Final = 60.0


class Form(StrEnum):
    """How a digest is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def digest(
    *,
    app: Annotated[str | None, typer.Option("--app", callback=_options.app, help="Only this service.")] = None,
    since: Annotated[
        str,
        typer.Option("--since", metavar="DURATION", help="The period, which ends now. Compared with the one before."),
    ] = "7d",
    form: Annotated[Form, typer.Option("--format", help="How to print it.")] = Form.TEXT,
    config: ConfigPath = None,
) -> None:
    """Print how the past week compares with the week before: rates, incidents, what to fix, spend, coverage.

    Reads the storage folder, even while a monitor writes it. Says which rates changed significantly, which did not, and
    for which there is too little data. Exit status 1 when the history cannot be read.
    """
    period = _options.read("--since", parse_duration, since)
    if period < _MINUTE:
        raise typer.BadParameter("must be a minute or more", param_hint="--since")
    settings = configuration.load(config)
    now = SystemClock().now()
    existing_history(settings.storage.path / files.HISTORY)
    with exit_status_1():
        wanted = digest_request(settings, before=now - 2 * period, since=now - period, until=now, app=app)
        found = build_digest(wanted)
    if form is Form.JSON:
        echo_json(as_object(found))
    elif form is Form.MARKDOWN:
        echo_lines(_markdown(found))
    else:
        echo_lines(_text(found))


def _text(found: Digest) -> list[str]:
    lines = [title_of(found, clean)]
    for section in sections_of(found, clean):
        lines += ["", section.heading, *(f"  {line}" for line in section.lines)]
    return lines


def _markdown(found: Digest) -> list[str]:
    lines = [f"# {title_of(found, in_markdown)}"]
    for section in sections_of(found, in_markdown):
        lines += ["", f"## {section.heading}", "", *(f"- {line}" for line in section.lines)]
    return lines
