"""One memory limit, and the share of it that each part of the monitor may use.

The table `SHARES` is the only place that divides memory; docs/reliability.md repeats it. The part of the limit that the
process itself, its worker processes and the judge's libraries leave is divided into sixteenths.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from monitor.config.model import Config
from monitor.errors import ConfigError
from monitor.quantities import format_size

_MIB: Final = 1024**2
PROCESS: Final = 112 * _MIB
"""Memory of the process itself: the interpreter, libraries, databases, series."""

WORKER: Final = 80 * _MIB
"""Memory of a worker process with a large trace in it."""

JUDGE: Final = 200 * _MIB
"""Memory of the libraries that call models."""

_LEAST: Final = 64 * _MIB
_MACHINE_SHARE: Final = 4
_MOST_WITHOUT_CONTROL_GROUP: Final = 2 * 1024**3
_PARTS: Final = 16


class Share(NamedTuple):
    """A part's share of the data memory in sixteenths.

    Everything the part counts is in memory `copies` times, so its limit is the share divided by `copies`.
    """

    sixteenths: int
    copies: int
    holds: str

    def of(self, data: int) -> int:
        """Return the part's limit, in bytes as the part counts them, if all parts together have `data` bytes."""
        return data * self.sixteenths // _PARTS // self.copies


SHARES: Final[dict[str, Share]] = {
    "requests": Share(5, 3, "requests being received, inflated, cut into spans and copied to the spool"),
    "open traces": Share(4, 1, "traces that are not complete yet, with their resources and scopes"),
    "in hand": Share(
        5, 2, "complete traces and rows until their last evaluation, with the cases in front of the judge"
    ),
    "closed traces": Share(1, 1, "ids of recently closed traces, and which spans they had"),
    "caches": Share(1, 1, "what is remembered of past requests, see below"),
}
"""Every part that grows with the traffic received."""

CACHES: Final[dict[str, int]] = {
    "results": 2,  # ids of delivered results
    "draws": 3,  # the first probability of each case
    "arrivals": 4,  # ids of rows, and of traces that were not kept
    "cases": 5,  # requests without their texts, users' votes, results to compare these with
}
"""Parts of the caches in sixteenths; senders and decoded resources share the rest, at most 4 MiB each."""


class MemoryPlan(NamedTuple):
    """The limits of the parts, in bytes as each part counts them. `requests` is for all receivers together."""

    limit: int
    requests: int
    open_traces: int
    in_hand: int
    closed_traces: int
    caches: int

    def cache(self, name: str) -> int:
        """Return the bytes of one of the `CACHES`."""
        return self.caches * CACHES[name] // _PARTS


def plan(config: Config, machine: Path = Path("/")) -> MemoryPlan:
    """Divide the memory limit. Raises `ConfigError` if the options for parts exceed it, or if it is too small."""
    asked = config.limits.memory
    limit = auto_limit(machine) if asked == "auto" else int(asked)
    taken = PROCESS + config.scoring.number * WORKER + (JUDGE if _calls_models(config) else 0)
    data = limit - taken
    if data < _LEAST:
        if asked != "auto":
            raise ConfigError(
                f"limits.memory: {format_size(limit)} is too small: the monitor itself takes {format_size(taken)} as"
                f" configured, and traces need at least {format_size(_LEAST)}"
            )
        data = _LEAST
    shares = {name: share.of(data) for name, share in SHARES.items()}
    chosen = dict(_chosen(config))
    named = [name for name, size in chosen.items() if size > limit]
    if named or sum(chosen.values()) > limit:
        sizes = ", ".join(f"{name} {format_size(size)}" for name, size in chosen.items() if not named or name in named)
        raise ConfigError(
            f"limits.memory: {format_size(limit)} is less than {sizes}: raise it, or remove these options"
        )
    return MemoryPlan(limit, *(shares[name] for name in SHARES))


def within(config: Config, memory: MemoryPlan) -> Config:
    """Return the configuration with bounds that are not set derived from the memory limit."""
    assembly = config.assembly
    update: dict[str, int] = {}
    if "max_open_bytes" not in assembly.model_fields_set:
        update["max_open_bytes"] = memory.open_traces
    if "max_closed_bytes" not in assembly.model_fields_set:
        update["max_closed_bytes"] = memory.closed_traces
    if "max_trace_bytes" not in assembly.model_fields_set:
        most = update.get("max_open_bytes", assembly.max_open_bytes)
        update["max_trace_bytes"] = min(assembly.max_trace_bytes, most // 2)
    receivers = sum(_BUFFER in type(source).model_fields for source in config.sources)
    each = memory.requests // max(receivers, 1)
    sources = []
    for source in config.sources:
        fields, given = type(source).model_fields, source.model_fields_set
        changed: dict[str, int] = {}
        if _BUFFER in fields and _BUFFER not in given:
            body = getattr(source, _BODY, 0) if _BODY in given else 0
            changed[_BUFFER] = max(each, body)
            if _BODY in fields and _BODY not in given:
                changed[_BODY] = min(getattr(source, _BODY), each)
        sources.append(source.model_copy(update=changed))
    return config.model_copy(
        update={"assembly": assembly.model_copy(update=update), "sources": tuple(sources)},
    )


_BUFFER: Final = "max_in_flight_bytes"
_BODY: Final = "max_body_bytes"


def _chosen(config: Config) -> Iterator[tuple[str, int]]:
    """Yield the options that set the memory of a part explicitly."""
    if "max_open_bytes" in config.assembly.model_fields_set:
        yield "assembly.max_open_bytes", config.assembly.max_open_bytes
    for index, source in enumerate(config.sources):
        if _BUFFER in source.model_fields_set:
            yield f"sources[{index}].{_BUFFER}", getattr(source, _BUFFER)


def _calls_models(config: Config) -> bool:
    return any(not settings.is_classifier for settings in config.judges_with_models.values())


def auto_limit(machine: Path = Path("/")) -> int:
    """Return the memory limit of this process's control group, else a share of the machine's memory, in bytes.

    Supports versions 1 and 2; in nested groups, the smallest limit counts. `machine` is the root of the file system.
    """
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = [limit for limit in _group_limits(machine) if limit < whole]
    return min(found) if found else min(whole // _MACHINE_SHARE, _MOST_WITHOUT_CONTROL_GROUP)


def _group_limits(machine: Path) -> Iterator[int]:
    mounted = machine / "sys/fs/cgroup"
    try:
        lines = (machine / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        names: tuple[str, ...]
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in controllers.split(","):
            top, names = mounted / "memory", ("memory.limit_in_bytes",)
        elif number == "0":
            top, names = mounted, ("memory.max", "memory.high")  # beyond the latter it would be throttled
        else:
            continue
        group = Path(path.lstrip("/"))
        for one in (group, *group.parents):  # in a container, the group may be mounted at the top, whatever its path
            if ".." in one.parts:
                continue
            for name in names:
                try:
                    yield int((top / one / name).read_text())
                except (OSError, ValueError):  # no such file, or `max`: no limit
                    continue
