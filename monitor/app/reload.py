"""Decides when to reload the configuration, and whether it is possible: on SIGHUP, on request, when the file changes.

A reload reads and checks the whole file while the monitor keeps running. Then the current life ends and the next
begins; if that fails before it listens, the previous configuration is started again.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from monitor.config import Config, Loaded
from monitor.config import limits as memory_limits
from monitor.config.changes import changes, fingerprint, needing_restart
from monitor.errors import ConfigError, MonitorError
from monitor.errors.explanation import placed
from monitor.jobs.canary import load as load_canary
from monitor.operations.check import warnings
from monitor.operations.event_loop import first_error
from monitor.stages import Runtime
from monitor.stages.reloads import ReloadReport, Reloads
from monitor.telemetry import logs
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import Metrics

_LOOK_EVERY: Final = 1.0  # seconds: reading a small file costs a tenth of a millisecond
_LISTENING: Final = 5.0
"""Seconds after which a life counts as up even if a source does not listen yet, such as one that cannot reach Kafka."""
_log = logging.getLogger(__name__)


class Ending:
    """How and when a life must end."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.reloads = False
        """Whether another life follows."""

    def stop(self, *, reload: bool = False) -> None:
        """End the life. Once it must end for good, a reload no longer changes that."""
        self.reloads = reload and not self.asked.is_set()
        self.asked.set()


class _Reload(NamedTuple):
    """A reload in progress: what triggered it, and what differs."""

    by: str
    changed: Sequence[str]


