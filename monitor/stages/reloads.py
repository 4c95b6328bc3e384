"""Reloads of the configuration of a running monitor: requests, reports, and state that is carried over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The outcome of one reload, which ended at the wall-clock second `at`.

    `by` is what requested it. `text` says in full sentences what has changed, or why nothing has. `changed` are the
    places in the file, such as `alerts[0].warning`.
    """

    at: float
    by: str
    ok: bool
    text: str
    changed: Sequence[str] = ()


class Carried:
    """In-memory state that parts of a monitor hand to their successors at a reload. `before` is what they received.

    It is for state that a restart may lose: that a receiver was told about an alert, since when an alert has fired.
    """

    def __init__(self, before: Mapping[str, object] | None = None) -> None:
        self._before = dict(before or {})
        self._left: dict[str, object] = {}
        self._names: set[str] = set()

    def own(self, name: str) -> str:
        """Return a name that no other part gets until the next reload: `name` or, if it is taken, `name 2` etc."""
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name} {number}"
        self._names.add(found)
        return found

    def take(self, name: str, kind: type[T]) -> T | None:
        """Return the state left under `name`; None if there is none."""
        found = self._before.get(name)
        return found if isinstance(found, kind) else None

    def leave(self, name: str, value: object) -> None:
        """Leave `value` for the next part of that name; it may keep changing until then."""
        self._left[name] = value

    def next(self, *, failed: bool) -> Carried:
        """Return the state for the next parts; if these parts `failed`, with old state that they have not replaced."""
        return Carried({**self._before, **self._left} if failed else self._left)


class Reloads:
    """The reloads of one process. This class has no file to reload: the configuration never changes."""

    over_http = False
    """Whether `POST /-/reload` is on."""
    last: ReloadReport | None = None
    """The last reload that changed something or failed; None if there was none since the process started."""
    in_use: ReloadReport | None = None
    """The reload that brought the configuration in use; None if it has been in use since the start."""

    def why_failed(self) -> str:
        """Return why the last reload failed; empty if it did not."""
        return self.last.text if self.last is not None and not self.last.ok else ""

    async def request(self, by: str) -> ReloadReport:
        """Reload, once the reloads requested earlier have ended. Never raises."""
        return ReloadReport(0.0, by, ok=False, text="This monitor runs without a configuration file.")
