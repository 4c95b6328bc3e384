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
        typer.Option("--results", "-r", help="Of sinks `jsonl`, or history.db. Default: the configured sinks'."),
    ] = None,
    audits: Annotated[
        bool, typer.Option("--audits", help="The labelled results were drawn at random from all of these results.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE.prom", help="Write the labels' sums for the textfile collector."),
    ] = None,
    save: Annotated[
        bool,
        typer.Option("--save", help="Keep the labels' sums in the folder of `storage`, for the running monitor."),
    ] = False,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of a table.")] = False,
) -> None:
    """Compare judges with people: sensitivity and specificity, and the corrected rate beside the raw one.

    With --save the running monitor exports the labels' sums beside its own, from a minute later on, and the rules of
    `rag-monitor rules` have the corrected rate of each app. What was saved before is replaced.

    Labels belong to results as the sink `jsonl`, the history and `evaluate -o` keep them; rows of `rag-monitor export`
    whose `defect` is still null are passed over. Nothing is corrected with fewer than 100
    labelled defects and 100 labelled good answers (with --audits: 200 labels). Exit status 1 when a line is wrong or
    no label belongs to a result.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import calibrated, calibrated_kept, calibrated_report  # noqa: PLC0415

    loaded = configuration.load(config)
    found = calibrated.run(labels, results or calibrated.configured(loaded), audits=audits)
    if metrics is not None:
        calibrated_kept.write_metrics(found, metrics)
    if save and found.judges:
        calibrated_kept.save(found, loaded.storage.path)
    if as_json:
        typer.echo(calibrated_report.as_json(found))
    else:
        for line in calibrated_report.lines(found):
            typer.echo(line)
    for trouble in found.troubles:
        typer.echo(trouble, err=True)
    if found.troubles or not found.judges:
        raise typer.Exit(1)
