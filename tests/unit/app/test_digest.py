"""Sending the digest: once for each due time, over restarts and clock changes, and again what was not accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from monitor import config
from monitor.app.digest import LATE_AT_MOST, DigestSender
from monitor.clock import ManualClock
from monitor.config import Config
from monitor.operations.digest import Digest, DigestRequest, build_digest
from monitor.stages import Runtime
from monitor.storage import files
from monitor.storage.history.tables import create, insert
from tests.support.alerts import Receiver, answer, receiver, running
from tests.support.results import judged
from tests.support.runtime import RememberedState, runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio

DAY, WEEK = 86_400.0, 7 * 86_400.0
MONDAY = datetime.fromisoformat("2026-03-16T09:00+00:00").timestamp()
STRANGER = "shop <!channel> *x* [me](https://evil.example) @here"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Steps:
    """The sender's sleeps: each waits for the test, which moves the clock meanwhile."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await anyio.sleep(0.001)


async def read(request: DigestRequest) -> Digest:
    """Read a digest in a thread: the process of its own is started by the tests of the whole monitor."""
    return await anyio.to_thread.run_sync(build_digest, request)


class Place:
    """A folder with a history, the clock, and what outlives a process."""

    def __init__(self, folder: Path, there: Receiver, *, every: str = "monday 09:00", zone: str = "UTC") -> None:
        with closing(create(folder / files.HISTORY)) as db:
            bad = [judged(one, 1.0, app=STRANGER, evaluated_at=MONDAY - DAY) for one in range(30)]
            insert(db, bad, texts=False)
        self.folder, self.kept, self.clock = folder, RememberedState(), ManualClock(MONDAY - 3600)
        self.config: Config = config.parse(
            {
                "storage": {"path": str(folder)},
                "notify": [
                    {"type": "slack", "url": f"{there.address}/slack", "timeout": "60s"},
                    {"type": "webhook", "url": f"{there.address}/hook", "timeout": "60s"},
                ],
                "digest": {"every": every, "to": ["slack", "webhook"], "timezone": zone},
            }
        )
        self.lent = runtime(self.clock, self.kept)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Runtime]:
        """A monitor from its start to its end."""
        self.lent = runtime(self.clock, self.kept)
        steps = Steps()
        sender = DigestSender(self.config, self.lent, read=read)
        work: Callable[[], Awaitable[None]] = lambda: sender.run(steps.sleep)  # noqa: E731
        async with running(work):
            await until(lambda: len(steps.asked) >= 2)
            yield self.lent
        self.kept.ended()

    def counted(self, outcome: str, name: str = "slack") -> float:
        labels = {"receiver": name, "outcome": outcome}
        return self.lent.metrics.registry.get_sample_value("ragmonitor_digests_total", labels) or 0.0

    async def sent(self, number: int) -> None:
        await until(lambda: self.counted("sent") + self.counted("sent", "webhook") == number)


def bodies(there: Receiver, path: str) -> list[Any]:
    return [body for line, _, body in there.posts if f"/{path}" in line]


async def idle(place: Place) -> None:
    """Start it once more, and see that nothing is sent."""
    async with place.process():
        pass
    assert place.counted("sent") == place.counted("failed") == place.counted("missed") == 0


async def test_each_receiver_gets_one_digest_at_the_due_time(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        async with place.process():
            assert not there.posts
            place.clock.advance(3600)
            await place.sent(2)
            place.clock.advance(3 * DAY)
        await idle(place)
    (chat,), (hook,) = bodies(there, "slack"), bodies(there, "hook")
    assert hook["digest"]["until"] == MONDAY
    assert hook["digest"]["since"] == MONDAY - WEEK
    assert hook["digest"]["rates"][0]["app"] == STRANGER
    assert "100 % (" in chat["text"]


async def test_no_name_of_a_stranger_can_call_link_or_format_in_a_chat(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
    (chat,) = bodies(there, "slack")
    shown = [chat["text"], *(block["text"]["text"] for block in chat["blocks"])]
    assert all(block["text"]["type"] == "plain_text" for block in chat["blocks"])
    assert "shop &lt;!channel&gt;" in chat["text"]
    assert not [text for text in shown if "<" in text or "@here" in text or "https://" in text or "[" in text]
    assert max(map(len, shown)) <= 3000
    (hook,) = bodies(there, "hook")
    assert "@here" not in hook["text"]


async def test_a_restart_sends_nothing_again(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
        for _ in range(3):
            place.clock.advance(600)
            await idle(place)
        assert len(there.posts) == 2


async def test_a_digest_that_was_due_while_nothing_ran_is_sent_at_start(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        await idle(place)
        place.clock.advance(3600 + LATE_AT_MOST - 60)
        async with place.process():
            await place.sent(2)
    assert bodies(there, "hook")[0]["digest"]["until"] == MONDAY


async def test_one_that_is_more_than_a_day_late_is_counted_as_missed_and_the_next_is_sent(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        await idle(place)
        place.clock.advance(3600 + LATE_AT_MOST + 60)
        async with place.process():
            await until(lambda: place.counted("missed") == place.counted("missed", "webhook") == 1)
            assert not there.posts
            place.clock.advance(WEEK - LATE_AT_MOST)
            await place.sent(2)
    assert bodies(there, "hook")[0]["digest"]["until"] == MONDAY + WEEK


async def test_a_first_start_sends_nothing_that_was_due_before(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        place.clock.advance(7200)
        await idle(place)
        assert not there.posts


async def test_another_schedule_sends_nothing_that_was_due_before(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
        later = Place(tmp_path, there, every="monday 10:00")
        later.kept, later.clock = place.kept, place.clock
        later.clock.advance(7200)
        await idle(later)


async def test_what_is_refused_is_sent_again_to_that_receiver_alone(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        there.answers = [answer("500 No")] * 5
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
            failed = place.counted("failed") + place.counted("failed", "webhook")
        assert failed == 5
        await idle(place)
    assert len(there.posts) == 7


async def test_a_history_that_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        path = tmp_path / files.HISTORY
        path.rename(tmp_path / "aside.db")
        async with place.process():
            place.clock.advance(3600)
            await until(lambda: place.counted("failed") >= 1)
            (tmp_path / "aside.db").rename(path)
            await place.sent(2)


async def test_clocks_that_are_set_back_an_hour_send_no_second_one(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
            place.clock.jump(-3600)
            place.clock.advance(7200)
        await idle(place)
    assert len(there.posts) == 2


async def test_a_clock_that_was_years_ahead_stops_no_later_digest(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there)
        place.clock.jump(100 * WEEK)
        async with place.process():
            pass
        place.clock.jump(-100 * WEEK)
        async with place.process():
            place.clock.advance(3600)
            await place.sent(2)
    assert len(there.posts) == 2


async def test_daily_digests_cover_the_day_that_summer_time_makes_shorter(tmp_path: Path) -> None:
    async with receiver() as there:
        place = Place(tmp_path, there, every="daily 09:00", zone="Europe/Berlin")
        place.clock.jump(datetime.fromisoformat("2026-03-29T05:00+00:00").timestamp() - place.clock.now())
        async with place.process():
            place.clock.advance(7200)
            await place.sent(2)
            place.clock.advance(DAY)
            await place.sent(4)
    first, second = (body["digest"] for body in bodies(there, "hook"))
    assert first["until"] - first["since"] == 23 * 3600
    assert second["since"] == first["until"]
    assert second["until"] - second["since"] == DAY


async def test_without_the_section_nothing_runs(tmp_path: Path) -> None:
    made = config.parse({"storage": {"path": str(tmp_path)}})
    await DigestSender(made, runtime()).run()
