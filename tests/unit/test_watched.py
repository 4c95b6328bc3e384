"""What `rag-monitor top` makes of two scrapes, and what a terminal shows of it."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from monitor.cli.console.live_view import lines, render
from monitor.cli.console.status_lines import told, troubled
from monitor.cli.outlook import Outlook
from monitor.cli.scrape import Port, Samples
from monitor.cli.top import watch
from monitor.cli.watched import NAMES, WINDOW, Rated, Watched, read
from monitor.errors import ConfigError, MonitorError
from monitor.states import State
from monitor.statistics.rates import Sums
from monitor.telemetry.metrics import Metrics

SHOP = Rated("shop", "groundedness", "v1")
START = 1_700_000_000.0


class House:
    """The series of a monitor, counted by the product's own declarations, and scraped in its own text."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.overview: dict[str, object] | None = None
        self.away = False
        self.metrics.alert_threshold.labels("shop", "groundedness", "warning").set(0.1)
        self.metrics.alert_threshold.labels("shop", "groundedness", "critical").set(0.3)

    def judge(self, number: int, defects: int, weight: float = 10.0, app: str = "shop") -> None:
        for defect, many in (("true", defects), ("false", number - defects)):
            labels = (app, "groundedness", "v1", "low", defect)
            self.metrics.evaluations.labels(*labels).inc(many)
            self.metrics.evaluation_weight.labels(*labels).inc(many * weight)
            self.metrics.evaluation_weight_squares.labels(*labels).inc(many * weight**2)
        self.metrics.traces_received.labels(app, "otlp_http").inc(number)
        self.metrics.traces.labels(app, "otlp_http", "judged").inc(number)

    # -- in the place of a `Port`

    base = "http://127.0.0.1:9464"

    def samples(self, names: object) -> Samples:
        if self.away:
            raise MonitorError(f"{self.base}: no monitor answers: Connection refused")
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name in names:  # type: ignore[operator]
                    found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return Samples(found)

    def document(self, path: str) -> dict[str, object] | None:
        return self.overview

    def outlook(self) -> Outlook:
        return Outlook(self)  # type: ignore[arg-type]


def watched(house: House, *moments: float) -> Watched:
    found = Watched()
    for at in moments:
        found.add(read(house.samples(NAMES), at))
    return found


def test_the_rate_since_the_start_is_that_of_all_traffic() -> None:
    house = House()
    house.judge(100, 20, weight=1.0)
    house.judge(10, 8, weight=50.0)
    (sums,) = read(house.samples(NAMES), START).rates.values()
    assert sums == Sums(110, 28, 600.0, 420.0, 20 + 8 * 2500.0, 80 + 2 * 2500.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1), st.floats(1, 1e6)), min_size=2, max_size=8))
def test_the_window_holds_what_came_while_it_was_watched_and_no_more(steps: list[tuple[int, float, float]]) -> None:
    house, found = House(), Watched()
    for at, (number, share, weight) in enumerate(steps):
        house.judge(number, int(number * share), weight)
        found.add(read(house.samples(NAMES), START + at))
    window = found.window(SHOP)
    assert window.judged == sum(number for number, _, _ in steps[1:])
    assert window.defects == sum(int(number * share) for number, share, _ in steps[1:])
    assert window.weight == pytest.approx(sum(number * weight for number, _, weight in steps[1:]), rel=1e-6, abs=1e-3)
    assert (window.defect_weight > 0) == (window.defects > 0)


def test_the_window_is_five_minutes_at_most() -> None:
    house, found = House(), Watched()
    for minute in range(20):
        house.judge(10, 1)
        found.add(read(house.samples(NAMES), START + 60 * minute))
    assert found.seconds == WINDOW
    assert found.window(SHOP).judged == 50


def test_after_a_restart_it_begins_anew() -> None:
    house, found = House(), Watched()
    house.judge(100, 50)
    found.add(read(house.samples(NAMES), START))
    again = House()
    again.judge(3, 0)
    found.add(read(again.samples(NAMES), START + 2))
    assert found.seconds == 0
    assert found.newest.judged == 3


def test_throughput_and_cost_are_those_of_the_time_that_it_is_watched() -> None:
    house, found = House(), Watched()
    house.judge(1000, 0)
    house.metrics.judge_cost.labels("openai/x").inc(5.0)
    found.add(read(house.samples(NAMES), START))
    assert found.per_second() is None
    house.judge(30, 0)
    house.metrics.judge_cost.labels("openai/x").inc(0.01)
    found.add(read(house.samples(NAMES), START + 10))
    assert found.per_second() == (3.0, 3.0)
    assert found.dollars_per_hour("openai/x") == pytest.approx(3.6)


def test_a_trend_is_the_rate_of_each_ten_seconds() -> None:
    house, found = House(), Watched()
    for step in range(4):
        found.add(read(house.samples(NAMES), START + 10 * step))
        house.judge(10, 10 * (step % 2)) if step != 2 else None
    assert found.trend(SHOP) == [0.0, 1.0, None]


@pytest.mark.parametrize(
    ("judged", "defects", "state"),
    [(400, 200, "critical"), (400, 80, "warning"), (400, 8, "ok"), (5, 1, "not enough data")],
)
def test_a_state_is_that_of_an_alert_on_what_is_shown(judged: int, defects: int, state: str) -> None:
    house = House()
    house.judge(judged, defects)
    outlook = house.outlook()
    outlook.look(START)
    (row,) = outlook.view(START).rates
    assert (row.state, row.threshold) == (state, 0.1)


