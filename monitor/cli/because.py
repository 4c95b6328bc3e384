"""An explanation: where it comes from, and how it looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.text import clean
from monitor.clock import SystemClock
from monitor.errors import MonitorError
from monitor.operations.diagnosis import Inquiry
from monitor.operations.monitor_client import MonitorClient
from monitor.quantities import parse_duration
from monitor.why import Cause

_GOOD: Final = (Cause.EVALUATED.value,)
_UNKNOWN: Final = (Cause.NEVER_SEEN.value, Cause.NOT_RECORDED.value)
_MARGIN: Final = 2


class Wanted(NamedTuple):
    """What is to be explained: a trace, or an evaluator since when; empty where not given."""

    trace: str
    evaluator: str
    since: str
    app: str


def from_disk(path: Path | None, wanted: Wanted, now: float) -> Mapping[str, Any]:
    """From the storage folder. Raises `ConfigError`, and `MonitorError` where what is kept cannot be read."""
    since = now - _options.read("--since", parse_duration, wanted.since)
    inquiry = Inquiry(configuration.load(path), SystemClock())
    if wanted.trace:
        answer = inquiry.trace(wanted.trace, wanted.evaluator)
    else:
        answer = inquiry.evaluator(wanted.evaluator, since, wanted.app)
    return asdict(answer)


def from_monitor(client: MonitorClient, wanted: Wanted) -> Mapping[str, Any]:
    """From a running monitor. Raises `MonitorError` where it does not say."""
    given = {"trace": wanted.trace, "evaluator": wanted.evaluator, "since": wanted.since, "app": wanted.app}
    query = urlencode({name: value for name, value in given.items() if value})
    found = client.document(f"/api/v1/why?{query}")
    if found is None:
        raise MonitorError(
            f"{client.url}/api/v1/why: no explanation; is `ui.enabled` true there, is the token right, and are the"
            " values of the options?"
        )
    return found


def is_known(found: Mapping[str, Any]) -> bool:
    """Whether anything was found out."""
    return found["cause"] not in _UNKNOWN


def as_json(found: Mapping[str, Any]) -> str:
    """One JSON object, with the fields of `/api/v1/why`."""
    return orjson.dumps({**found, "steps": list(found["steps"])}, option=orjson.OPT_INDENT_2).decode()


def show(found: Mapping[str, Any], console: Console | None = None) -> None:
    """For people: wrapped to the width of a terminal; whole lines anywhere else."""
    console = console if console is not None else Console()
    if not console.is_terminal:
        for line in lines(found):
            console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
        return
    console.print(Text(clean(found["subject"]), style="dim"))
    good = found["cause"] in _GOOD
    console.print(Text(clean(found["conclusion"]), style="bold green" if good else "bold yellow"))
    if found["setting"]:
        console.print(Text.assemble("What would change it: ", (clean(found["setting"]), "bold cyan")))
    for evaluator, steps in _grouped(found):
        console.print()
        if evaluator:
            console.print(Text(clean(evaluator), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="dim", min_width=_widest(found))
        grid.add_column()
        for one in steps:
            text = Text(clean(one["text"]))
            if one["setting"] and one["setting"] != found["setting"]:
                text.append(f"\n{clean(one['setting'])}", style="cyan")
            grid.add_row(clean(one["what"]), text)
        console.print(Padding(grid, (0, 0, 0, _MARGIN)))


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The same as plain lines."""
    yield clean(found["subject"])
    yield clean(found["conclusion"])
    if found["setting"]:
        yield f"What would change it: {clean(found['setting'])}"
    width = _widest(found)
    for evaluator, steps in _grouped(found):
        yield ""
        if evaluator:
            yield clean(evaluator)
        for one in steps:
            yield f"  {clean(one['what']):{width}}  {clean(one['text'])}"
            if one["setting"] and one["setting"] != found["setting"]:
                yield f"  {'':{width}}  would change it: {clean(one['setting'])}"


def _grouped(found: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """The steps of the whole, then those of each evaluator, in their order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in found["steps"]:
        groups.setdefault(one["evaluator"], []).append(one)
    yield from groups.items()


def _widest(found: Mapping[str, Any]) -> int:
    return max((len(one["what"]) for one in found["steps"]), default=0)
