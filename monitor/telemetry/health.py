"""Health (the process works), readiness (it accepts traffic now), and the addresses it listens on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from monitor.telemetry.events import Event


class Health:
    """The state behind `/-/healthy` and `/-/ready`. Parts that must be up before traffic is accepted register first."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        self._explained: dict[str, str] = {}
        self._stopping = False
        self.addresses: dict[str, str] = {}
        """The address of each listener, such as `otlp_http: 127.0.0.1:4318`, once it listens."""
        self.short_of_memory = ""
        """Why no more data should be received, because memory is short; empty if it is not."""
        self.arrives: Callable[[], None] = lambda: None
        """Called when data is about to be received: memory is checked more often from then on."""
        self.refusing: Callable[[], str] = str
        """Returns why receivers currently refuse new data; empty if they accept it."""
        self.repaired: dict[str, str] = {}
        """How each database damaged since the start was repaired, by its name."""

    def on_event(self, _level: int, event: Event, message: str, fields: Mapping[str, object]) -> None:
        """Record repairs of databases, for the UI."""
        if event is Event.DATABASE_DAMAGED:
            self.repaired[str(fields.get("database"))] = f"{message}: {fields.get('aside')}"

    def expect(self, part: str, why: str = "starting") -> None:
        """Report not ready, for the given reason, until `part` calls `up`."""
        self._waiting[part] = why

    def up(self, part: str) -> None:
        """Record that `part` works (again)."""
        self._waiting.pop(part, None)

    def explain(self, subject: str, why: str) -> None:
        """Set the reason why `subject` does not come up; an empty text removes it. Shown while any part is not up."""
        if why:
            self._explained[subject] = why
        else:
            self._explained.pop(subject, None)

    def stopping(self) -> None:
        """Report not ready because the process is draining. It stays healthy."""
        self._stopping = True

    @property
    def ready(self) -> bool:
        """Whether traffic is accepted."""
        return not self._waiting and not self._stopping

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not ready: `part: why`, in the order of registration, then the reasons set by `explain`."""
        told = {**self._waiting, **self._explained} if self._waiting else {}
        waiting = tuple(f"{part}: {why}" for part, why in told.items())
        return (*waiting, "stopping") if self._stopping else waiting
