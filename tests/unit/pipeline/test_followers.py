"""Sinks that follow the history: each gets every result, whatever befalls it or another."""

from __future__ import annotations

import logging
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import MonitorError, Overloaded, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.pipeline.followers import Pauses
from monitor.sinks.history import HistorySink
from monitor.storage.damage import remove
from monitor.storage.history.erasing import erase
from monitor.telemetry.events import Event
from tests.support.examples import examples
from tests.support.following import Receiver, following, ids
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio


def results(*numbers: int) -> list[EvaluationResult]:
    return [judged(one) for one in numbers]


async def test_every_result_arrives_once_and_in_order(tmp_path: Path) -> None:
    receiver = Receiver()
    async with following(tmp_path, one=receiver.deliver) as at:
        for start in range(0, 60, 20):
            await at.write(*results(*range(start, start + 20)))
        await at.done(60)
        assert receiver.taken == ids(range(60))
        assert max(map(len, receiver.batches)) == 10
        assert at.count("sent") == 60


async def test_batches_are_under_way_side_by_side_up_to_the_limit(tmp_path: Path) -> None:
    receiver = Receiver(gate=anyio.Event())
    async with following(tmp_path, in_flight=3, one=receiver.deliver) as at:
        await at.write(*results(*range(50)))
        await until(lambda: len(receiver.batches) == 3, "three batches")
        receiver.gate.set()
        await at.done(50)
        assert receiver.most == 3
        assert sorted(receiver.taken) == sorted(ids(range(50)))


async def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path) -> None:
    hangs, works = Receiver(gate=anyio.Event()), Receiver()
    async with following(tmp_path, one=hangs.deliver, other=works.deliver) as at:
        await at.write(*results(1, 2))
        await at.write(*results(3))
        await at.done(3, "other")
        assert works.taken == ids([1, 2, 3])
        assert hangs.taken == []
        assert at.feed.standings()["one"].position == 0


@pytest.mark.parametrize("error", [Overloaded("down", 0.0), MonitorError("a wrong key"), OSError("gone")])
async def test_while_a_receiver_is_down_results_wait_and_all_arrive_when_it_is_back(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """One line of log says that it is down, and one that it works again."""
    caplog.set_level(logging.INFO, "monitor")
    receiver = Receiver(down=error)
    async with following(tmp_path, one=receiver.deliver) as at:
        await at.write(*results(*range(30)))
        await until(lambda: len(receiver.batches) >= 4, "four attempts")
        await at.write(*results(*range(30, 40)))
        assert at.count("sent") == 0
        receiver.down = None
        await at.done(40)
        assert receiver.taken == ids(range(40))
        assert total(at.lent.metrics, "ragmonitor_sink_failures_total", sink="one") >= 4
    said = [record.event for record in caplog.records if getattr(record, "event", "").startswith("sink_")]
    assert said == [Event.SINK_FAILED, Event.SINK_RECOVERED]


def test_pauses_grow_to_a_minute_and_are_as_long_as_the_receiver_asks_up_to_an_hour() -> None:
    pauses = Pauses(random.Random(1))
    found = [pauses.after(OSError("gone")) for _ in range(12)]
    longest = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]
    assert all(0.5 * most <= seconds <= most for seconds, most in zip(found, longest, strict=True))
    assert len(set(found)) == 12
    assert pauses.after(Overloaded("busy", 90.0)) == 90.0
    assert pauses.after(Overloaded("busy", 1e9)) == 3600.0
    pauses.begin_again()
    assert pauses.after(OSError("gone")) <= 1.0


@examples(15)
@given(bad=st.sets(st.integers(0, 19), max_size=6), at_once=st.integers(1, 20), in_flight=st.integers(1, 4))
async def test_a_result_that_is_refused_takes_no_other_with_it(bad: set[int], at_once: int, in_flight: int) -> None:
    receiver = Receiver(bad)
    with tempfile.TemporaryDirectory() as folder:
        async with following(Path(folder), at_once=at_once, in_flight=in_flight, one=receiver.deliver) as at:
            await at.write(*results(*range(20)))
            await at.done(20)
            assert sorted(receiver.taken) == sorted(ids(set(range(20)) - bad))
            assert (at.count("sent"), at.count("rejected")) == (20 - len(bad), len(bad))


async def test_of_a_batch_that_was_taken_in_part_the_rest_is_not_sent_again(tmp_path: Path) -> None:
    batches = []

    async def deliver(some: Sequence[EvaluationResult]) -> None:
        batches.append(len(some))
        raise ResultsRefused("no such span", ids([2]))

    async with following(tmp_path, one=deliver) as at:
        await at.write(*results(*range(4)))
        await at.done(4)
        assert batches == [4]
        assert (at.count("sent"), at.count("rejected")) == (3, 1)


