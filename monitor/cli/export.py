"""`rag-monitor export`: judged answers as a data set, with room for people's labels."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.run import ConfigPath


class ShapeName(StrEnum):
    """Whose field names the rows have."""

    CASE = "case"
    RAGAS = "ragas"
    DEEPEVAL = "deepeval"
    MLFLOW = "mlflow"
    LANGFUSE = "langfuse"
    PHOENIX = "phoenix"


def export(
    *,
    defects: Annotated[bool, typer.Option("--defects", help="Only what was judged defective. The default.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Whatever the verdict.")] = False,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, metavar="N", help="So many at random, whatever the verdict."),
    ] = None,
    since: Annotated[str, typer.Option("--since", help="Verdicts of which time, up to now.")] = "7d",
    app: Annotated[str | None, typer.Option("--app", help="Of this service alone.")] = None,
    evaluator: Annotated[str | None, typer.Option("--evaluator", help="Of this evaluator alone.")] = None,
    shape: Annotated[ShapeName, typer.Option("--shape", help="The tool that imports it.")] = ShapeName.CASE,
    redaction: Annotated[
        bool, typer.Option("--redaction/--no-redaction", help="Mask personal data and secrets that are found.")
    ] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing.")
    ] = None,
    config: ConfigPath = None,
) -> None:
    """Write judged cases from the history, one JSON object a line: deduplicated, redacted, with `defect` left open.

    Fill in `defect` with true or false, and `rag-monitor calibrate` takes the file. Needs `storage.texts: all`. Labels
    of defects alone say nothing of what a judge misses: for that take --sample, which is drawn from all verdicts, or
    with --defects from the defects. Exit status 1 when there is nothing to write.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import exported  # noqa: PLC0415
    from monitor.errors import ConfigError  # noqa: PLC0415
    from monitor.privacy import audit  # noqa: PLC0415
    from monitor.telemetry.events import Event  # noqa: PLC0415

    if every and defects:
        raise ConfigError("--all: takes any verdict, --defects only one: give one of both")
    storage = configuration.load(config).storage
    found = exported.collect(
        storage,
        exported.Wanted(
            defects=defects or not (every or sample),
            sample=sample,
            since=exported.seconds_ago(since, time.time()),
            app=app,
            evaluator=evaluator,
            redacted=redaction,
        ),
    )
    exported.write(found, shape.value, output, sys.stdout)
    if found.rows:
        requests = sorted({row["request_id"] for row in found.rows})
        audit.record(storage.path, Event.TEXTS_EXPORTED, by="export", redacted=redaction, requests=requests)
    typer.echo(exported.told(found), err=True)
    if not found.rows:
        raise typer.Exit(1)
