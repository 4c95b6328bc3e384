"""What `rag-monitor top` draws of a monitor, and what its JSON says."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.cells import cell_len
from rich.console import Console

from monitor.cli.console.live_view import lines, render
from monitor.cli.console.view import ConsoleView
from monitor.cli.top import to_object, view_of, watch
from monitor.operations.watch.watcher import Watcher
from monitor.pipeline.introspection.evaluator_status import State
from tests.support.fake_monitor import FakeMonitor

START = 1_700_000_000.0


def view(watcher: Watcher, now: float) -> ConsoleView:
    return view_of(watcher.status(), began=START, now=now)


def test_the_first_look_shows_the_rate_since_the_start_and_later_ones_both() -> None:
    fake = FakeMonitor()
    fake.judge(100, 50)
    watcher = fake.watcher()
    watcher.look(START)
    first = view(watcher, START)
    assert (first.window, first.rates[0].judged, first.rates[0].since_start) == (None, 100, None)
    assert (first.rates[0].state, first.rates[0].threshold) == ("critical", 0.1)
    fake.judge(100, 10)
    watcher.look(START + 40)
    later = view(watcher, START + 40)
    assert (later.window, later.rates[0].rate, later.rates[0].judged) == (40.0, 0.1, 100)
    assert later.rates[0].since_start == (0.3, 200)
    told = to_object(watcher.status())["rates"][0]
    assert (told["window"]["evaluated"], told["since_start"]["evaluated"], told["thresholds"]["critical"]) == (
        100,
        200,
        0.3,
    )


def test_a_firing_alert_is_a_line_of_its_own() -> None:
    fake = FakeMonitor()
    fake.judge(400, 200)
    firing = {"name": "RagDefectRateHigh", "severity": "warning", "app": "shop", "evaluator": "groundedness"}
    fake.overview = {"apps": [], "alerts": [firing]}
    watcher = fake.watcher()
    watcher.look(START)
    assert view(watcher, START).notes[-1] == "ALERT warning RagDefectRateHigh shop groundedness"


def test_a_monitor_that_is_away_is_said_to_be_and_its_last_figures_stay() -> None:
    fake = FakeMonitor()
    fake.judge(100, 50)
    watcher = fake.watcher()
    watcher.look(START)
    fake.away = True
    watcher.look(START + 30, patient=True)
    away = view(watcher, START + 30)
    assert away.phase.startswith("no response: http://127.0.0.1:9464")
    assert "last response 30 s ago" in away.notes[0]
    assert away.rates[0].judged == 100
    fake.away = False
    watcher.look(START + 32, patient=True)
    assert away.phase != view(watcher, START + 32).phase


def test_without_a_terminal_nothing_is_said_where_nothing_changes() -> None:
    fake = FakeMonitor()
    fake.judge(100, 50)
    watcher = fake.watcher()
    watcher.look(START)
    before = view(watcher, START)
    for seconds in (2, 20, 40, 400):
        watcher.look(START + seconds)
        assert lines(before, view(watcher, START + seconds)) == []


def test_the_worst_come_first_and_what_has_no_room_is_counted() -> None:
    fake = FakeMonitor()
    for number in range(40):
        fake.judge(400, 0, app=f"app-{number}")
        fake.metrics.alert_threshold.labels(f"app-{number}", "groundedness", "warning").set(0.1)
    fake.judge(400, 300)
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, color_system=None, legacy_windows=False)
    looks = itertools.count(START)
    watcher = fake.watcher()
    watcher.look(next(looks))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(watcher, interval=2.0, console=console, sleep=interrupt, now=lambda: next(looks))
    text = out.getvalue()
    picture = text[: text.index("more rates")]
    assert picture.index("shop") < picture.index("app-0")
    assert "CRITICAL" in picture
    assert "and 3" in picture[-20:]
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is back


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    fake = FakeMonitor()
    fake.judge(100_000, 50)
    watcher = fake.watcher()
    watcher.look(START)
    fake.judge(12_345, 678)
    watcher.look(START + 300)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(render(view(watcher, START + 300)))
    assert all(cell_len(line) <= width for line in out.getvalue().splitlines())
    for part in ("last 5 min", "since start 0.6 %", "12345", "of 112345", "5.5 %"):
        assert part in out.getvalue()


def test_an_evaluator_in_trouble_is_named_with_why_and_what_to_do_and_the_others_are_not() -> None:
    fake = FakeMonitor()
    for state in State:
        fake.metrics.evaluator_state.labels("groundedness", state.value).set(state is State.PAUSED)
        fake.metrics.evaluator_state.labels("overlap_groundedness", state.value).set(state is State.OK)
    says = {"name": "groundedness", "state": "paused", "why": "The key.", "remedy": "Another key."}
    fake.overview = {"evaluators": [says]}
    watcher = fake.watcher()
    watcher.look(START)
    notes = view(watcher, START).notes
    assert "groundedness is paused: The key. Another key." in notes
    assert not [note for note in notes if note.startswith("overlap_groundedness")]
    about = {one["evaluator"]: one for one in to_object(watcher.status())["evaluators"]}
    assert about["groundedness"] == {"evaluator": says.pop("name"), **says}
    assert about["overlap_groundedness"]["state"] == "ok"
