"""The monitor's own series on one registry: `series.py` declares them, this file keeps their labels bounded.

Create children once per label set and hold them; `.labels()` is not for the hot path.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.telemetry.series import Series

OVERFLOW = "__other__"
"""The label value for everything beyond the limit of distinct values."""

UNKNOWN_APP = "unknown"


def printable(value: str) -> str:
    """Turn an external text into a label value that any parser accepts: printable, at most 128 characters.

    `?` replaces characters that cannot be printed. U+FFFD would not do: PromQL takes it for an encoding error.
    """
    return "".join(c if c.isprintable() else "?" for c in value[:128])


class Capped:
    """Turns an external text into a label value: safe for every parser, and with a bounded number of values.

    After `limit` distinct values, new ones become `__other__`. `missing` replaces an empty text.
    """

    def __init__(self, limit: int = 200, missing: str = "") -> None:
        self.limit = limit
        self._missing = missing
        self._seen: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        """Return the label value: printable, at most 128 characters, and never a new value beyond the limit."""
        value = value or self._missing
        known = self._seen.get(value)
        if known is not None:
            return known
        safe = printable(value)
        if safe not in self._seen:
            if safe == OVERFLOW or len(self._seen) >= self.limit:
                return OVERFLOW
            self._seen[safe] = safe
        return safe


def samples(family: Counter | Gauge | Info) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the labels and the current value of each series of a family."""
    for one in family.collect():
        for sample in one.samples:
            if not sample.name.endswith("_created"):
                yield sample.labels, sample.value


def total(family: Counter | Gauge) -> float:
    """Return the sum of the current values of all series of a family."""
    return sum(value for _, value in samples(family))


class Metrics(Series):
    """All series on one registry, which may be passed in, as tests do."""

    def __init__(self, registry: CollectorRegistry | None = None, *, label_values: int = 200) -> None:
        super().__init__(registry if registry is not None else CollectorRegistry())
        self.app = Capped(label_values, missing=UNKNOWN_APP)
        """Turns a service's name, as `app_name` returns it, into the label `app`. Every such label comes from here."""
        self.model = Capped(label_values)
        self._score: dict[str, Histogram] = {}
        self.build.info({"version": __version__, "python": platform.python_version()})

    def score(self, evaluator: str, boundaries: tuple[float, ...]) -> Histogram:
        """Return the score histogram of one evaluator, with buckets at the steps of its own scale."""
        if evaluator not in self._score:
            self._score[evaluator] = Histogram(
                "ragmonitor_evaluation_score",
                "Scores, unweighted, on the evaluator's own scale. No series if the scale begins below 0.",
                ("app", "evaluator", "version"),
                buckets=boundaries,
                registry=None,
            )
            if len(self._score) == 1:
                self.registry.register(MergedHistograms(self._score))
        return self._score[evaluator]

    def catalogue(self) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
        """Yield every family: its exposed name, its type, its labels, its help."""
        families = {id(one): one for one in (*vars(self).values(), *self._score.values())}
        for family in families.values():
            if isinstance(family, MetricWrapperBase):
                kind = str(family._type)  # noqa: SLF001 - the client library offers no way to ask
                suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
                yield f"{family._name}{suffix}", kind, tuple(family._labelnames), family._documentation  # noqa: SLF001


class MergedHistograms(Collector):
    """Exposes histograms with different buckets as one family."""

    def __init__(self, parts: dict[str, Histogram]) -> None:
        self.parts = parts

    def collect(self) -> Iterator[object]:  # type: ignore[override]
        """Yield one family with the samples of all histograms."""
        family = None
        for part in self.parts.values():
            for one in part.collect():
                if family is None:
                    family = one
                else:
                    family.samples.extend(one.samples)
        if family is not None:
            yield family
