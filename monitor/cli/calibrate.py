"""`rag-monitor calibrate`: how good a judge is by people's labels, and what its rates are without its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.run import ConfigPath


def calibrate(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS.jsonl", help="One object a line: id or request_id, evaluator, defect.")
    ],
    *,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", "-r", help="Files of results. Default: those of the configured sinks `jsonl`."),
    ] = None,
    audits: Annotated[
        bool, typer.Option("--audits", help="The labelled results were drawn at random from all of these results.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE.prom", help="Write the labels' sums for the textfile collector."),
    ] = None,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of a table.")] = False,
) -> None:
    """Compare judges with people: sensitivity and specificity, and the corrected rate beside the raw one.

    Labels belong to results as the sink `jsonl` and `evaluate -o` write them. Nothing is corrected with fewer than 100
    labelled defects and 100 labelled good answers (with --audits: 200 labels). Exit status 1 when a line is wrong or
    no label belongs to a result.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import calibrated  # noqa: PLC0415

    files = results or calibrated.configured(configuration.load(config))
    found = calibrated.run(labels, files, audits=audits)
    if metrics is not None:
        calibrated.write_metrics(found, metrics)
    if as_json:
        typer.echo(calibrated.as_json(found))
    else:
        for line in calibrated.lines(found):
            typer.echo(line)
    for trouble in found.troubles:
        typer.echo(trouble, err=True)
    if found.troubles or not found.judges:
        raise typer.Exit(1)
