"""The audit log: who read, exported or erased texts of the traffic, labelled answers or wrote notes; one line each.

The running monitor and the commands write to the same file in the storage folder. Lines hold no text of the traffic.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from monitor.clock import Clock, SystemClock
from monitor.privacy.private_file import open_private
from monitor.telemetry.events import Event, Events

NAME: Final = "audit.jsonl"
AT_MOST: Final = 16 * 1024**2
"""Maximum size of the file in bytes. Beyond that it is renamed to `audit.1.jsonl`, replacing the previous one."""

AUDITED: Final = frozenset(
    {Event.TEXTS_VIEWED, Event.TEXTS_EXPORTED, Event.TEXTS_TRIED, Event.TEXTS_FORGOTTEN, Event.INCIDENT_NOTED}
) | {Event.REVIEWER_SIGNED_IN, Event.REVIEWER_REFUSED, Event.ANSWER_LABELLED}
_SAY_AGAIN: Final = 300.0


class Audit:
    """The audit log in `folder`."""

    def __init__(self, folder: Path, clock: Clock, events: Events | None = None) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._events = events
        self._lock = threading.Lock()
        self._said = float("-inf")

    def on_event(self, level: int, event: Event, message: str, fields: Mapping[str, object]) -> None:  # noqa: ARG002 - see `EventListener`
        """Write an audited event, for `Events.also`. A failure is logged, at most once every five minutes."""
        if event not in AUDITED:
            return
        try:
            self.write(event, **fields)
        except OSError as error:
            now = self._clock.monotonic()
            if self._events is not None and now - self._said >= _SAY_AGAIN:
                self._said = now
                why = error.strerror or error
                self._events.error(
                    Event.AUDIT_FAILED, f"cannot write {self._path}, this entry is only in the log: {why}"
                )

    def write(self, event: Event, **fields: object) -> None:
        """Write a line. Raises `OSError`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.now()))
        line = json.dumps({"time": at, "event": event.value, **fields}, ensure_ascii=True, default=str) + "\n"
        with self._lock:
            descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                if os.fstat(descriptor).st_size + len(line) > AT_MOST:
                    self._path.replace(self._path.with_name("audit.1.jsonl"))
                    os.close(descriptor)
                    descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND)
                os.write(descriptor, line.encode("ascii"))
            finally:
                os.close(descriptor)


def record(folder: Path, event: Event, **fields: object) -> None:
    """Write a line for a command, with the user who ran it. Logs a warning if the file cannot be written."""
    try:
        Audit(folder, SystemClock()).write(event, who=f"user {caller()}", **fields)
    except OSError as error:
        logging.getLogger("monitor").warning("%s cannot be written: %s", folder / NAME, error.strerror or error)


def caller() -> str:
    """Return the name of the user who runs this command, or the user id if there is no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
