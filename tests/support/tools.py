"""Real programs for the tests: either they are found, or the test says why it cannot run (and fails in CI)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import NoReturn
from urllib.error import HTTPError

import anyio
import pytest


def unavailable(what: str) -> NoReturn:
    """Skip a test whose real program is missing, saying so; fail in CI, where it must be present."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed, and CI must run this test", pytrace=False)
    pytest.skip(f"{what} is not installed")


quick = False
"""Whether this is `make test`, which should take only a few minutes."""


def not_in_quick(what: str) -> None:
    """Skip a long test if this is `make test`."""
    if quick:
        pytest.skip(what)


def require(program: str, package: str = "") -> str:
    """Return the path of `program`, which is in the Debian package `package`."""
    found = shutil.which(program)
    if found is None:
        unavailable(f"{program}" + (f" (apt-get install {package})" if package else ""))
    return found


def free_port() -> int:
    """Return a loopback port that is free now and that nobody else will take before it is used.

    It is below the system's ephemeral ports (a client that repeatedly dials an ephemeral port on which nobody listens
    would in the end be given this very port, and reach itself). Each process of a test run has its own range.
    """
    for _ in range(_PORTS):
        port = _first_port() + next(_turn) % _PORTS
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("no port is free")


_PORTS = 2_000
_turn = itertools.count(random.randrange(_PORTS))  # parallel runs start elsewhere


def _first_port() -> int:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    number = int(worker) % 8 + 1 if worker else 0
    return 12_000 + number * _PORTS


PATIENCE = float(os.environ.get("RAG_MONITOR_TEST_PATIENCE", "6"))
"""Factor for the time limits of the tests, which are what a quiet machine needs: a busy one needs more."""


def wait_until(condition: Callable[[], object], seconds: float = 10.0, what: str = "the condition") -> object:
    """Poll until `condition` is truthy; return its value. Fails after `seconds` times `PATIENCE`, at least a minute.

    Reading a whole page of metrics can cost as much as the awaited work: after the first moments polls are rarer.

    A condition may use things that do not exist yet: a refused connection, half a file, an empty reply, a missing key
    or item mean "not yet". An `AssertionError` means "never" and ends the wait.
    """
    began = time.monotonic()
    deadline = began + max(seconds, 10.0) * PATIENCE
    last = ""
    while True:
        try:
            value = condition()
        except (OSError, HTTPException, ValueError, LookupError, sqlite3.OperationalError) as error:
            # As text: a stored error would keep this frame, and with it a socket, until garbage is collected.
            value, last = None, f"; last: {error!r}"
            if isinstance(error, HTTPError):
                error.close()
        if value:
            return value
        now = time.monotonic()
        if now >= deadline:
            break
        time.sleep(min(max((now - began) / 10, 0.02), 0.25))
    pytest.fail(f"{what} did not come about within {seconds * PATIENCE:g} s{last}")


async def until(condition: Callable[[], object], what: str = "the condition", seconds: float = 30.0) -> None:
    """Wait in the event loop for a condition without an event. Fails after `seconds` times `PATIENCE` of loop time."""
    with anyio.move_on_after(seconds * PATIENCE):
        while not condition():  # noqa: ASYNC110 - a thread, a broker or a log tells of it
            await anyio.sleep(0.005)
        return
    pytest.fail(f"{what} did not come about within {seconds * PATIENCE:g} s")


@contextlib.contextmanager
def leading_to(monkeypatch: pytest.MonkeyPatch, address: str) -> Iterator[None]:
    """Resolve every host name to `address`, like a resolver controlled by an attacker."""

    def resolve(_host: object, port: object, *_args: object, **_more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolve)
        yield
