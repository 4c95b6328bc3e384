"""Listening servers that outlive what they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from monitor.errors import ConfigError
from monitor.stages import doors as module
from monitor.stages.doors import Door, Doors

pytestmark = pytest.mark.anyio


class Server:
    """A server that does nothing but listen; `starts` counts how often it began, `ended` how often it stopped."""

    def __init__(self) -> None:
        self.starts = self.ended = 0
        self.doors: list[Door[str]] = []

    async def __call__(self, door: Door[str], listening: Callable[[str], None]) -> None:
        self.starts += 1
        self.doors.append(door)
        listening("127.0.0.1:1")
        try:
            await anyio.sleep_forever()
        finally:
            self.ended += 1


async def serving(doors: Doors, app: str, server: Server, while_it_serves: Callable[[], object] = lambda: None) -> None:
    up = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(doors.serve, "http", app, server, lambda _: up.set())
        await up.wait()
        while_it_serves()
        tasks.cancel_scope.cancel()


async def test_a_server_that_is_kept_serves_the_next_application() -> None:
    doors, server = Doors(), Server()
    doors.keep = True
    await serving(doors, "first", server)
    await serving(doors, "second", server, lambda: server.doors[0].app == "second" or pytest.fail("not exchanged"))
    assert (server.starts, server.ended) == (1, 0)
    doors.keep = False
    await serving(doors, "third", server)
    assert (server.starts, server.ended) == (1, 1)


async def test_what_is_left_is_stopped_at_the_end() -> None:
    doors, server = Doors(), Server()
    doors.keep = True
    await serving(doors, "first", server)
    await doors.close()
    assert server.ended == 1


async def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    async def taken(_door: Door[str], _listening: Callable[[str], None]) -> None:
        raise ConfigError("port: in use")

    with pytest.raises(ConfigError, match="in use"):
        await Doors().serve("http", "app", taken, lambda _: None)


async def test_a_request_that_comes_in_between_waits_for_the_next_application() -> None:
    doors, server = Doors(), Server()
    doors.keep = True
    await serving(doors, "first", server)
    door = server.doors[0]
    assert door.app is None
    waiting = asyncio.create_task(door.wait())
    await asyncio.sleep(0)
    await serving(doors, "second", server)
    assert await waiting in ("second", None)  # the second may be gone again by the time that it looks


async def test_requests_that_wait_when_the_process_is_to_end_are_refused_at_once() -> None:
    doors, server = Doors(), Server()
    doors.keep = True
    await serving(doors, "first", server)
    waiting = asyncio.create_task(server.doors[0].wait())
    await asyncio.sleep(0)
    doors.keep_none()
    assert await waiting is None
    assert await server.doors[0].wait() is None, "nor do later ones wait"
    await doors.close()


async def test_only_so_many_requests_wait_and_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 1)
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.01)
    door: Door[str] = Door("http")
    first = asyncio.create_task(door.wait())
    await asyncio.sleep(0)
    assert await door.wait() is None, "one waits already"
    assert await first is None, "nothing came"


async def test_running_requests_end_first_and_those_that_last_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE", 0.05)
    door: Door[str] = Door("http")
    door.open("app")
    ends: list[str] = []

    async def request(name: str, lasts: anyio.Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        door.running.add(task)
        try:
            await lasts.wait()
            ends.append(f"{name} ended")
        except asyncio.CancelledError:
            assert task in door.cut
            ends.append(f"{name} cut off")
        finally:
            door.running.discard(task)

    short, long = anyio.Event(), anyio.Event()
    tasks = [asyncio.create_task(request("short", short)), asyncio.create_task(request("long", long))]
    await asyncio.sleep(0)
    short.set()
    await door.close()
    assert sorted(ends) == ["long cut off", "short ended"]
    assert not door.running
    await asyncio.gather(*tasks)
