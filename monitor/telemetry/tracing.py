"""The monitor's own work as spans. This tracer, the default, records nothing and costs next to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

Fact: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["internal", "server", "client"]

NO_FACTS: Final[Mapping[str, Fact]] = {}


class Work:
    """A unit of work that is not recorded. Work done inside its `with` is part of it."""

    recorded: bool = False
    """Whether it is recorded. If not, there is no need to gather attributes."""

    def set(self, facts: Mapping[str, Fact]) -> None:
        """Add attributes: names and figures. Never text from the traffic, never a secret."""

    def fail(self, why: str) -> None:
        """Mark it as failed. `why` is a word such as `timeout`."""

    def about(self, trace_id: str, span_id: str) -> None:
        """Link it to a span of a service, by hexadecimal ids."""

    def end(self) -> None:
        """End it. Only for work of `Tracer.begin`; other work ends with its `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Mark it as failed if an exception leaves the `with`."""


NOTHING: Final = Work()


class Tracer:
    """Records nothing."""

    def begin(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """Begin a root span that lasts until its `end`, in any task. Recorded if it is sampled."""
        return NOTHING

    def whole(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """Begin a root span that ends with its `with`."""
        return NOTHING

    def part(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """Begin a child of the current work that ends with its `with`. Recorded if its parent is."""
        return NOTHING
