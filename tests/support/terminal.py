"""A pseudo-terminal: the output of a command on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from types import TracebackType
from typing import Any, Self

from tests.support.command import start


class Terminal:
    """A terminal of `columns` by `lines`; `start` runs a `rag-monitor` command whose named streams it is."""

    def __init__(self, columns: int = 100, lines: int = 30) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._drawn = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def drawn(self) -> str:
        """Return all output so far, including escape sequences."""
        return bytes(self._drawn).decode("utf-8", "replace")

    def shell(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start an interactive shell on this terminal; typed text goes to it."""

        def take_the_terminal() -> None:
            os.setsid()
            fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)

        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), self._theirs)
        env = {**os.environ, "TERM": "xterm", **environment}
        return subprocess.Popen(arguments, env=env, preexec_fn=take_the_terminal, **streams)  # noqa: PLW1509

    def press(self, text: str) -> None:
        """Type a text, like a person."""
        os.write(self._ours, text.encode())

    def start(self, *arguments: object, streams: tuple[str, ...], **environment: str) -> subprocess.Popen[str]:
        # The environment of the tests must not affect the output.
        outer = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        inherited = {name: value for name, value in os.environ.items() if name not in outer}
        env = {**inherited, "TERM": "xterm-256color", **environment}
        given: dict[str, Any] = dict.fromkeys(streams, self._theirs)
        return start(*arguments, env=env, **given)

    def _read(self) -> None:
        while True:
            try:
                found = os.read(self._ours, 65_536)
            except OSError:  # the other end is closed
                return
            if not found:
                return
            self._drawn += found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Wait until all output has been read."""
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1
            self._reader.join(60)
            os.close(self._ours)