async def test_a_result_at_which_the_receiver_breaks_is_given_up_when_patience_ends(tmp_path: Path) -> None:
    clock = ManualClock()
    receiver = Receiver(breaks=[3])
    async with following(tmp_path, clock=clock, patience=100.0, one=receiver.deliver) as at:
        await at.write(*results(*range(8)))
        await until(lambda: len(receiver.batches) >= 3, "some attempts")
        assert receiver.taken == []
        clock.advance(101)
        await at.done(8)
        assert set(receiver.taken) == set(ids(set(range(8)) - {3}))
        assert (at.count("sent"), at.count("rejected")) == (7, 1)


async def test_a_receiver_that_refuses_a_result_works_so_that_one_at_which_it_breaks_is_given_up(
    tmp_path: Path,
) -> None:
    clock, receiver = ManualClock(), Receiver(bad=[0], breaks=[1])
    async with following(tmp_path, at_once=1, clock=clock, patience=100.0, one=receiver.deliver) as at:
        await at.write(*results(0, 1))
        await until(lambda: len(receiver.batches) >= 4, "some attempts")
        assert at.count("rejected") == 1
        clock.advance(101)
        await at.done(2)
        assert (at.count("sent"), at.count("rejected")) == (0, 2)


async def test_a_receiver_that_takes_nothing_loses_nothing_when_patience_ends(tmp_path: Path) -> None:
    clock = ManualClock()
    receiver = Receiver(down=OSError("gone"))
    async with following(tmp_path, clock=clock, patience=100.0, one=receiver.deliver) as at:
        await at.write(*results(*range(8)))
        failures = partial(total, at.lent.metrics, "ragmonitor_sink_failures_total", sink="one")
        await until(lambda: failures() > 0, "a failure that patience counts from")
        clock.advance(101)
        tried = len(receiver.batches)
        await until(lambda: len(receiver.batches) >= tried + 20, "more attempts")
        assert at.count("rejected") == 0
        receiver.down = None
        await at.done(8)
        assert set(receiver.taken) == set(ids(range(8)))


@examples(12)
@given(fails=st.integers(1, 40), in_flight=st.integers(1, 4))
async def test_a_receiver_that_comes_back_between_two_results_loses_none(fails: int, in_flight: int) -> None:
    clock = ManualClock()
    receiver = Receiver()
    left = iter(range(fails))

    async def deliver(some: Sequence[EvaluationResult]) -> None:
        clock.advance(101)  # from the second attempt on, results are sent alone
        receiver.down = OSError("gone") if next(left, None) is not None else None
        await receiver.deliver(some)

    with tempfile.TemporaryDirectory() as folder:
        async with following(Path(folder), clock=clock, patience=100.0, in_flight=in_flight, one=deliver) as at:
            await at.write(*results(*range(8)))
            await at.done(8)
            assert set(receiver.taken) == set(ids(range(8)))
            assert (at.count("sent"), at.count("rejected")) == (8, 0)


async def test_what_falls_out_of_the_retention_before_it_is_sent_is_counted(tmp_path: Path) -> None:
    clock = ManualClock(start=judged(0).evaluated_at)
    receiver = Receiver(down=OSError("gone"))
    async with following(tmp_path, clock=clock, retention=3600.0, one=receiver.deliver) as at:
        await at.write(*results(*range(20)))
        await until(lambda: receiver.batches, "an attempt")
        clock.advance(7200)
        late = judged(20, evaluated_at=clock.now())
        await at.write(late)
        await until(lambda: receiver.batches[-1] == [late.id], "an attempt with what is left")
        receiver.down = None
        await at.done(21)
        assert receiver.taken == [late.id]
        await until(lambda: (at.count("sent"), at.count("expired")) == (1, 20), "the counts")


async def test_what_was_forgotten_before_it_is_sent_is_not_sent_and_is_counted(tmp_path: Path) -> None:
    receiver = Receiver(down=OSError("gone"))
    async with following(tmp_path, one=receiver.deliver) as at:
        await at.write(*results(1, 2, 3))
        await until(lambda: receiver.batches, "an attempt")
        await anyio.to_thread.run_sync(lambda: erase(at.path, [judged(2).case.request_id], dry_run=False))
        await until(lambda: receiver.batches[-1] == ids([1, 3]), "an attempt after the erasure")
        receiver.down = None
        await at.done(3)
        assert receiver.taken == ids([1, 3])
        await until(lambda: (at.count("sent"), at.count("forgotten")) == (2, 1), "the counts")
        assert at.count("expired") == 0


async def test_after_a_restart_a_sink_goes_on_where_it_was(tmp_path: Path) -> None:
    first, second = Receiver(), Receiver()
    async with following(tmp_path, one=first.deliver) as at:
        await at.write(*results(1, 2))
        await at.done(2)
        first.down = OSError("gone")
        await at.write(*results(3))
    async with following(tmp_path, one=second.deliver) as at:
        await at.write(*results(4))
        await at.done(4)
    assert (first.taken, second.taken) == (ids([1, 2]), ids([3, 4]))


