"""A TCP proxy that treats connections like a bad network: it resets them, cuts them and slows them down."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_PIECE = 4096


@dataclass(frozen=True)
class Trouble:
    """The fate of one connection. `after` counts the client's bytes that reach the server before it ends.

    `reset` sends RST; otherwise it is closed in order. `rate` is in bytes a second, both ways; None means unlimited.
    """

    after: int | None = None
    reset: bool = True
    rate: float | None = None


class Proxy:
    """Listens on a port of 127.0.0.1 and passes each connection on to `port`, with the trouble from `script`.

    `script` is called with the number of the connection, counted from 0; None means no trouble.
    """

    def __init__(self, port: int, script: Callable[[int], Trouble | None]) -> None:
        self._target = port
        self._script = script
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._open: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.ended_early = 0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _close(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        trouble = self._script(self.connections) or Trouble()
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        answers = asyncio.create_task(self._pass(there, writer, trouble.rate, None))
        try:
            if await self._pass(reader, back, trouble.rate, trouble.after):
                self.ended_early += 1
                if trouble.reset:
                    for one in (writer, back):
                        one.get_extra_info("socket").setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
            else:
                with suppress(OSError):
                    back.write_eof()
                await answers
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for one in (writer, back):
                one.close()
            self._open.discard(task)

    @staticmethod
    async def _pass(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float | None, at_most: int | None
    ) -> bool:
        """Pass on incoming bytes. Return whether it was ended after `at_most` bytes."""
        passed = 0
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                if at_most is not None and passed + len(data) > at_most:
                    writer.write(data[: at_most - passed])
                    await writer.drain()
                    return True
                passed += len(data)
                writer.write(data)
                await writer.drain()
                if rate is not None:
                    await asyncio.sleep(len(data) / rate)
        return False