def test_where_no_alert_is_configured_there_is_no_state() -> None:
    house = House()
    house.judge(400, 200, app="other")
    outlook = house.outlook()
    outlook.look(START)
    assert [row.state for row in outlook.view(START).rates] == ["no alert"]


def test_the_page_knows_the_states_better() -> None:
    house = House()
    house.judge(400, 200)
    firing = {"name": "RagDefectRateHigh", "severity": "warning", "app": "shop", "evaluator": "groundedness"}
    rate = {"app": "shop", "evaluator": "groundedness", "state": "warning", "firing": [firing]}
    house.overview = {"apps": [{"rates": [rate, "nonsense"]}], "alerts": None}
    outlook = house.outlook()
    outlook.look(START)
    view = outlook.view(START)
    assert view.rates[0].state == "warning"
    assert view.notes[-1] == "ALERT warning RagDefectRateHigh shop groundedness"


def test_the_first_look_has_the_figures_since_the_start_and_later_ones_both() -> None:
    house = House()
    house.judge(100, 50)
    outlook = house.outlook()
    outlook.look(START)
    first = outlook.view(START)
    assert (first.window, first.rates[0].judged, first.rates[0].since_start) == (None, 100, None)
    house.judge(100, 10)
    outlook.look(START + 40)
    later = outlook.view(START + 40)
    assert (later.window, later.rates[0].rate, later.rates[0].judged) == (40.0, 0.1, 100)
    assert later.rates[0].since_start == (0.3, 200)
    told = outlook.as_object(START + 40)["rates"][0]
    assert (told["window"]["judged"], told["since_start"]["judged"], told["thresholds"]["critical"]) == (100, 200, 0.3)


def test_a_monitor_that_is_away_for_a_while_is_waited_for() -> None:
    house = House()
    house.judge(100, 50)
    outlook = house.outlook()
    house.away = True
    with pytest.raises(MonitorError, match="no monitor answers"):
        outlook.look(START)
    house.away = False
    outlook.look(START)
    house.away = True
    outlook.look(START + 30, patient=True)
    view = outlook.view(START + 30)
    assert view.phase.startswith("no answer: http://127.0.0.1:9464")
    assert "the last answer 30 s ago" in view.notes[0]
    assert view.rates[0].judged == 100
    house.away = False
    outlook.look(START + 32, patient=True)
    assert view.phase != outlook.view(START + 32).phase


def test_without_a_terminal_nothing_is_said_where_nothing_changes() -> None:
    house = House()
    house.judge(100, 50)
    outlook = house.outlook()
    outlook.look(START)
    before = outlook.view(START)
    for seconds in (2, 20, 40, 400):
        outlook.look(START + seconds)
        assert lines(before, outlook.view(START + seconds)) == []


def test_the_gravest_come_first_and_what_has_no_room_is_counted() -> None:
    house = House()
    for number in range(40):
        house.judge(400, 0, app=f"app-{number}")
        house.metrics.alert_threshold.labels(f"app-{number}", "groundedness", "warning").set(0.1)
    house.judge(400, 300)
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, color_system=None, legacy_windows=False)
    looks = itertools.count(START)
    outlook = house.outlook()
    outlook.look(next(looks))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(outlook, every=2.0, console=console, sleep=interrupt, now=lambda: next(looks))
    text = out.getvalue()
    picture = text[: text.index("rates more")]
    assert picture.index("shop") < picture.index("app-0")
    assert "CRITICAL" in picture
    assert "and 3" in picture[-20:]
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is back


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    house = House()
    house.judge(100_000, 50)
    outlook = house.outlook()
    outlook.look(START)
    house.judge(12_345, 678)
    outlook.look(START + 300)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(render(outlook.view(START + 300)))
    assert all(cell_len(line) <= width for line in out.getvalue().splitlines())
    for part in ("last 5 min", "since start 0.6 %", "12345", "of 112345", "5.5 %"):
        assert part in out.getvalue()


@pytest.mark.parametrize("url", ["", "ftp://h", "http://", "http://a b", "http://u:p@h", "http://h/?q", "http://h:x"])
def test_an_address_that_can_never_work_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--url"):
        Port(url)


@pytest.mark.parametrize("url", ["127.0.0.1:9464", "http://127.0.0.1:9464/", "http://127.0.0.1:9464/metrics"])
def test_an_address_may_be_written_as_people_do(url: str) -> None:
    assert Port(url).base == "http://127.0.0.1:9464"


def test_an_evaluator_that_is_in_trouble_is_named_with_why_and_what_to_do_and_the_others_are_not():
    house = House()
    for state in State:
        house.metrics.evaluator_state.labels("groundedness", state.value).set(state is State.PAUSED)
        house.metrics.evaluator_state.labels("overlap_groundedness", state.value).set(state is State.OK)
    says = {"name": "groundedness", "state": "paused", "why": "The key.", "remedy": "Another key."}
    house.overview = {"evaluators": [says]}
    outlook = house.outlook()
    outlook.look(START)
    notes = outlook.view(START).notes
    assert "groundedness is paused: The key. Another key." in notes
    assert not [note for note in notes if note.startswith("overlap_groundedness")]
    about = {one["evaluator"]: one for one in outlook.as_object(START)["evaluators"]}
    assert about["groundedness"] == {
        "evaluator": "groundedness",
        "state": "paused",
        "why": "The key.",
        "remedy": "Another key.",
    }
    assert about["overlap_groundedness"]["state"] == "ok"


def test_a_page_that_is_behind_the_counters_lends_no_sentence_to_another_state():
    stale = {"groundedness": {"state": "paused", "why": "The key.", "remedy": "Another key."}}
    assert list(troubled(told({"groundedness": "error", "tone": "unheard_of"}, stale))) == ["groundedness is error"]
