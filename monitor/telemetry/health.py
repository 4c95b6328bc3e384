"""Healthy: the process works. Ready: it takes traffic now. And where it listens."""

from __future__ import annotations


class Health:
    """What `/-/healthy` and `/-/ready` answer. Parts that must be up before traffic is welcome say so first."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        self._stopping = False
        self.addresses: dict[str, str] = {}
        """Where each listener is, such as `otlp_http: 127.0.0.1:4318`, once it listens."""

    def expect(self, part: str, why: str = "starting") -> None:
        """Not ready until `part` has called `up`, for the reason given."""
        self._waiting[part] = why

    def up(self, part: str) -> None:
        """`part` works (again)."""
        self._waiting.pop(part, None)

    def stopping(self) -> None:
        """The process drains: healthy, but not ready."""
        self._stopping = True

    @property
    def ready(self) -> bool:
        """Whether traffic is welcome."""
        return not self._waiting and not self._stopping

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not ready: `part: why`, in the order of naming."""
        waiting = tuple(f"{part}: {why}" for part, why in self._waiting.items())
        return (*waiting, "stopping") if self._stopping else waiting
