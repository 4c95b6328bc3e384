"""A system memory limit for a process: a control group, if the machine allows one."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import Self

_number = itertools.count()


class ControlGroup:
    """A separate memory control group, version 1 or 2; `made` is False if the machine allows none."""

    def __init__(self, limit: int) -> None:
        self.made = False
        self._path = Path()
        for parent, name in ((self._own(1), "memory.limit_in_bytes"), (self._own(2), "memory.max")):
            if parent is None:
                continue
            self._path = parent / f"rag-monitor-{os.getpid()}-{next(_number)}"
            with contextlib.suppress(OSError):
                self._path.mkdir()
                (self._path / name).write_text(str(limit))
                self.made = True
                return

    @staticmethod
    def _own(version: int) -> Path | None:
        top = Path("/sys/fs/cgroup")
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if version == 1 and "memory" in controllers.split(","):
                return top / "memory" / path.lstrip("/")
            if version == 2 and number == "0" and (top / "cgroup.controllers").exists():
                return top / path.lstrip("/")
        return None

    def around(self, command: list[str]) -> list[str]:
        """Return the command that runs `command` in the group, or without a limit if there is no group."""
        if not self.made:
            return command
        return ["sh", "-c", f'echo $$ > {self._path}/cgroup.procs && exec "$@"', "sh", *command]

    def killed(self) -> int:
        """Return how many processes the system has killed because the group was full."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                lines = (self._path / name).read_text().splitlines() if self.made else []
                found = dict(line.split() for line in lines)
                return int(found.get("oom_kill", 0))
        return 0

    def remove(self) -> None:
        """Remove the group; all its processes have ended."""
        if self.made:
            with contextlib.suppress(OSError):
                self._path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
