"""The text of `/metrics`: all values are read at once, so that they are consistent, and formatted in a thread.

The client library's encoder creates an object for each sample and formats its labels at each scrape. That takes over
ten microseconds per series, on the event loop. Here the labels of a series are formatted once, and the event loop only
reads the value. `_created` series are left out: nothing reads them, and they double the number of counter series.
"""

# ruff: noqa: SLF001 - the client library offers no other access to the values than its own slow one

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from monitor.telemetry.metrics import MergedHistograms, Metrics

_LONGEST_KEPT: Final = 1.0
"""The longest that a text is reused, in seconds."""
_REST: Final = 9
"""A text is reused for this many times the time it took to write, so that continuous scraping costs a tenth of one
processor core."""
_LARGEST_PLAIN: Final = 1e6
"""From this value on, Go writes an exponent."""


class _Values(NamedTuple):
    """The values of a counter or histogram at one moment, in the order of its series."""

    series: _Series
    number: int
    values: list[float]
    exemplars: Sequence[Exemplar | None]


class Exposition:
    """Formats all series of `metrics` for a scrape. `monotonic` is a clock in seconds."""

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._turn = anyio.Lock()
        self._kept: dict[bool, tuple[float, bytes]] = {}
        self._series: dict[MetricWrapperBase, _Series] = {}

    async def text(self, *, openmetrics: bool) -> bytes:
        """Return the text, at most about a second old: OpenMetrics with exemplars, or the Prometheus text format."""
        async with self._turn:
            until, text = self._kept.get(openmetrics, (0.0, b""))
            began = self._monotonic()
            if not text or began >= until:
                snapshot = list(self._snapshot(openmetrics=openmetrics))
                text = await anyio.to_thread.run_sync(_write, snapshot, openmetrics)
                now = self._monotonic()
                self._kept[openmetrics] = now + min(_REST * (now - began), _LONGEST_KEPT), text
            return text

    def _snapshot(self, *, openmetrics: bool) -> Iterator[list[_Values] | Metric]:
        """Read all values of each family; parts that are exposed as one family are read together."""
        for one in list(self._metrics.registry._collector_to_names):
            if isinstance(one, Counter | Histogram):
                yield [self._known(one).read(exemplars=openmetrics)]
            elif isinstance(one, MergedHistograms):
                yield [self._known(part).read(exemplars=openmetrics) for part in one.parts.values()]
            else:
                yield from one.collect()

    def _known(self, family: Counter | Histogram) -> _Series:
        if family not in self._series:
            self._series[family] = _Series(family)
        return self._series[family]


class _Series:
    """The series of a counter or histogram: references to their values, and the start of each of their lines."""

    def __init__(self, family: Counter | Histogram) -> None:
        self.family = family
        self._keys: list[Sequence[str]] = []
        self._places: list[Any] = []
        self._begins: list[str] = []
        self.per_child = len(family._upper_bounds) + 1 if isinstance(family, Histogram) else 1

    def read(self, *, exemplars: bool) -> _Values:
        """Read all values. Takes some tens of nanoseconds per series that existed at the last scrape."""
        children: Mapping[Sequence[str], Any] = self.family._metrics if self.family._labelnames else {(): self.family}
        keys = list(children)
        known = len(self._keys)
        if keys[:known] != self._keys:  # some are gone
            known, self._places, self._begins = 0, [], []
        for child in islice(children.values(), known, None):
            self._places += (*child._buckets, child._sum) if isinstance(child, Histogram) else (child._value,)
        self._keys = keys
        found = [place._exemplar for place in self._places] if exemplars else ()
        return _Values(self, len(keys), [place._value for place in self._places], found)

    def begins(self, number: int) -> list[str]:
        """Return the start of each line, up to the value, for the first `number` label sets."""
        begins, family = self._begins, self.family
        lines = self.per_child + 1 if isinstance(family, Histogram) else 1
        for key in self._keys[len(begins) // lines : number]:
            labels = dict(zip(family._labelnames, key, strict=True))
            if isinstance(family, Histogram):
                bounds = family._upper_bounds
                begins += (_begin(f"{family._name}_bucket", {**labels, "le": _number(bound)}) for bound in bounds)
                begins += (_begin(f"{family._name}{suffix}", labels) for suffix in ("_count", "_sum"))
            else:
                begins.append(_begin(f"{family._name}_total", labels))
        return begins


def _write(snapshot: list[list[_Values] | Metric], openmetrics: bool) -> bytes:
    lines: list[str] = []
    for found in snapshot:
        if isinstance(found, list):
            family = found[0].series.family
            lines.append(_head(family._name, family._type, family._documentation, openmetrics=openmetrics))
            for one in found:
                lines += _histogram(one) if isinstance(one.series.family, Histogram) else _counter(one)
        else:
            lines.append(_head(found.name, found.type, found.documentation, openmetrics=openmetrics))
            lines += (f"{_begin(one.name, one.labels)}{_number(one.value)}\n" for one in found.samples)
    if openmetrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()


def _counter(one: _Values) -> Iterator[str]:
    begins = one.series.begins(one.number)
    if not one.exemplars:
        for begin, value in zip(begins, one.values, strict=False):
            yield f"{begin}{_number(value)}\n"
        return
    for begin, value, exemplar in zip(begins, one.values, one.exemplars, strict=False):
        yield f"{begin}{_number(value)}{_exemplar(exemplar)}\n"


def _histogram(one: _Values) -> Iterator[str]:
    begins = iter(one.series.begins(one.number))
    falls = one.series.family._upper_bounds[0] < 0  # type: ignore[union-attr]
    for start in range(0, len(one.values), one.series.per_child):
        total, end = 0.0, start + one.series.per_child - 1
        for at in range(start, end):
            total += one.values[at]
            exemplar = _exemplar(one.exemplars[at]) if one.exemplars else ""
            yield f"{next(begins)}{_number(total)}{exemplar}\n"
        yield f"{next(begins)}{_number(total)}\n"
        begin = next(begins)
        if not falls:  # a sum that can decrease is not a counter
            yield f"{begin}{_number(one.values[end])}\n"


def _head(name: str, kind: str, text: str, *, openmetrics: bool) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
    else:
        name += {"counter": "_total", "info": "_info"}.get(kind, "")
        kind = {"info": "gauge", "unknown": "untyped"}.get(kind, kind)
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _begin(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{_pairs(labels)}}} " if labels else f"{name} "


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if -_LARGEST_PLAIN < value < _LARGEST_PLAIN:
        return repr(float(value))
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _exemplar(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    return f" # {{{_pairs(exemplar.labels)}}} {_number(exemplar.value)} {exemplar.timestamp}"
