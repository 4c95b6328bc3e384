"""`rag-monitor calibrate`: how good a judge is according to people's labels, and its rates corrected for its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import align, echo_json, echo_lines, report, without_empty
from monitor.operations import calibrate as operation
from monitor.operations.calibrate import CalibrationReport, EvaluatorCalibration
from monitor.quantities import number_of, percent
from monitor.statistics.correction import CorrectedRate, ShareInterval
from monitor.statistics.rates import Estimate


def calibrate(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS.jsonl", help="One object per line: `defect`, and `id` or `request_id` and `evaluator`."
        ),
    ],
    *,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            "--results", "-r", help="Files of sinks `jsonl`, or history.db. Default: the configured sinks' files."
        ),
    ] = None,
    audits: Annotated[
        bool, typer.Option("--audits", help="Treat the labelled results as a random sample of these results.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE.prom", help="Write the label sums for the textfile collector."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Save the label sums in the storage folder, for the running monitor.")
    ] = False,
    config: _options.ConfigPath = None,
    as_json: _options.Json = False,
) -> None:
    """Compare judges with people's labels: sensitivity, specificity, and the corrected defect rate beside the raw one.

    With --save the running monitor exports the label sums within a minute, and the rules of `rag-monitor rules` compute
    the corrected rate of each app. Saving replaces what was saved before.

    Labels are matched with results of the sink `jsonl`, of the history, or of `evaluate -o`; rows of `rag-monitor
    export` with `defect` null are skipped. To correct a rate takes at least 100 labelled defects and 100 labelled good
    answers (with --audits: 200 labels). Exit status 1: a line is wrong, or no label matches a result.
    """
    loaded = configuration.load(config)
    found = operation.calibrate(labels, results or operation.configured_results(loaded), audits=audits)
    if metrics is not None:
        operation.write_metrics(found, metrics)
    if save and found.evaluators:
        operation.save(found, loaded.storage.path)
    if as_json:
        echo_json({**asdict(found), "evaluators": [_object(one) for one in found.evaluators]})
    else:
        echo_lines(_lines(found))
    for problem in found.problems:
        report(problem)
    if found.problems or not found.evaluators:
        raise typer.Exit(1)


def _object(one: EvaluatorCalibration) -> dict[str, Any]:
    raw = {"evaluated" if key == "judged" else key: value for key, value in asdict(one.raw).items()}
    return {**asdict(one), "raw": raw, "cells": [cell._asdict() for cell in one.cells]}


def _lines(found: CalibrationReport) -> Iterator[str]:
    notes = [number_of(found.labels, "label"), number_of(found.results, "scored result")]
    notes += [f"{number_of(found.unmatched, 'label')} without a result"] if found.unmatched else []
    notes += [f"{number_of(found.disputed, 'result')} with contradicting labels left out"] if found.disputed else []
    yield "; ".join(notes)
    if not found.evaluators:
        return
    yield ""
    table = [_column(one) for one in found.evaluators]
    names = ["", "  version", "labelled defective", "labelled good", "sensitivity", "  95 % interval", "specificity"]
    names += ["  95 % interval", "raw defect rate", "  95 % interval", "corrected rate", "  95 % interval", "  method"]
    yield from align(without_empty(zip(names, *table, strict=True)))


def _column(one: EvaluatorCalibration) -> list[str]:
    return [
        one.evaluator,
        one.version,
        str(one.quality.defects),
        str(one.quality.good),
        *_share(one.quality.sensitivity),
        *_share(one.quality.specificity),
        percent(one.raw.rate),
        _limits(one.raw),
        percent(one.corrected.rate) if one.corrected else "-",
        _limits(one.corrected) if one.corrected else "-",
        one.method,
    ]


def _share(share: ShareInterval | None) -> tuple[str, str]:
    return (percent(share.value), _limits(share)) if share else ("-", "-")


def _limits(one: ShareInterval | Estimate | CorrectedRate) -> str:
    return f"{percent(one.lower)} to {percent(one.upper)}"
