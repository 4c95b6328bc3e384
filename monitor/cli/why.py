"""`rag-monitor why`: explain the results of a trace or of an evaluator, or why there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import CaFile, ConfigPath, Json, Token, TokenFile, client_of
from monitor.cli.console.output import clean, echo_json, exit_status_1
from monitor.clock import SystemClock
from monitor.errors import ConfigError
from monitor.operations.diagnosis import Diagnostics, ask_monitor, is_known
from monitor.pipeline.introspection.explain import Cause, Explanation, ExplanationStep
from monitor.quantities import parse_duration


def why(
    trace: Annotated[
        str | None,
        typer.Argument(
            metavar="[TRACE_ID]",
            help="A trace id, or a `request_id`: that of a row, or TRACE_ID/SPAN_ID for one request.",
            show_default=False,
        ),
    ] = None,
    *,
    evaluator: Annotated[
        str | None,
        typer.Option(
            "--evaluator",
            "-e",
            autocompletion=_options.complete_evaluators,
            help="Only this evaluator. Without a trace: why it ran as often as it did.",
        ),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Look-back window, for --evaluator without a trace.")
    ] = "24h",
    app: Annotated[
        str | None,
        typer.Option("--app", callback=_options.app, help="Only this service, for --evaluator without a trace."),
    ] = None,
    config: ConfigPath = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Ask a running monitor, which also knows about requests in progress."
        ),
    ] = None,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    as_json: Json = False,
) -> None:
    """Explain why there is a result or none: each step, and the one setting that would change it.

    By default it reads the storage folder of the configuration, even while a monitor writes it. Exit status 1 when
    nothing is known.
    """
    if trace is None and evaluator is None:
        raise ConfigError("why: give a trace id, or --evaluator")
    seconds = _options.read("--since", parse_duration, since)
    with exit_status_1():
        if url is not None:
            client = client_of(url, token, token_file, ca_file)
            answer = ask_monitor(client, trace or "", evaluator or "", since=seconds, app=app or "")
        else:
            clock = SystemClock()
            diagnostics, named = Diagnostics(configuration.load(config), clock), evaluator or ""
            if trace is not None:
                answer = diagnostics.trace(trace, named)
            else:
                answer = diagnostics.evaluator(named, clock.now() - seconds, app or "")
    if as_json:
        echo_json(asdict(answer))
    else:
        show(answer)
    if not is_known(answer):
        raise typer.Exit(1)


def show(answer: Explanation, console: Console | None = None) -> None:
    """Print an explanation: wrapped and coloured on a terminal, as whole lines elsewhere."""
    console = console if console is not None else Console()
    if not console.is_terminal:
        for line in lines(answer):
            console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
        return
    console.print(Text(clean(answer.subject), style="dim"))
    good = answer.cause is Cause.EVALUATED
    console.print(Text(clean(answer.conclusion), style="bold green" if good else "bold yellow"))
    if answer.setting:
        console.print(Text.assemble("To change it: ", (clean(answer.setting), "bold cyan")))
    _print_steps(console, answer)
    for request in answer.requests:
        console.print()
        console.print(Text(clean(request.subject), style="bold"))
        console.print(Text(clean(request.conclusion), style="green" if request.cause is Cause.EVALUATED else "yellow"))
        _print_steps(console, request)


def _print_steps(console: Console, answer: Explanation) -> None:
    for evaluator, steps in _by_evaluator(answer.steps).items():
        console.print()
        if evaluator:
            console.print(Text(clean(evaluator), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="dim", min_width=_width(answer.steps))
        grid.add_column()
        for one in steps:
            text = Text(clean(one.text))
            if one.setting and one.setting != answer.setting:
                text.append(f"\n{clean(one.setting)}", style="cyan")
            grid.add_row(clean(one.what), text)
        console.print(Padding(grid, (0, 0, 0, 2)))


def lines(answer: Explanation) -> Iterator[str]:
    """Yield an explanation as plain lines."""
    yield clean(answer.subject)
    yield clean(answer.conclusion)
    if answer.setting:
        yield f"To change it: {clean(answer.setting)}"
    width = _width(answer.steps)
    for evaluator, steps in _by_evaluator(answer.steps).items():
        yield ""
        if evaluator:
            yield clean(evaluator)
        for one in steps:
            yield f"  {clean(one.what):{width}}  {clean(one.text)}"
            if one.setting and one.setting != answer.setting:
                yield f"  {'':{width}}  to change it: {clean(one.setting)}"
    for request in answer.requests:
        yield ""
        yield from lines(request)


def _by_evaluator(steps: Sequence[ExplanationStep]) -> Mapping[str, Sequence[ExplanationStep]]:
    """Group the steps: first those of the trace itself, then those of each evaluator."""
    return {name: [one for one in steps if one.evaluator == name] for name in dict.fromkeys(x.evaluator for x in steps)}


def _width(steps: Sequence[ExplanationStep]) -> int:
    return max((len(one.what) for one in steps), default=0)
