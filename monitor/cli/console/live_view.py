"""Draws views of a running monitor: in place on a terminal, as plain lines for a log or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from monitor.cli.console.output import clean, clock
from monitor.cli.console.view import AlertRow, ConsoleView, RateRow, WorstAnswer
from monitor.model.case import ContextStatus
from monitor.quantities import human_duration, percent

SIGN_OF_LIFE = 15.0
_ROW = 2  # lines of one rate
_STYLE = {"ok": "green", "no alert": "dim", "not enough data": "dim", "warning": "bold yellow", "critical": "bold red"}
_SHOWN = {
    "ok": "ok",
    "no alert": "no alert",
    "not enough data": "not enough\ndata yet",
    "warning": "WARNING",
    "critical": "CRITICAL",
}
_EXCERPT = 320  # characters of a text
_SMALLEST_SCALE = 0.1
_APPS = 10  # in the table of contexts

Draw = Callable[[ConsoleView], None]


@contextmanager
def open_terminal(console: Console | None = None) -> Iterator[Draw]:
    """Yield a function that draws a view. On a terminal the last picture stays when the context ends."""
    console = console if console is not None else Console()
    if not console.is_terminal or console.is_dumb_terminal:  # one that cannot move its cursor
        yield _Lines(console).draw
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda view: live.update(render(_fitting(view, console)), refresh=True)


class _Lines:
    """Prints one plain line for each change, and a summary when nothing has changed for a while."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: ConsoleView | None = None
        self._printed_at = 0.0

    def draw(self, view: ConsoleView) -> None:
        changes = lines(self._before, view)
        if not changes and view.elapsed - self._printed_at >= SIGN_OF_LIFE:
            changes = [summary(view)]
        for line in changes:
            self._console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
            self._printed_at = view.elapsed
        self._before = view


