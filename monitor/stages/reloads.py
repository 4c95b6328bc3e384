"""What a running monitor lends to those that ask for a reload of its configuration, or show the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """How one reload ended, at the wall-clock second `at`.

    `by` is what asked for it. `text` says in full sentences what has changed, or why nothing has. `changed` are the
    places in the file, such as `alerts[0].warning`.
    """

    at: float
    by: str
    ok: bool
    text: str
    changed: Sequence[str] = ()


class Carried:
    """What parts of a monitor leave to those that take their place at a reload, in memory. `before` is what they get.

    It is for what a restart may forget: that a receiver knows of an alert, since when one fires.
    """

    def __init__(self, before: Mapping[str, object] | None = None) -> None:
        self._before = dict(before or {})
        self._left: dict[str, object] = {}
        self._names: set[str] = set()

    def own(self, name: str) -> str:
        """Return `name` for one part alone: a second part of this life that asks for it gets `name 2`."""
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name} {number}"
        self._names.add(found)
        return found

    def take(self, name: str, kind: type[T]) -> T | None:
        """Return what was left under `name`; None if nothing was."""
        found = self._before.get(name)
        return found if isinstance(found, kind) else None

    def leave(self, name: str, value: object) -> None:
        """Leave `value` to what comes next; it may go on changing until then."""
        self._left[name] = value

    def next(self, *, failed: bool) -> Carried:
        """Return what the next parts get. After parts that have `failed`, also what these did not come to replace."""
        return Carried({**self._before, **self._left} if failed else self._left)


class Reloads:
    """The reloads of one process. This one has no file: the configuration stays as it is."""

    over_http = False
    """Whether `POST /-/reload` is on."""
    last: ReloadReport | None = None
    """The last reload that changed something or failed; None: there was none since the process began."""
    in_use: ReloadReport | None = None
    """The reload that the configuration in use came with; None: it is that of the start."""

    def why_failed(self) -> str:
        """Return why the last reload failed; empty if it did not."""
        return self.last.text if self.last is not None and not self.last.ok else ""

    async def request(self, by: str) -> ReloadReport:
        """Reload, once those that were asked for before have ended. Never raises."""
        return ReloadReport(0.0, by, ok=False, text="This monitor runs without a configuration file.")
