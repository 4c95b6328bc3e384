"""The monitor's own work as spans. Here nothing is recorded, which is the default and costs next to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

Fact: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["internal", "server", "client"]

NO_FACTS: Final[Mapping[str, Fact]] = {}


class Work:
    """A piece of work that is not recorded. Within its `with` what is done is a part of it."""

    recorded: bool = False
    """Whether anybody will see it: if not, there is no need to gather facts."""

    def set(self, facts: Mapping[str, Fact]) -> None:
        """What came of it: names and figures. Never text of the traffic, never a secret."""

    def fail(self, why: str) -> None:
        """It came to nothing; `why` is a word such as `timeout`."""

    def about(self, trace_id: str, span_id: str) -> None:
        """It is about that span of a service, both ids in hexadecimal."""

    def end(self) -> None:
        """It is done. Only work of `Tracer.begin` is ended so; any other ends with its `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An exception that is not caught within has failed it."""


NOTHING: Final = Work()


class Tracer:
    """Records nothing."""

    def begin(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """Work that is no part of any other, from now until its `end`, in whatever task that is; if it is sampled."""
        return NOTHING

    def whole(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """The same, but it ends when its `with` is left."""
        return NOTHING

    def part(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:  # noqa: ARG002
        """A part of what is being done here, from now until its `with` is left; recorded if that is."""
        return NOTHING