def _fitting(view: ConsoleView, console: Console) -> ConsoleView:
    """Leave out worst answers, then rates, until the view fits the height of the terminal."""
    for count in range(len(view.worst), 0, -1):
        fewer = replace(view, worst=view.worst[:count])
        if _height(fewer, console) < console.height:
            return fewer
    view = replace(view, worst=())
    over = _height(view, console) - console.height + 1
    if over <= 0:
        return view
    shown = max(len(view.rates) - (over + 2) // _ROW, 1)
    left_out = len(view.rates) - shown
    notes = (*view.notes, f"and {left_out} more rates that do not fit here") if left_out else view.notes
    return replace(view, rates=view.rates[:shown], notes=notes)


def _height(view: ConsoleView, console: Console) -> int:
    return len(console.render_lines(render(view), pad=False))


def render(view: ConsoleView) -> RenderableType:
    """Draw the whole picture, for a terminal of 80 columns or more. Text of the traffic is shown as plain text only."""
    parts: list[RenderableType] = [_heading(view), _rates(view)]
    parts += [_contexts(view.contexts)] if view.contexts else []
    parts.append(_ledger(view.ledger))
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
    known = {} if before is None else {_alert_key(alert): alert for alert in before.alerts}
    firing = {_alert_key(alert): alert for alert in now.alerts}
    for key, alert in firing.items():
        risen = key in known and (known[key].severity, alert.severity) == ("warning", "critical")
        if key not in known or risen:  # a rate has one alert at a time, see the code that builds the views
            changes.append(f"{at}ALERT {alert.name} {_alert_words(alert)}")
            changes += [f"{at}  worst: {_plain(one)}" for one in now.worst[:1]]
    over = sorted((one.name, *key) for key, one in known.items() if key not in firing)
    changes += [f"{at}RESOLVED {' '.join(words)}" for words in over]
    return [clean(line) for line in changes]


def summary(view: ConsoleView) -> str:
    """Describe the whole state in one plain line, printed from time to time as a sign of life."""
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
            Text.assemble(str(row.judged), (f"\nof {row.since_start[1]}" if row.since_start else "", "dim")),
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


def _scale(rows: Sequence[RateRow]) -> float:
    """Choose the right end of the bars: a round share above every threshold, every rate and nearly every limit."""
    thresholds = [row.threshold * 1.3 for row in rows if row.threshold is not None]
    wanted = max(
        [_SMALLEST_SCALE, *thresholds, *(row.rate * 1.3 for row in rows if row.rate is not None and row.judged)]
    )
    return next((end for end in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if end >= wanted), 1.0)


def _interval(row: RateRow) -> Text:
    if row.lower is None or row.upper is None:
        return Text("")
    return Text(f"{percent(row.lower).removesuffix(' %')} to {percent(row.upper)}", "dim")


def _contexts(contexts: Mapping[str, Mapping[str, float]]) -> RenderableType:
    """Draw the share of answers with each context status, in a row for each of the first apps."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("context of answers,\nsince start", no_wrap=True, overflow="ellipsis", max_width=34)
    for status in ContextStatus:
        table.add_column(status.words.replace(" ", "\n"), justify="right", no_wrap=True, vertical="bottom")
    for app, shares in list(contexts.items())[:_APPS]:
        table.add_row(Text(clean(app), "bold"), *(Text(percent(shares.get(one, 0.0))) for one in ContextStatus))
    return Group(Text(), table)


def _ledger(ledger: Mapping[str, int]) -> RenderableType:
    shown = [(name, count) for name, count in ledger.items() if count and name != "received"]
    text = Text.assemble("traces received ", (str(ledger.get("received", 0)), "bold"))
    for number, (name, count) in enumerate(shown):
        text.append(": " if number == 0 else ", ", "dim")  # a trace may hold several requests
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
    """Put guillemets around the unsupported parts of an answer, so that they are visible without colour too."""
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


def _alert_key(alert: AlertRow) -> tuple[str, str]:
    return alert.app, alert.evaluator


def _alert_words(alert: AlertRow) -> str:
    return (
        f"{alert.severity} {alert.app} {alert.evaluator}: {percent(alert.rate)} defective, at least "
        f"{percent(alert.lower)}, threshold {percent(alert.threshold)}, over {human_duration(alert.window)}"
    )


class _Wide:
    """Takes all the available width."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(8, options.max_width), options.max_width)


@dataclass(frozen=True, slots=True)
class IntervalBar(_Wide):
    """A rate as a dot on the line of its interval, and the threshold as a stroke; shares from 0 to `scale`.

    A limit that is not known is None. Values beyond `scale` are drawn at its end.
    """

    rate: float | None
    lower: float | None
    upper: float | None
    threshold: float | None
    scale: float
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        track, line, dot, stroke = ".=o|" if options.ascii_only else "\u00b7\u2501\u25cf\u2502"
        width = options.max_width
        cells = [(track, "dim")] * width

        def at(share: float) -> int:
            return min(round(share / self.scale * (width - 1)), width - 1)

        if self.lower is not None and self.upper is not None:
            for place in range(at(self.lower), at(self.upper) + 1):
                cells[place] = (line, self.style)
        if self.threshold is not None:
            cells[at(self.threshold)] = (stroke, "bold")
        if self.rate is not None:
            cells[at(self.rate)] = (dot, self.style)
        yield Text.assemble(*cells, no_wrap=True, overflow="crop")


@dataclass(frozen=True, slots=True)
class Axis(_Wide):
    """The ends of the bars below it: 0 and `scale`, in percent."""

    scale: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        stroke = "|" if options.ascii_only else "\u2502"
        end = f"{self.scale:.0%}"
        yield Text(f"{stroke} threshold", no_wrap=True, overflow="crop")
        yield Text("0" + end.rjust(max(options.max_width - 1, 0)), no_wrap=True, overflow="crop")


@dataclass(frozen=True, slots=True)
class Sparkline(_Wide):
    """Shares from 0 to `scale` over time, the newest on the right; a missing share is a gap."""

    shares: Sequence[float | None]
    scale: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        steps = "_.-=*#" if options.ascii_only else "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
        shown = list(self.shares)[-options.max_width :]
        drawn = "".join(
            " " if share is None else steps[min(int(share / self.scale * len(steps)), len(steps) - 1)]
            for share in shown
        )
        yield Text(drawn.rjust(options.max_width), no_wrap=True, overflow="crop")
