"""`rag-monitor plan --requests-per-second`: what that much traffic takes, with a column for each size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from monitor.cli.console.output import align, echo_json, echo_lines
from monitor.cli.console.progress import Bars
from monitor.config import Config
from monitor.operations.capacity import MEASURED, SCRAPE_EVERY, Assumptions, Capacity, for_traffic
from monitor.operations.plan import Delay
from monitor.quantities import dollars, format_size, human_duration, human_number, percent

_UNITS: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def show(config: Config, sizes: Sequence[float], assumed: Assumptions, *, as_json: bool) -> None:
    """Plan each size and print the plans."""
    plans = []
    with Bars().steps(len(sizes), "simulating") as done:
        for size in sizes:
            plans.append(for_traffic(config, size, assumed))
            done()
    if as_json:
        measured = {name: asdict(one) for name, one in MEASURED.items()}
        echo_json({"assumed": asdict(assumed), "plans": [asdict(one) for one in plans], "measured": measured})
    else:
        echo_lines(lines(plans, assumed))


def lines(plans: Sequence[Capacity], assumed: Assumptions) -> Iterator[str]:
    """Yield a row for each quantity, then what to set, then where the figures come from."""
    yield from align([[name, *cells] for name, *cells in _rows(plans, assumed)])
    notes = {note: None for one in plans for note in one.notes}
    for note in notes:
        sizes = [human_number(one.requests_per_second) for one in plans if note in one.notes]
        yield ""
        yield f"{note} (at {', '.join(sizes)})" if len(plans) > 1 else note
    yield ""
    yield "Figures are averages over a day; cores and memory allow for twice that. They are computed from:"
    yield ""
    yield from align([(f"{one.value:,g}", one.by, one.what) for one in MEASURED.values()], left=3)


def _rows(plans: Sequence[Capacity], assumed: Assumptions) -> Iterator[list[str]]:
    yield ["requests a second", *(human_number(one.requests_per_second) for one in plans)]
    yield ["head sampling", *(f"{one.head * 100:.3g} %" for one in plans)]
    yield ["kept requests a second", *(human_number(one.kept_per_second) for one in plans)]
    for at, load in enumerate(plans[0].judged):
        yield [f"judged by {load.evaluator}, of those kept", *(percent(one.judged[at].share) for one in plans)]
        yield [f"judged by {load.evaluator}, a day", *(f"{one.judged[at].per_day:,.0f}" for one in plans)]
    yield ["cores busy", *(f"{one.cores:.2g}" if one.cores < 10 else f"{one.cores:,.0f}" for one in plans)]  # noqa: PLR2004 - two digits
    yield ["replicas", *(f"{one.replicas:,}" for one in plans)]
    yield ["cores of a replica", *(str(one.cores_each) for one in plans)]
    yield ["memory of a replica", *(format_size(one.memory_each) for one in plans)]
    yield ["Kafka partitions, if you use it", *(f"{one.partitions:,}" for one in plans)]
    yield ["disk a day", *(_bytes(one.disk_per_day) for one in plans)]
    yield ["results are kept for", *(human_duration(one.history_lasts) for one in plans)]
    yield ["judge calls a day", *(f"{one.judge_calls_per_day:,.0f}" for one in plans)]
    yield ["dollars a day", *(_money(one.dollars_per_day) for one in plans)]
    yield ["Prometheus series", *(f"{one.series:,}" for one in plans)]
    yield [f"samples a second (every {SCRAPE_EVERY:g} s)", *(f"{one.samples_per_second:,.0f}" for one in plans)]
    noticed = f"{percent(assumed.rate)} becoming {percent(assumed.worse)} is noticed by"
    for at, delay in enumerate(plans[0].noticed):
        yield [f"{noticed} {delay.evaluator}", *(_delay(one.noticed[at]) for one in plans)]


def _bytes(size: float) -> str:
    unit, factor = next(((unit, factor) for unit, factor in _UNITS if size >= factor), ("B", 1.0))
    return f"{size / factor:.3g} {unit}"


def _money(amount: float | None) -> str:
    return "unknown" if amount is None else dollars(amount) if amount < 1000 else f"${amount:,.0f}"  # noqa: PLR2004 - cents no longer matter


def _delay(one: Delay) -> str:
    return one.why if one.hours is None else human_duration(one.hours * 3600)
