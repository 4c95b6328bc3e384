"""`rag-monitor top`: watch a running monitor, live in the terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import zip_longest
from typing import Annotated, Any, Final, NoReturn, cast

import orjson
import typer
from rich.console import Console

from monitor.cli._options import CaFile, MetricsUrl, Token, TokenFile, client_of
from monitor.cli.console.live_view import open_terminal, render
from monitor.cli.console.output import trouble_lines
from monitor.cli.console.view import ConsoleView, RateRow, State, WorstAnswer
from monitor.clock import SystemClock
from monitor.errors import MonitorError
from monitor.model.outcome import skipped_in_words
from monitor.operations.monitor_client import DEFAULT_URL
from monitor.operations.watch.scrapes import WINDOW
from monitor.operations.watch.watcher import SEVERITY_ORDER, MonitorStatus, RateStatus, Watcher
from monitor.quantities import dollars, human_duration, percent
from monitor.statistics.rates import Estimate, estimate

_MAX_ALERTS: Final = 5
_MAX_ORDERS: Final = 5
_MUCH: Final = 0.1
_MAX_SKIPPED, _REASONS = 5, 3
_SYSTEM: Final = SystemClock()


def top(
    url: MetricsUrl = DEFAULT_URL,
    *,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", min=0.5, help="Refresh interval.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per refresh, one per line.")] = False,
) -> None:
    """Watch a running monitor until Ctrl-C: rates, alerts, the worst answers, throughput, lag, and cost of judges.

    Rates cover the time since you started to watch, up to five minutes; the second line of a row has the rate since the
    monitor started. Without a terminal, each change is one line. Exit status 1 when no monitor responds, or when it
    refuses the token.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        watcher = Watcher(client_of(url, token, token_file, ca_file))
        watcher.look(_SYSTEM.now())
        if as_json:
            _print_objects(watcher, interval=interval, once=once)
        elif once:
            status = watcher.status()
            Console().print(render(view_of(status, began=status.at, now=_SYSTEM.now())))
        else:
            watch(watcher, interval=interval)
    except MonitorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # the reader has left, such as `head`: writing at exit would fail too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)


def watch(
    watcher: Watcher,
    *,
    interval: float,
    console: Console | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = _SYSTEM.now,
) -> None:
    """Draw what `watcher` sees until interrupted. If the monitor goes away, wait for it to return."""
    began = watcher.status().at
    with open_terminal(console) as draw:
        while True:
            draw(view_of(watcher.status(), began=began, now=now()))
            sleep(interval)
            watcher.look(now(), patient=True)


def view_of(status: MonitorStatus, *, began: float, now: float) -> ConsoleView:
    """Return the view of a monitor that has been watched since the wall-clock second `began`."""
    rows = [_row(one, status) for one in status.rates if one.since_start.judged]
    order = [_words(state) for state in SEVERITY_ORDER]
    return ConsoleView(
        elapsed=now - began,
        phase=f"no response: {status.problem}" if status.problem else f"version {status.version} at {status.url}",
        window=min(float(round(status.watched)), WINDOW) if status.long_enough else None,
        rates=sorted(rows, key=lambda row: (order.index(row.state), row.app, row.evaluator)),
        worst=list(_worst(status)),
        ledger=status.ledger,
        contexts=status.contexts,
        notes=tuple(_notes(status, now)),
    )


def to_object(status: MonitorStatus) -> dict[str, Any]:
    """Return the JSON object: times in seconds, rates as shares, US dollars; null if unknown."""
    return {
        "at": status.at,
        "url": status.url,
        "version": status.version,
        "started_at": status.started_at,
        "window_seconds": status.watched or None,
        "rates": [_rate_object(one) for one in status.rates],
        "alerts": [asdict(one) for one in status.alerts],
        "worst": [asdict(one) for one in status.worst],
        "evaluators": [
            {"evaluator": name, "state": str(one.state), "why": one.why, "remedy": one.remedy}
            for name, one in status.evaluators.items()
        ],
        "skipped": [
            {"app": app, "evaluator": name, "reason": reason, "number": number}
            for (app, name, reason), number in sorted(status.skipped.items())
        ],
        "ledger": dict(status.ledger),
        "contexts": {app: dict(shares) for app, shares in status.contexts.items()},
        "received_per_second": status.received_per_second,
        "judged_per_second": status.scored_per_second,
        "oldest_pending_seconds": status.oldest_pending,
        "consumer_lag_messages": status.lag,
        "judges": [
            {"model": model, **asdict(one), "dollars_per_hour": status.dollars_per_hour[model]}
            for model, one in status.judges.items()
        ],
    }


def _rate_object(one: RateStatus) -> dict[str, Any]:
    return {
        "app": one.app,
        "evaluator": one.evaluator,
        "version": one.version,
        "defect_rule": one.defect_rule,
        "state": one.state,
        "thresholds": one.thresholds,
        "since_start": _estimate_object(estimate(one.since_start)),
        "window": _estimate_object(estimate(one.window, usual=one.since_start.typical_weight)),
        "unscored": one.unscored,
        "pending": one.pending,
    }


