"""`rag-monitor export`: scored answers as a data set, with room for people's labels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import report, writing
from monitor.clock import SystemClock
from monitor.operations.export import MAX_RESULTS, SHAPES, Export, ExportFilter, collect
from monitor.operations.labels import Half, LabelFilter, agreed_labels, halved, stored_labels
from monitor.quantities import number_of, parse_duration
from monitor.storage.history.rows import dump


class ShapeName(StrEnum):
    """The tool whose field names the rows use."""

    CASE = "case"
    RAGAS = "ragas"
    DEEPEVAL = "deepeval"
    MLFLOW = "mlflow"
    LANGFUSE = "langfuse"
    PHOENIX = "phoenix"


def export(
    *,
    defects: Annotated[bool, typer.Option("--defects", help="Export defects only. The default.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Export defects and good answers.")] = False,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, metavar="N", help="Export N answers drawn at random, defective or not."),
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Look-back window.")] = "7d",
    app: Annotated[str | None, typer.Option("--app", callback=_options.app, help="Export only this service.")] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(
            "--evaluator", autocompletion=_options.complete_evaluators, help="Export only results of this evaluator."
        ),
    ] = None,
    labelled: Annotated[
        bool, typer.Option("--labelled", help="Export the answers that people labelled, with their labels.")
    ] = False,
    half: Annotated[
        Half | None,
        typer.Option("--half", help="With --labelled: the half that measures judges, or that may be shown to them."),
    ] = None,
    shape: Annotated[ShapeName, typer.Option("--shape", help="Use the field names of this tool.")] = ShapeName.CASE,
    redaction: Annotated[
        bool, typer.Option("--redaction/--no-redaction", help="Mask personal data and secrets.")
    ] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    config: _options.ConfigPath = None,
) -> None:
    """Export scored answers from the history as JSON Lines: deduplicated, redacted, with an empty label `defect`.

    Set `defect` to true or false, and pass the file to `rag-monitor calibrate`. Requires `storage.texts: all`. To find
    out what a judge misses, label a --sample of all answers: labels of defects alone cannot show it. With --defects,
    the sample is drawn from the defects. --labelled --half test writes the test set for an offline run: the same
    answers every time, without those on which people disagree. Exit status 1: there is nothing to export.
    """
    if every and defects:
        raise typer.BadParameter("cannot be used with --defects", param_hint="--all")
    if half is not None and not labelled:
        raise typer.BadParameter("needs --labelled", param_hint="--half")
    settings = configuration.load(config)
    labels = stored_labels(settings, LabelFilter(app=app, evaluator=evaluator)) if labelled else []
    wanted = ExportFilter(
        defects_only=defects or not (every or sample or labelled),
        sample=sample,
        since=SystemClock().now() - _options.read("--since", parse_duration, since),
        app=app,
        evaluator=evaluator,
        labels=agreed_labels(halved(labels, half)) if labelled else None,
    )
    found = collect(settings.storage, wanted, redact=redaction)
    _write("".join(dump(SHAPES[shape.value](row)).decode() + "\n" for row in found.rows), output)
    report(_summary(found))
    if not found.rows:
        raise typer.Exit(1)


def _write(text: str, output: Path | None) -> None:
    """Write to a file that only its owner can read, or to standard output."""
    if output is None:
        typer.echo(text, nl=False)
        return
    with writing("--output", output):
        output.touch(mode=0o600)
        output.write_text(text, encoding="utf-8")


def _summary(found: Export) -> str:
    cases, results = number_of(len(found.rows), "case"), number_of(found.results, "result")
    parts = [f"{cases} from {results}", f"{number_of(found.masked, 'piece')} of personal data masked"]
    if found.without_texts:
        parts.append(f"{number_of(found.without_texts, 'result')} without texts left out")
    if found.truncated:
        parts.append(f"only the newest {MAX_RESULTS:,} results were read")
    return "; ".join(parts)
