"""How an operation reports its progress to its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

Report = Callable[[str], object]
"""Called with one sentence about something that was skipped or could not be read."""


def ignore(_message: str) -> None:
    """Drop the message: a `Report` that reports nothing."""


class Progress(Protocol):
    """Shows the progress of an operation. Each method provides a function to call as the work advances."""

    def reading(self, paths: Iterable[Path]) -> AbstractContextManager[Callable[[int], object]]:
        """Begin to read `paths`, files or folders; the function takes the number of bytes read since its last call."""
        ...

    def steps(self, total: int, name: str) -> AbstractContextManager[Callable[[], object]]:
        """Begin `total` equal steps under `name`; the function is called after each step."""
        ...


class NoProgress:
    """Shows nothing."""

    def reading(self, paths: Iterable[Path]) -> AbstractContextManager[Callable[[int], object]]:  # noqa: ARG002
        """Ignore the bytes."""
        return nullcontext(lambda _bytes: None)

    def steps(self, total: int, name: str) -> AbstractContextManager[Callable[[], object]]:  # noqa: ARG002
        """Ignore the steps."""
        return nullcontext(lambda: None)


NO_PROGRESS = NoProgress()