def _estimate_object(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    limits = {"rate": found.rate, "lower": found.lower, "upper": found.upper}
    return {**limits, "evaluated": found.judged, "defects": found.defects}


def _row(one: RateStatus, status: MonitorStatus) -> RateRow:
    shown = one.window if status.long_enough else one.since_start
    found, ever = estimate(shown, usual=one.since_start.typical_weight), estimate(one.since_start)
    return RateRow(
        evaluator=f"{one.evaluator}: {one.defect_rule}" if one.defect_rule else one.evaluator,
        app=one.app,
        rate=found.rate if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        judged=shown.judged,
        trend=one.trend,
        state=cast("State", _words(one.state)),
        threshold=min(one.thresholds.values(), default=None),
        since_start=(ever.rate, ever.judged) if ever and status.long_enough else None,
    )


def _worst(status: MonitorStatus) -> Iterator[WorstAnswer]:
    """Yield the worst answers whose texts are stored, alternating between apps."""
    for place in zip_longest(*(one.answers for one in status.worst)):
        for order, answer in zip(status.worst, place, strict=True):
            if answer is not None and answer.response:
                yield WorstAnswer(
                    evaluator=order.order,
                    app=order.app,
                    question=answer.question,
                    answer=answer.response,
                    score=answer.score,
                    explanation=answer.explanation,
                    unsupported=answer.unsupported,
                )


def _orders(status: MonitorStatus) -> Iterator[str]:
    """Yield a line for each app: how its worst answers are ordered, with both AUROCs, as on the page."""
    for one in status.worst[:_MAX_ORDERS]:
        if one.answers and one.auroc_before is not None and one.auroc_learned is not None:
            both = f"{one.before} {one.auroc_before:.3f}, {one.learned} {one.auroc_learned:.3f}"
            yield f"worst answers of {one.app} by {one.order}; AUROC over {one.verdicts:,} verdicts: {both}"


def _words(state: str) -> str:
    return state.replace("_", " ")


def _notes(status: MonitorStatus, now: float) -> Iterator[str]:
    parts = [f"up {human_duration(status.at - status.started_at)}"] if status.started_at else []
    if status.received_per_second is not None and status.scored_per_second is not None:
        parts.append(f"{status.received_per_second:.3g} traces/s in, {status.scored_per_second:.3g} scores/s out")
    if status.oldest_pending >= 1:
        parts.append(f"oldest pending trace {human_duration(status.oldest_pending)}")
    if status.lag is not None:
        parts.append(f"Kafka lag {status.lag:,} messages")
    if status.problem:
        parts.append(f"last response {human_duration(now - status.at)} ago")
    yield ", ".join(parts)
    for model, one in status.judges.items():
        failed = f" ({one.failed:,} failed)" if one.failed else ""
        cost = f", {dollars(one.dollars)} since start" if one.dollars else ""
        hourly = status.dollars_per_hour[model]
        rate = f", {dollars(hourly)} an hour now" if hourly else ""
        yield f"judge {model}: {one.requests:,} calls{failed}, {one.tokens:,} tokens{cost}{rate}"
    yield from trouble_lines(status.evaluators)
    unscored = [f"{number:,} by {name} of {app}" for (app, name), number in sorted(status.unscored.items()) if number]
    if unscored:
        yield f"not scored since start: {', '.join(unscored)}"
    yield from _skipped(status)
    yield from _orders(status)
    for alert in status.alerts[:_MAX_ALERTS]:
        yield " ".join(text for text in ("ALERT", alert.severity, alert.name, alert.app, alert.evaluator) if text)


def _skipped(status: MonitorStatus) -> Iterator[str]:
    """Yield a line for each evaluator that skips so much that its rate covers only part of the answers."""
    scored: Counter[tuple[str, str]] = Counter()
    for one in status.rates:
        if not one.defect_rule:
            scored[one.app, one.evaluator] += one.since_start.judged
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (app, name, reason), number in status.skipped.items():
        reasons[app, name][reason] += number
    shares = {pair: found.total() / (found.total() + scored[pair]) for pair, found in reasons.items()}
    much = sorted((pair for pair, share in shares.items() if share >= _MUCH), key=lambda pair: (-shares[pair], pair))
    for pair in much[:_MAX_SKIPPED]:
        many = reasons[pair].most_common(_REASONS)
        listed = ", ".join(f"{number:,}: {skipped_in_words(reason)}" for reason, number in many)
        yield f"{pair[1]} skipped {percent(shares[pair])} of {pair[0]}'s answers since start ({listed})"


def _print_objects(watcher: Watcher, *, interval: float, once: bool) -> None:
    while True:
        sys.stdout.write(orjson.dumps(to_object(watcher.status())).decode() + "\n")
        sys.stdout.flush()
        if once:
            return
        time.sleep(interval)
        watcher.look(_SYSTEM.now())


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