async def test_a_sink_that_is_new_begins_with_the_next_result_and_one_that_is_gone_leaves_nothing(
    tmp_path: Path,
) -> None:
    first, second = Receiver(down=OSError("gone")), Receiver()
    async with following(tmp_path, one=first.deliver) as at:
        await at.write(*results(1, 2))
    async with following(tmp_path, other=second.deliver) as at:
        await at.write(*results(3))
        await at.done(3, "other")
        assert second.taken == ids([3])
        assert set(at.feed.standings()) == {"other"}


async def test_a_history_that_is_begun_again_while_it_is_followed_is_followed_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.followers._LOOK_EVERY", 0.05)
    receiver = Receiver()
    async with following(tmp_path, one=receiver.deliver) as at:
        await at.write(*results(1, 2, 3))
        await at.done(3)
        remove(at.path)
        async with HistorySink(path=at.path, retention=1e12).open(runtime()) as deliver:
            await deliver(results(4, 5))
        await until(lambda: receiver.taken == ids([1, 2, 3, 4, 5]), "the results of the new file")
        assert at.count("expired") == 0


async def test_a_history_that_counts_from_the_start_again_is_followed_from_its_beginning(tmp_path: Path) -> None:
    """What is saved of a damaged file may hold a position beyond all numbers."""
    receiver = Receiver()
    async with following(tmp_path, one=receiver.deliver) as at:
        await at.write(*results(1, 2, 3))
        await at.done(3)
        with closing(sqlite3.connect(at.path, timeout=30)) as db, db:
            db.execute("DELETE FROM feed")
            db.execute("DELETE FROM sqlite_sequence")
        await at.write(*results(4, 5))
        await until(lambda: receiver.taken == ids([1, 2, 3, 4, 5]), "the results of the new feed")
        assert at.count("expired") == 0


async def test_what_waits_for_a_sink_is_called_when_it_has_all_that_was_written_before(tmp_path: Path) -> None:
    done, receiver = [], Receiver(gate=anyio.Event())
    async with following(tmp_path, one=receiver.deliver) as at:
        await at.write(*results(1))
        at.followers["one"].when_sent(lambda: done.append(1))
        await until(lambda: receiver.batches, "the batch")
        at.followers["one"].settle_overdue()
        assert done == []
        receiver.gate.set()
        await until(lambda: done == [1], "the call")
        assert receiver.taken == ids([1])


async def test_what_waits_for_a_sink_that_fails_is_called_after_two_minutes(tmp_path: Path) -> None:
    done, clock, receiver = [], ManualClock(), Receiver(down=OSError("gone"))
    async with following(tmp_path, clock=clock, one=receiver.deliver) as at:
        await at.write(*results(1))
        at.followers["one"].when_sent(lambda: done.append(1))
        await until(lambda: len(receiver.batches) >= 3, "attempts")
        clock.advance(121)
        at.followers["one"].settle_overdue()
        assert done == [1]


async def test_of_several_that_wait_only_those_who_have_waited_for_two_minutes_are_called(tmp_path: Path) -> None:
    done, clock, receiver = [], ManualClock(), Receiver(down=OSError("gone"))
    async with following(tmp_path, clock=clock, one=receiver.deliver) as at:
        await at.write(*results(1))
        await until(lambda: receiver.batches, "an attempt")
        at.followers["one"].when_sent(lambda: done.append(1))
        clock.advance(60)
        at.followers["one"].when_sent(lambda: done.append(2))
        clock.advance(61)
        at.followers["one"].settle_overdue()
        assert done == [1]


async def test_waiting_for_the_end_waits_for_no_sink_that_fails(tmp_path: Path) -> None:
    fails, works = Receiver(down=OSError("gone")), Receiver()
    async with following(tmp_path, one=fails.deliver, other=works.deliver) as at:
        await at.write(*results(1))
        await until(lambda: fails.batches, "an attempt")
        with anyio.fail_after(120):
            await at.followers["one"].idle()
            await at.followers["other"].idle()
        assert works.taken == ids([1])


async def test_a_row_that_cannot_be_read_is_counted_and_passed(tmp_path: Path) -> None:
    receiver, lent = Receiver(down=OSError("gone")), runtime()
    async with following(tmp_path, lent=lent, one=receiver.deliver) as at:
        await at.write(*results(1, 2, 3))
        await until(lambda: receiver.batches, "an attempt")
        _damage(at.path, judged(2).id)
        await until(lambda: receiver.batches[-1] == ids([1, 3]), "an attempt after the damage")
        receiver.down = None
        await at.done(3)
        assert receiver.taken == ids([1, 3])
        await until(lambda: at.count("unreadable") == 1, "the count")


def _damage(path: Path, key: str) -> None:
    db = sqlite3.connect(path, timeout=30)
    with db:
        db.execute("UPDATE results SET body = ? WHERE id = ?", (b"[" * 100_000, key))
    db.close()
