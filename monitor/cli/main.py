"""The command line: gathers the commands, which import what they need when they run, so that starting is quick."""

from __future__ import annotations

import typer

from monitor import __version__
from monitor.cli import (
    backfill,
    benchmark,
    calibrate,
    cases,
    check,
    coverage,
    demo,
    doctor,
    evaluate,
    export,
    forget,
    gate,
    health,
    plan,
    preview,
    reference,
    rules,
    run,
    top,
    try_case,
    why,
)

app = typer.Typer(
    name="rag-monitor",
    help="Watches the answers of RAG services: true defect rates, alerts on intervals.",
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
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""


app.command()(run.run)
app.command()(demo.demo)
app.command()(top.top)
app.command()(check.check)
app.command()(health.health)
app.command()(doctor.doctor)
app.command()(cases.cases)
app.command()(coverage.coverage)
app.command()(evaluate.evaluate)
app.command("try")(try_case.try_case)
app.command()(benchmark.benchmark)
app.command()(why.why)
app.command()(export.export)
app.command()(forget.forget)
app.command()(calibrate.calibrate)
app.command()(plan.plan)
app.command()(preview.preview)
app.command()(backfill.backfill)
app.command()(gate.gate)
app.command()(rules.rules)
app.command()(reference.reference)
