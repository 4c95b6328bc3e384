"""Drawing a running monitor: a `ConsoleView` as a picture for a terminal, or as plain lines for a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from monitor.cli.console.bars import Axis, IntervalBar, Sparkline
from monitor.cli.console.output import clean, clock
from monitor.cli.console.view import AlertRow, ConsoleView, RateRow, WorstAnswer
from monitor.quantities import human_duration, percent

_STYLE = {"ok": "green", "no alert": "dim", "not enough data": "dim", "warning": "bold yellow", "critical": "bold red"}
_SHOWN = {
    "ok": "ok",
    "no alert": "no alert",
    "not enough data": "not enough\ndata yet",
    "warning": "WARNING",
    "critical": "CRITICAL",
}
_EXCERPT = 320
_SMALLEST_SCALE = 0.1


def render(view: ConsoleView) -> RenderableType:
    """Draw the whole picture, for a terminal of 80 columns or more. Text of the traffic is shown as plain text only."""
    parts: list[RenderableType] = [_heading(view), _rates(view), _ledger(view.ledger)]
    parts += [Text(clean(note)) for note in view.notes]
    parts += [_alert(alert) for alert in view.alerts]
    if view.worst:
        parts.append(_worst(view.worst))
    return Group(*parts)


def lines(before: ConsoleView | None, now: ConsoleView) -> list[str]:
    """Describe the changes between two views, one plain line each, for output that is not a terminal."""
    at = f"{clock(now.elapsed)} "
    changes: list[str] = []
    if before is None:
        changes += [f"{at}{name}: {clean(address)}" for name, address in now.addresses.items()]
    if before is None or before.phase != now.phase:
        changes.append(f"{at}{clean(now.phase)}")
    states = {} if before is None else {(row.app, row.evaluator): row.state for row in before.rates}
    for row in now.rates:
        if states.get((row.app, row.evaluator)) != row.state:
            changes.append(f"{at}{_of(row)}: {_rate_words(row)}; {row.state}")
    known = set() if before is None else {_alert_key(alert) for alert in before.alerts}
    firing = {_alert_key(alert): alert for alert in now.alerts}
    for key, alert in firing.items():
        if key not in known:
            changes.append(f"{at}ALERT {alert.name} {_alert_words(alert)}")
            changes += [f"{at}  worst: {_plain(one)}" for one in now.worst[:1]]
    over = {(name, app, evaluator) for name, _, app, evaluator in known} - {(k[0], *k[2:]) for k in firing}
    changes += [f"{at}RESOLVED {' '.join(key)}" for key in sorted(over)]
    return [clean(line) for line in changes]


def summary(view: ConsoleView) -> str:
    """Describe the whole state in one plain line, as a sign of life now and then."""
    parts = [f"received {view.ledger.get('received', 0)}", *(f"{_of(row)}: {_rate_words(row)}" for row in view.rates)]
    return clean(f"{clock(view.elapsed)} {'; '.join(parts)}")


def _heading(view: ConsoleView) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    title = Text.assemble(("rag-monitor", "bold"), "  ", clean(view.phase))
    table.add_row(title, Text(clock(view.elapsed), "dim"))
    addresses = Text("   ").join(
        Text.assemble((f"{clean(name)} ", "dim"), clean(address)) for name, address in view.addresses.items()
    )
    return Group(table, addresses) if view.addresses else table


def _rates(view: ConsoleView) -> RenderableType:
    rows, scale = view.rates, _scale(view.rates)
    table = Table(box=SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("app\n  evaluator", no_wrap=True, overflow="ellipsis", min_width=16, max_width=34)
    over = "since start" if view.window is None else f"last {human_duration(view.window)}"
    table.add_column(f"defects,\n{over}", justify="right", no_wrap=True, min_width=13)
    table.add_column(Axis(scale), ratio=3, min_width=12)
    table.add_column("scored", justify="right", no_wrap=True)
    table.add_column("trend\nto now", ratio=2, min_width=8, no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row in rows:
        table.add_row(
            Text.assemble((clean(row.app), "bold"), "\n  ", (clean(row.evaluator), "dim")),
            Text.assemble((percent(row.rate), _STYLE[row.state]), "\n", _interval(row)),
            _bar(row, scale),
            _judged(row),
            Sparkline(row.trend, scale),
            Text(_SHOWN[row.state], _STYLE[row.state]),
        )
    if not rows:
        table.add_row(Text("waiting for traffic", "dim"))
    legend = Text("share of defective answers and its 95 % interval, of all traffic", "dim")
    return Group(Text(), legend, table)


def _bar(row: RateRow, scale: float) -> RenderableType:
    bar = IntervalBar(row.rate, row.lower, row.upper, row.threshold, scale, _STYLE[row.state])
    if row.since_start is None:
        return bar
    return Group(bar, Text(f"since start {percent(row.since_start[0])}", "dim", no_wrap=True, overflow="crop"))


def _judged(row: RateRow) -> Text:
    return Text.assemble(str(row.judged), (f"\nof {row.since_start[1]}" if row.since_start else "", "dim"))


def _scale(rows: Sequence[RateRow]) -> float:
    """Choose the right end of the bars: a round share above every threshold, every rate and nearly every limit."""
    wanted = max(
        [_SMALLEST_SCALE]
        + [row.threshold * 1.3 for row in rows if row.threshold is not None]
        + [row.rate * 1.3 for row in rows if row.rate is not None and row.judged],
    )
    return next((end for end in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if end >= wanted), 1.0)


def _interval(row: RateRow) -> Text:
    if row.lower is None or row.upper is None:
        return Text("")
    return Text(f"{percent(row.lower).removesuffix(' %')} to {percent(row.upper)}", "dim")


def _ledger(ledger: Mapping[str, int]) -> RenderableType:
    shown = [(name, count) for name, count in ledger.items() if count and name != "received"]
    text = Text.assemble("traces received ", (str(ledger.get("received", 0)), "bold"))
    for number, (name, count) in enumerate(shown):
        text.append(" = " if number == 0 else " + ", "dim")
        text.append(f"{clean(name).replace('_', ' ')} ").append(str(count), "bold")
    return text


def _alert(alert: AlertRow) -> RenderableType:
    style = _STYLE[alert.severity]
    body = Text.assemble(
        (f"{clean(alert.app)}  {clean(alert.evaluator)}\n", "bold"),
        (percent(alert.rate), "bold"),
        f" of answers are defective, at least {percent(alert.lower)} (threshold {percent(alert.threshold)})\n",
        (f"over the last {human_duration(alert.window)}, firing for {human_duration(alert.firing_for)}", "dim"),
    )
    title = Text(f"ALERT {alert.severity.upper()} {clean(alert.name)}", style)
    return Panel(body, title=title, title_align="left", border_style=style, box=ROUNDED)


def _worst(answers: Sequence[WorstAnswer]) -> RenderableType:
    blocks: list[RenderableType] = []
    for one in answers:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(ratio=1)
        grid.add_row("question", Text(clean(_cut(one.question)), "bold"))
        grid.add_row("answer", _marked(one))
        why = clean(_cut(one.explanation))
        grid.add_row("why", Text.assemble((f"{one.score:.2f} ", "bold"), why, (f"  {clean(one.app)}", "dim")))
        blocks += [Text(), grid] if blocks else [grid]
    title = Text.assemble("worst answers, ", ("\u00abmarked\u00bb", "underline"), ": not in the retrieved documents")
    return Panel(Group(*blocks), title=title, title_align="left", box=ROUNDED, border_style="dim")


def _marked(one: WorstAnswer) -> Text:
    """Put guillemets around the unsupported parts of an answer, so that they show without colour too."""
    answer = clean(one.answer)
    end = min(len(answer), _EXCERPT)
    text = Text()
    at = 0
    for start, stop in sorted(one.unsupported):
        first, last = max(start, at), min(stop, end)
        if first < last:
            text.append(answer[at:first]).append(f"\u00ab{answer[first:last]}\u00bb", "bold red underline")
            at = last
    text.append(answer[at:end])
    return text.append("...") if end < len(answer) else text


def _plain(one: WorstAnswer) -> str:
    return f"{_marked(one).plain} (asked: {_cut(one.question)}; {one.score:.2f}: {_cut(one.explanation)})"


def _cut(text: str) -> str:
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."


def _of(row: RateRow) -> str:
    return f"{row.app} {row.evaluator}"


def _rate_words(row: RateRow) -> str:
    if row.rate is None:
        return "nothing scored"
    return f"{percent(row.rate)} defective ({_interval(row).plain}) of {row.judged} scored"


def _alert_key(alert: AlertRow) -> tuple[str, str, str, str]:
    return alert.name, alert.severity, alert.app, alert.evaluator


def _alert_words(alert: AlertRow) -> str:
    return (
        f"{alert.severity} {alert.app} {alert.evaluator}: {percent(alert.rate)} defective, at least "
        f"{percent(alert.lower)}, threshold {percent(alert.threshold)}, over {human_duration(alert.window)}"
    )
