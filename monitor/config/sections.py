"""Sections of the configuration that belong to no other wing: head sampling, storage, log and others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from monitor.errors import ConfigError
from monitor.quantities import Duration, Rate, Size
from monitor.storage.history.settings import ResultRetention


class Section(BaseModel):
    """Base of the sections of the file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )


class SamplingSettings(Section):
    """Which traces to keep at all (head sampling)."""

    traces: Rate = 1.0
    """Share of traces to keep: a number from 0 to 1, or a percentage. Decided by a hash of the trace id, so all
    replicas agree."""

    salt: str = "rag-monitor"
    """Key of the hash that selects cases for evaluators. Use the same in all replicas. A different key selects a
    different sample."""


def default_state_path() -> Path:
    """Return the default storage folder: systemd's STATE_DIRECTORY, else the user's state folder.

    Raises `ConfigError` for a user without a home folder.
    """
    given = os.environ.get("STATE_DIRECTORY")
    if given:
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "rag-monitor"
    except RuntimeError:
        raise ConfigError(
            "storage.path: is required, because this user has no home folder; or set STATE_DIRECTORY"
        ) from None


class LimitSettings(Section):
    """How much memory the monitor may use."""

    needs_restart: ClassVar[frozenset[str]] = frozenset({"memory"})

    memory: Literal["auto"] | Size = "auto"
    """Memory of the monitor and its worker processes: `auto`, or a size such as `512MiB`. The bounds of all parts
    follow from it (docs/reliability.md); an option for a part takes precedence over its share. Near the limit,
    receivers ask senders to retry. `auto`: the limit of the control group (of the container), else a quarter of the
    machine's memory, at most 2 GiB."""


class StorageSettings(Section, ResultRetention):
    """The folder on disk: the spool of unfinished traces, the history of results, the request log."""

    needs_restart: ClassVar[frozenset[str]] = frozenset({"path"})

    path: Path = Field(default_factory=default_state_path)
    """The folder. Created if missing; files are readable by their owner only. Default: `$STATE_DIRECTORY`, else
    `~/.local/state/rag-monitor`; required for a user without a home folder."""

    max_size: Size = 2 * 1024**3
    """Maximum size of the spool. When it is full, receivers ask senders to retry later. Traces wait here, with their
    texts, until they are evaluated; after `retention` they are counted as `expired`."""

    spool_retention: Annotated[Duration, Field(ge=0)] = 0.0
    """How long to keep finished deliveries for `rag-monitor backfill --from spool`, such as `24h`. They are stored in a
    second file of up to half of `max_size`, oldest deleted first, with their texts, regardless of `texts`. Each
    delivery is then written twice. Default: not kept."""

    @model_validator(mode="after")
    def _no_deliveries_without_texts(self) -> StorageSettings:
        if self.texts == "none" and self.spool_retention > 0:
            raise ValueError(
                "`spool_retention` keeps deliveries as received, but `texts: none` keeps no text: set only one of them"
            )
        return self

    incidents_retention: Annotated[Duration, Field(gt=0)] = 90 * 86400.0
    """How long to keep an incident after its end, with its worst answers, their texts and people's notes: longer than
    the results themselves. At most 1,000 incidents and 64 MiB are kept."""

    request_log: Annotated[Duration, Field(ge=0)] = 86400.0
    """Retention of the request log, which `rag-monitor why` reads: spans, probabilities, attempts and reasons, but no
    texts. Its sums per minute are kept as long as results. `0`: off."""

    request_log_max_size: Annotated[Size, Field(gt=0)] = 256 * 1024**2
    """Maximum size of the request log; the oldest entries are deleted first. About 1 KB per request."""


_CPU_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")


def _cores() -> int:
    """Return how many processor cores this process may use, at least 1, within the limit of its container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CPU_LIMIT.read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # `max`: no limit; or there are no control groups
        return allowed


class ScoringSettings(Section):
    """Where requests are read and scored locally."""

    processes: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = 1
    """Number of worker processes that decode traces, read the requests in them and run the local evaluators. `0`: the
    monitor's own process does it; a text that hangs or crashes its reader then hangs or crashes the whole monitor.
    `auto`: one fewer than the processor cores, at least 1. A worker takes about 50 MiB of memory."""

    time_limit: Annotated[Duration, Field(gt=0)] = 10.0
    """Processor time that one request may take in a worker. A worker that takes longer, or six times as long in
    wall-clock time, is terminated and replaced, and the request is set aside (outcome `poison`)."""

    @property
    def number(self) -> int:
        """The number of worker processes."""
        return max(1, _cores() - 1) if self.processes == "auto" else self.processes


class LogSettings(Section):
    """The monitor's own log, on standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Lowest level to write. Prompt text is never logged, at any level."""

    style: Literal["json", "text"] = "json"
    """`json`: one object per line. `text`: readable lines."""


class ReloadSettings(Section):
    """When the monitor reloads a changed file without a restart, in addition to SIGHUP (docs/reload.md)."""

    watch: bool = False
    """Whether to reload when the content of this file changes, or that of a rubric or the canary cases that it names.
    It is read every second, so a mounted ConfigMap works too; a change counts once two readings in a row have seen
    it."""

    http: bool = False
    """Whether `POST /-/reload` reloads, on the port of the sink `prometheus`. It requires the token of that port, if
    there is one."""