class Reloader(Reloads):
    """The reloads of one process, which runs `loaded` from the file at `path`; None: there is no file."""

    def __init__(self, path: Path | None, loaded: Loaded) -> None:
        self.over_http = loaded.config.reload.http
        self._path = path
        self._loaded = loaded
        self._before: Loaded | None = None
        """The configuration to return to if the next one fails; None once that listens."""
        self._turn = anyio.Lock()
        self._up = anyio.Event()
        self._next_life = anyio.Event()
        self._stopped = False
        self._life: tuple[Runtime, Ending] | None = None
        self._under_way: _Reload | None = None
        self._error = ""
        self._loaded_at = 0.0

    async def run(self) -> None:
        """Reload on SIGHUP, and when the file changes if that is configured, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._on_signal)
            if self._path is not None:
                tasks.start_soon(self._watch, self._path)

    async def _on_signal(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as received:
            task_status.started()
            async for _ in received:
                await self.request("SIGHUP")

    async def _watch(self, path: Path) -> None:
        while True:
            loaded = self._loaded
            known = latest = loaded.fingerprint
            while not loaded.config.reload.watch and loaded is self._loaded:
                await self._next_life.wait()
            while loaded is self._loaded:
                await anyio.sleep(_LOOK_EVERY)
                before, latest = latest, await anyio.to_thread.run_sync(fingerprint, path, loaded)
                if latest != known and latest == before:  # twice the same: the file is no longer being written
                    known = latest
                    await self.request("a change of the file")

    async def request(self, by: str) -> ReloadReport:
        """See `Reloads`."""
        async with self._turn:
            await self._up.wait()
            if self._path is None:
                return ReloadReport(self._now(), by, ok=False, text="The monitor runs without a configuration file.")
            try:
                after, changed = await anyio.to_thread.run_sync(self._read, self._path)
            except ConfigError as error:
                return self._failed(by, str(error))
            except Exception as error:  # noqa: BLE001 - any error: the file, and the plug-ins that it names, may do anything
                _log.exception("the configuration cannot be read")
                return self._failed(by, f"{self._path}: cannot be read: {type(error).__name__}; see the log")
            return self._unchanged(by) if not changed else await self._exchanged(_Reload(by, changed), after)

    async def _exchanged(self, begun: _Reload, after: Loaded) -> ReloadReport:
        """End the current life, and wait until the next one is up. A life that ends for good is not hurried."""
        if self._life is not None and not self._life[1].asked.is_set():
            self._under_way, self._before, self._loaded, self._up = begun, self._loaded, after, anyio.Event()
            self._life[0].stop.hurry()
            self._life[1].stop(reload=True)
            await self._up.wait()
            if not self._stopped and self.last is not None:
                return self.last
        return ReloadReport(self._now(), begun.by, ok=False, text="The monitor is stopping.")

    def rises(self, ending: Ending) -> Callable[[Runtime, anyio.Event], Coroutine[Any, Any, None]]:
        """Begin a life; return the coroutine that runs in it and gets the event of all sources listening."""

        async def watch(runtime: Runtime, listening: anyio.Event) -> None:
            with anyio.move_on_after(_LISTENING):
                await listening.wait()
            self._is_up(runtime, ending)
            await listening.wait()
            if not ending.asked.is_set():
                self._before = None

        return watch

    def _is_up(self, runtime: Runtime, ending: Ending) -> None:
        self._life = runtime, ending
        done, self._under_way = self._under_way, None
        if self._error:
            by = done.by if done is not None else "the new configuration"
            self._failed(by, self._error)
            self._error = ""
        elif done is not None:
            self._succeeded(done)
        self._up.set()

    def after_end(self, *, stopping: bool) -> Config | None:
        """Return the configuration for the next life; None: the process ends."""
        if stopping or self._under_way is None:
            return None
        return self._begin(self._loaded)

    def after_error(self, error: Exception, *, stopping: bool) -> Config:
        """Return the configuration before the one that cannot work. Raises `error` if there is none any more."""
        reason = first_error(error) or error
        if stopping or self._before is None or (self._under_way is None and not isinstance(reason, ConfigError)):
            raise error
        if not isinstance(reason, MonitorError):
            _log.error("the new configuration ended the monitor", exc_info=error)
        self._error = str(reason) or type(reason).__name__
        self._loaded, self._before = self._before, None
        if self._path is not None:  # or the watch would try the same file again and again
            self._loaded = self._loaded._replace(fingerprint=fingerprint(self._path, self._loaded))
        return self._begin(self._loaded)

    def stopped(self) -> None:
        """Note that the process ends: whoever still waits for a reload gets none."""
        self._stopped, self._life = True, None
        self._up.set()

    def show(self, metrics: Metrics, now: float) -> None:
        """Export the state of the last reload; `now` is in seconds since 1970."""
        self._loaded_at = self._loaded_at or now
        metrics.config_reload_successful.set(self.last is None or self.last.ok)
        metrics.config_reloaded_at.set(self._loaded_at)

    def _begin(self, loaded: Loaded) -> Config:
        self._life = None
        self._next_life.set()
        self._next_life = anyio.Event()
        if self._up.is_set():  # else something waits for it
            self._up = anyio.Event()
        logs.configure(loaded.config.log.level, loaded.config.log.style)
        self.over_http = loaded.config.reload.http
        return loaded.config

    def _read(self, path: Path) -> tuple[Loaded, list[str]]:
        """Read and check the file, and return it with what has changed. Blocks. Raises `ConfigError`."""
        after = Loaded.read(path, pipe=False)
        changed = changes(self._loaded, after)
        if changed:
            fixed = needing_restart(self._loaded.config, after.config)
            if fixed:
                raise ConfigError(f"{', '.join(fixed)}: changing this requires a restart, so nothing was changed")
            _check(after.config)
        return after, changed

    def _succeeded(self, done: _Reload) -> None:
        text = f"Changed: {', '.join(done.changed)}."
        self.last = self.in_use = ReloadReport(self._now(), done.by, ok=True, text=text, changed=tuple(done.changed))
        self._tell()
        if self._life is not None:
            changed = ", ".join(done.changed)
            self._life[0].events.info(Event.RELOADED, "the configuration was reloaded", by=done.by, changed=changed)

    def _unchanged(self, by: str) -> ReloadReport:
        report = ReloadReport(self._now(), by, ok=True, text="Nothing has changed.")
        if self.last is not None and not self.last.ok:
            self.last = self.in_use  # the file matches the running configuration again
        self._tell(report.at)
        if self._life is not None:
            self._life[0].events.info(Event.RELOADED, "the configuration has not changed", by=by)
        return report

    def _failed(self, by: str, why: str) -> ReloadReport:
        self.last = ReloadReport(self._now(), by, ok=False, text=why)
        self._tell()
        if self._life is not None:
            message = f"the configuration was not reloaded, the previous one stays in use: {why}"
            self._life[0].events.error(Event.RELOAD_FAILED, message, by=by)
        return self.last

    def _tell(self, at: float = 0.0) -> None:
        if self.last is None or self.last.ok:
            self._loaded_at = at or (self.last.at if self.last is not None else self._loaded_at)
        if self._life is not None:
            self.show(self._life[0].metrics, self._now())

    def _now(self) -> float:
        return self._life[0].clock.now() if self._life is not None else 0.0


def _check(config: Config) -> None:
    """Raise `ConfigError` for anything detectable that would keep a life with this configuration from beginning."""
    config = config.as_run()
    memory_limits.within(config, memory_limits.plan(config))
    for _ in warnings(config):  # warnings do not keep a monitor from starting
        pass
    if config.canary.interval is not None:
        load_canary(config.canary.cases)
    runtime = Runtime.standalone(logs=False)
    for section, components in (("sources", config.sources), ("sinks", config.sinks)):
        for number, one in enumerate(components):
            auth = getattr(one, "auth", None)
            if auth is not None:
                try:
                    auth.gate(runtime.clock, runtime.events)
                except ConfigError as error:
                    raise ConfigError(placed(error, f"{section}[{number}]", type(one).model_fields)) from None
