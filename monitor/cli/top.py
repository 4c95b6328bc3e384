"""`rag-monitor top`: a running monitor, live in the terminal."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from monitor.cli.scrape import DEFAULT_URL, TOKEN_VARIABLE
from monitor.errors import MonitorError

if TYPE_CHECKING:
    from rich.console import Console

    from monitor.cli.outlook import Outlook

_EVERY: Final = 2.0
_LEAST: Final = 0.5

MetricsUrl = Annotated[str, typer.Option("--url", help="The metrics port of the monitor.")]
Token = Annotated[
    str | None, typer.Option(envvar=TOKEN_VARIABLE, show_envvar=True, help="Of the port, if it asks for one.")
]
TokenFile = Annotated[Path | None, typer.Option("--token-file", help="A file that holds the token.")]
CaFile = Annotated[Path | None, typer.Option("--ca-file", help="Who signs the certificate of the port, PEM.")]


def top(
    url: MetricsUrl = DEFAULT_URL,
    *,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=_LEAST, help="Between two looks.")] = _EVERY,
    once: Annotated[bool, typer.Option("--once", help="Print how it stands and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object a look, each a line.")] = False,
) -> None:
    """Watch a running monitor until Ctrl-C: rates, states, throughput, lag, what the judge costs.

    Rates are those of the time that it is watched, five minutes at most, beside those since the monitor was started;
    the first look has only these. Without a terminal: a line for each change. Exit status 1 when no monitor answers, or
    not to this token.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        from monitor.cli.outlook import Outlook  # noqa: PLC0415
        from monitor.cli.scrape import Port, token_of  # noqa: PLC0415

        outlook = Outlook(Port(url, token=token_of(token, token_file), ca_file=ca_file))
        outlook.look(time.time())
        if as_json:
            _print_objects(outlook, every=every, once=once)
        elif once:
            _console().print(_picture(outlook))
        else:
            watch(outlook, every=every)
    except MonitorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        _leave_quietly()
    finally:
        signal.signal(signal.SIGTERM, before)


def watch(
    outlook: Outlook,
    *,
    every: float,
    console: Console | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> None:
    """Draw what `outlook` sees, again and again, until interrupted. One that is away is waited for."""
    from monitor.cli.console.terminal import open_terminal  # noqa: PLC0415

    with open_terminal(console) as draw:
        while True:
            draw(outlook.view(now()))
            sleep(every)
            outlook.look(now(), patient=True)


def _print_objects(outlook: Outlook, *, every: float, once: bool) -> None:
    import orjson  # noqa: PLC0415

    while True:
        sys.stdout.write(orjson.dumps(outlook.as_object(time.time())).decode() + "\n")
        sys.stdout.flush()
        if once:
            return
        time.sleep(every)
        outlook.look(time.time())


def _picture(outlook: Outlook) -> object:
    from monitor.cli.console.live_view import render  # noqa: PLC0415

    return render(outlook.view(time.time()))


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console()


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _leave_quietly() -> None:
    """Whoever read the output has left, such as `head`: nothing more is written, at exit neither."""
    import os  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
