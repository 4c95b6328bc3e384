"""`rag-monitor try`: one evaluator on one case, with the prompt as sent and the reply as it came."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli._options import ConfigPath

if TYPE_CHECKING:
    from monitor.cli.tried import Tried


def try_(
    evaluator: Annotated[str, typer.Argument(metavar="EVALUATOR", help="Configured, or the type of any other.")],
    *,
    case: Annotated[
        str,
        typer.Option("--case", metavar="FILE|TRACE_ID", help="Rows or a capture; or a trace of the monitor's history."),
    ],
    number: Annotated[
        int | None, typer.Option("--number", min=1, help="Which case of the file. Default: the first to be judged.")
    ] = None,
    times: Annotated[
        int, typer.Option("--times", "-k", min=1, max=100, help="How often it is asked, past caches.")
    ] = 5,
    config: ConfigPath = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: one JSON object, every text exactly as it was.")
    ] = False,
) -> None:
    """Evaluate one case several times: the prompt as sent, the reply as it came, the verdict, and how often it flips.

    It touches no series, cache or budget of a running monitor; the calls are paid for. Exit status 1 when no verdict
    came about.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import given, tried  # noqa: PLC0415
    from monitor.operations.event_loop import run_async  # noqa: PLC0415
    from monitor.telemetry import logs  # noqa: PLC0415

    loaded = configuration.load(config)
    logs.configure("ERROR", "text", sys.stderr)
    who = tried.assignments(loaded, evaluator)
    found = given.find(loaded, case, number, sys.stderr)
    done: list[Tried] = []

    async def main() -> None:
        done.append(await tried.run(loaded, who, found, times))

    run_async(main)
    if as_json:
        typer.echo(tried.as_json(done[0]))
    else:
        for line in tried.lines(done[0]):
            typer.echo(line)
    if not done[0].scored:
        raise typer.Exit(1)
