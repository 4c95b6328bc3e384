"""The listening servers of the process. They keep listening during a reload, while the application behind them changes.

A request that arrives meanwhile waits for the application of the new configuration, or is asked to retry later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import anyio

App = TypeVar("App")

_LONGEST_WAIT: Final = 8.0
"""The longest that a request waits, in seconds: senders give up after ten."""
_MOST_WAITING: Final = 128
"""Requests that may wait at one server; each may buffer 256 KiB of its body."""
_GRACE: Final = 1.0
"""Seconds that requests in progress have to finish."""


class Door(Generic[App]):
    """One server.

    `app` answers its requests (None while there is no application); `running` are the tasks of these requests. Those in
    `cut` were cancelled because they took too long: their senders still get an answer.
    """

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.app: App | None = None
        self.address = ""
        self.running: set[asyncio.Task[object]] = set()
        self.cut: set[asyncio.Task[object]] = set()
        self._opened = anyio.Event()
        self._waiting = 0
        self._server: asyncio.Task[None] | None = None

    def open(self, app: App) -> None:
        """Let `app` answer requests, including those that are waiting."""
        self.app = app
        self._opened.set()

    async def wait(self) -> App | None:
        """Return the application after the reload; None if it takes too long or never comes, or if too many wait."""
        if self._waiting >= _MOST_WAITING:
            return None
        self._waiting += 1
        try:
            with anyio.move_on_after(_LONGEST_WAIT):
                await self._opened.wait()
            return self.app
        finally:
            self._waiting -= 1

    def refuse(self) -> None:
        """Release all waiting requests: there is no reload to wait for."""
        self._opened.set()

    async def close(self) -> None:
        """Make new requests wait, and end those in progress: they get a second, then they are cancelled."""
        self.app, self._opened = None, anyio.Event()
        if self.running:
            await asyncio.wait(self.running, timeout=_GRACE)
        if self.running:
            self.cut = set(self.running)
            for task in self.cut:
                task.cancel()
            await asyncio.wait(self.cut, timeout=_GRACE)
            self.cut = set()

    async def start(self, server: Callable[[Door[App], Callable[[str], None]], Awaitable[None]]) -> None:
        """Run the server; returns when it listens. Raises any error that the server raises before that."""
        listens = asyncio.get_running_loop().create_future()

        def listening(address: str) -> None:
            self.address = address
            listens.set_result(None)

        async def run() -> None:
            await server(self, listening)

        self._server = asyncio.create_task(run())
        try:
            await asyncio.wait((self._server, listens), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not listens.done():
                await self.stop()
        if not listens.done():
            self._server.result()

    async def stop(self) -> None:
        """Stop the server, which gives requests in progress a moment to finish."""
        if self._server is not None:
            self._server.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((self._server,))

    @property
    def alive(self) -> bool:
        """Whether the server is running."""
        return self._server is not None and not self._server.done()

    async def ended(self) -> None:
        """Wait for the server, which ends only with an error, and raise that error."""
        assert self._server is not None  # noqa: S101 - it has been started
        await asyncio.shield(self._server)


class Doors:
    """All servers of the process. While `keep` is set, as during a reload, they outlive the application they serve."""

    def __init__(self) -> None:
        self.keep = False
        self._doors: list[Door[object]] = []

    async def serve(
        self,
        key: Hashable,
        app: App,
        server: Callable[[Door[App], Callable[[str], None]], Awaitable[None]],
        listening: Callable[[str], None],
    ) -> None:
        """Let `app` answer on the server that was kept under `key`, else on a new one, until cancelled.

        `server` runs a new server and passes its address to its second argument. `listening` is called with the
        address, of a kept server too. Raises whatever `server` raises.
        """
        door = next((one for one in self._doors if one.key == key and one.app is None), None)
        if door is None:
            door = Door(key)
            await door.start(server)  # type: ignore[arg-type] # a door of this app
            self._doors.append(door)
        door.open(app)
        try:
            listening(door.address)
            await door.ended()
        finally:
            with anyio.CancelScope(shield=True):
                if self.keep and door.alive:
                    await door.close()
                else:
                    self._doors.remove(door)
                    await door.stop()

    def let_go(self) -> None:
        """Exempt the request in this task from a reload: the reload does not wait for it or cancel it."""
        task = asyncio.current_task()
        for door in self._doors:
            door.running.discard(task)

    def keep_none(self) -> None:
        """Let each server end with its application, because the process is ending. Refuse waiting requests at once."""
        self.keep = False
        for door in self._doors:
            door.refuse()

    async def close(self) -> None:
        """Stop all remaining servers."""
        for door in self._doors:
            await door.stop()
        self._doors.clear()
