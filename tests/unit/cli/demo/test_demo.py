"""The face of the demo: what it shows at 80 and 120 columns, that hostile text stays text, and what a log gets."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from monitor.cli.console.live_view import lines, render, summary
from monitor.cli.console.output import clean
from monitor.cli.console.view import AlertRow, ConsoleView, RateRow, WorstAnswer
from monitor.cli.demo import run_demo, show
from monitor.cli.demo.embedded import Started
from monitor.errors import InvalidData
from tests.support.examples import examples

ROW = RateRow(
    evaluator="overlap_groundedness",
    app="acme-support",
    rate=0.312,
    lower=0.27,
    upper=0.36,
    judged=412,
    trend=(0.0, None, 0.1, 0.5),
    state="critical",
    threshold=0.1,
)
ALERT = AlertRow(
    name="RagDefectRateHigh",
    severity="critical",
    evaluator="overlap_groundedness",
    app="acme-support",
    rate=0.312,
    lower=0.27,
    threshold=0.1,
    window=60,
    firing_for=12,
)
WORST = WorstAnswer(
    evaluator="overlap_groundedness",
    app="acme-support",
    question="How long is the warranty?",
    answer="It lasts ten years for gold members.",
    score=0.11,
    explanation="1 of 5 content words are in the context.",
    unsupported=((9, 18), (23, 35)),
)
VIEW = ConsoleView(
    elapsed=67,
    phase="answers get worse",
    rates=(ROW, replace(ROW, app="acme-docs", rate=None, lower=None, upper=None, judged=0, state="not enough data")),
    alerts=(ALERT,),
    worst=(WORST,),
    ledger={"received": 812, "evaluated": 790, "pending": 22, "sampled_out": 0},
    addresses={"metrics": "http://127.0.0.1:9464/metrics"},
)
HOSTILE = "\x1b[31mred\x07 [bold]b[/] [/] \u202eevil\u2066 \x9b2J \r\n\ttab \ud800 :smile: [link=file:///]x"


def drawn(view: ConsoleView, width: int = 80, *, encoding: str = "utf-8", terminal: bool = False) -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    Console(file=out, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None).print(
        render(view)
    )
    out.seek(0)
    return out.read()


class TestPicture:
    @pytest.mark.parametrize("width", [80, 120, 200])
    def test_it_fits_the_terminal_and_shows_every_number_without_colour(self, width: int) -> None:
        text = drawn(VIEW, width)
        assert max(map(cell_len, text.splitlines())) <= width
        flat = " ".join(text.replace("\u2502", " ").split())
        for expected in (
            "31 %",
            "27 to 36 %",
            "412",
            "CRITICAL",
            "not enough",
            "acme-support",
            "overlap_groundedness",
            "traces received 812: evaluated 790, pending 22",
            "ALERT CRITICAL RagDefectRateHigh",
            "at least 27 % (threshold 10 %)",
            "over the last 1 min, firing for 12 s",
            "How long is the warranty?",
            "It lasts \u00abten years\u00bb for \u00abgold members\u00bb.",
            "0.11 1 of 5 content words are in the context.",
            "http://127.0.0.1:9464/metrics",
            "1:07",
        ):
            assert expected in flat, expected

    def test_the_bar_has_the_threshold_the_interval_and_the_rate_in_their_order(self) -> None:
        row = next(line for line in drawn(VIEW, 120).splitlines() if line.startswith("acme-support"))
        assert re.search("\u00b7\u2502\u00b7+\u2501+\u25cf\u2501+\u00b7", row)

    def test_a_higher_rate_draws_a_higher_mark_and_a_gap_stays_a_gap(self) -> None:
        row = next(line for line in drawn(VIEW, 120).splitlines() if line.startswith("acme-support"))
        assert "\u2581 \u2582\u2588" in row

    def test_it_can_be_drawn_where_only_ascii_can(self) -> None:
        row = next(line for line in drawn(VIEW, 80, encoding="ascii").splitlines() if line.startswith("acme-support"))
        assert re.search(r"\.\|\.+=*o=*\.", row)

    def test_before_the_first_trace_it_says_that_it_waits(self) -> None:
        assert "waiting for traffic" in drawn(ConsoleView(elapsed=0, phase="starting"))

    @pytest.mark.parametrize("terminal", [False, True])
    def test_hostile_text_is_shown_as_text(self, terminal: bool) -> None:
        worst = replace(WORST, question=HOSTILE, answer=HOSTILE, explanation=HOSTILE, app=HOSTILE)
        view = replace(
            VIEW,
            phase=HOSTILE,
            worst=(worst,),
            rates=(replace(ROW, app=HOSTILE, evaluator=HOSTILE),),
            alerts=(replace(ALERT, app=HOSTILE, name=HOSTILE),),
            addresses={HOSTILE: HOSTILE},
            ledger={HOSTILE: 3},
        )
        text = drawn(view, 120, terminal=terminal)
        for forbidden in ("\x1b[31mred", "\x07", "\u202e", "\u2066", "\x9b", "\r", "\t", "\x1b]8"):
            assert forbidden not in text
        assert "[bold]b[/] [/]" in text
        assert ":smile:" in text

    @examples(60)
    @given(
        st.text(max_size=500),
        st.lists(st.tuples(st.integers(-5, 600), st.integers(-5, 600)), max_size=5),
        st.lists(st.none() | st.floats(0, 1), max_size=80),
    )
    def test_no_answer_and_no_offsets_break_it(
        self, answer: str, unsupported: list[tuple[int, int]], trend: list[float | None]
    ) -> None:
        worst = replace(WORST, answer=answer, unsupported=unsupported)
        text = drawn(replace(VIEW, worst=(worst,), rates=(replace(ROW, trend=trend),)))
        assert max(map(cell_len, text.splitlines())) <= 80

    @given(st.text())
    def test_cleaning_keeps_the_place_of_every_character(self, text: str) -> None:
        cleaned = clean(text)
        assert len(cleaned) == len(text)
        assert clean(cleaned) == cleaned


class TestLines:
    def test_the_first_view_tells_the_addresses_the_phase_and_the_states(self) -> None:
        said = lines(None, replace(VIEW, alerts=()))
        assert said == [
            "1:07 metrics: http://127.0.0.1:9464/metrics",
            "1:07 answers get worse",
            "1:07 acme-support overlap_groundedness: 31 % defective (27 to 36 %) of 412 scored; critical",
            "1:07 acme-docs overlap_groundedness: nothing scored; not enough data",
        ]

    def test_nothing_new_is_nothing_said(self) -> None:
        assert lines(VIEW, replace(VIEW, elapsed=70, rates=(replace(ROW, judged=500), VIEW.rates[1]))) == []

    def test_an_alert_is_told_when_it_fires_with_the_worst_answer_and_when_it_ends(self) -> None:
        quiet = replace(VIEW, alerts=())
        fired = lines(quiet, VIEW)
        assert fired[0].startswith("1:07 ALERT RagDefectRateHigh critical acme-support overlap_groundedness: 31 %")
        assert "\u00abten years\u00bb" in fired[1]
        assert lines(VIEW, quiet) == ["1:07 RESOLVED RagDefectRateHigh acme-support overlap_groundedness"]

    def test_an_alert_that_gets_graver_is_told_and_is_not_resolved(self) -> None:
        warned = replace(VIEW, alerts=(replace(ALERT, severity="warning"),))
        said = lines(warned, VIEW)
        assert "ALERT RagDefectRateHigh critical" in said[0]
        assert not any("RESOLVED" in line for line in said)

    def test_hostile_text_cannot_forge_a_line(self) -> None:
        said = lines(None, replace(VIEW, phase="a\nb\x1b[2J", worst=(replace(WORST, answer=HOSTILE),)))
        assert all(line.isprintable() or "\u200c" in line for line in said)
        assert summary(replace(VIEW, rates=(replace(ROW, app="a\nb"),))).count("\n") == 0


@pytest.mark.anyio
class TestShow:
    async def test_it_ends_when_the_condition_holds_and_cancels_the_feed(self) -> None:
        stopped = anyio.Event()

        async def feed() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                stopped.set()

        views = iter([replace(VIEW, alerts=()), VIEW])
        out = io.StringIO()
        with anyio.fail_after(120):
            await show(
                lambda: next(views), feed, until=lambda view: bool(view.alerts), console=Console(file=out), every=0.01
            )
        assert stopped.is_set()
        assert "ALERT RagDefectRateHigh" in out.getvalue()

    async def test_without_a_terminal_it_writes_plain_lines_and_a_sign_of_life(self) -> None:
        views = iter([replace(VIEW, elapsed=elapsed) for elapsed in (0, 1, 16, 17)])
        out = io.StringIO()
        console = Console(file=out, width=40)
        with anyio.fail_after(120):
            await show(
                lambda: next(views), anyio.sleep_forever, until=lambda v: v.elapsed == 17, console=console, every=0
            )
        assert "\x1b" not in out.getvalue()
        said = out.getvalue().splitlines()
        assert said[-1].startswith("0:16 received 812; acme-support overlap_groundedness: 31 %")
        assert sum(line.startswith("0:16") for line in said) == 1

    async def test_on_a_terminal_it_draws_in_place_and_leaves_out_what_has_no_room(self) -> None:
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=80, height=24)
        view = replace(VIEW, worst=(WORST,) * 5)
        with anyio.fail_after(120):
            await show(lambda: view, anyio.sleep_forever, until=lambda _: True, console=console, every=0)
        pictures = out.getvalue().count("answers get worse")
        assert pictures >= 1
        assert out.getvalue().count("How long is the warranty?") == pictures  # of five, one has room

    async def test_a_feed_that_ends_leaves_the_picture(self) -> None:
        count = iter(range(100))

        async def feed() -> None:
            return

        with anyio.fail_after(120):
            await show(
                lambda: VIEW, feed, until=lambda _: next(count) == 5, console=Console(file=io.StringIO()), every=0.001
            )
        assert next(count) == 6


class TestRunDemo:
    def test_the_monitor_is_stopped_at_the_end(self) -> None:
        events: list[str] = []

        @asynccontextmanager
        async def start() -> AsyncIterator[Started]:
            events.append("started")
            yield Started(lambda: VIEW, anyio.sleep_forever)
            events.append("stopped")

        run_demo(start, until=lambda view: bool(view.alerts), console=Console(file=io.StringIO()))
        assert events == ["started", "stopped"]

    def test_what_goes_wrong_in_the_feed_comes_out_as_itself(self) -> None:
        async def feed() -> None:
            raise InvalidData("the endpoint answered 400")

        @asynccontextmanager
        async def start() -> AsyncIterator[Started]:
            yield Started(lambda: VIEW, feed)

        with pytest.raises(InvalidData, match="answered 400"):
            run_demo(start, console=Console(file=io.StringIO()))

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_quietly_and_stops_the_monitor_however_often_it_comes(
        self, number: signal.Signals
    ) -> None:
        events: list[str] = []

        async def feed() -> None:
            os.kill(os.getpid(), number)
            await anyio.sleep_forever()

        @asynccontextmanager
        async def start() -> AsyncIterator[Started]:
            yield Started(lambda: VIEW, feed)
            os.kill(os.getpid(), number)
            await anyio.sleep(0.05)
            events.append("stopped")

        run_demo(start, console=Console(file=io.StringIO()))
        assert events == ["stopped"]
