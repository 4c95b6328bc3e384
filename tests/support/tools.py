"""Real programs for the tests: found, or the test says why it cannot run (and fails in CI)."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from typing import NoReturn

import pytest


def unavailable(what: str) -> NoReturn:
    """The test needs a real program that is not here: skip, saying so; fail under CI, where it must be."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed, and CI must run this test", pytrace=False)
    pytest.skip(f"{what} is not installed")


def require(program: str, package: str = "") -> str:
    """The path of `program`, which the Debian package `package` brings."""
    found = shutil.which(program)
    if found is None:
        unavailable(f"{program}" + (f" (apt-get install {package})" if package else ""))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], object], seconds: float = 10.0, what: str = "the condition") -> object:
    """Poll until `condition` is truthy; its value. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not come about within {seconds} s")
