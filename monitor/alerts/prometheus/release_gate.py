"""The release gate in PromQL: the queries of `rag-monitor gate --prometheus`, and templates for deployment tools.

The arithmetic is that of `statistics/gating.py`, over the exported counters; the template for one rate reads the limits
that `rag-monitor rules` records. Versions of an evaluator are never added up; the strictest decision of all counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from monitor.alerts.prometheus.promql import dump, quoted
from monitor.alerts.prometheus.rates import limit_95
from monitor.statistics.rates import Z_95

_WHOLE: Final = "ragmonitor_evaluation"
_SLICED: Final = "ragmonitor_slice_evaluation"
_BY: Final = "by (app, version)"
_PRODUCTS: Final = {"defect_products": "defects", "every_products": "all", "both_products": "both"}
_BY_VERSION: Final = "by (version)"


@dataclass(frozen=True, slots=True)
class GateSubject:
    """Selects results: of an evaluator, of one app or all, of one value of a slice or all.

    The fields may be placeholders of a template.
    """

    evaluator: str
    app: str | None = None
    slice: str | None = None
    value: str = ""

    def selector(self, **more: str) -> str:
        """Write the labels of app and evaluator, and `more`, in the form of a selector."""
        labels = {"app": self.app, "evaluator": self.evaluator, **more}
        return ",".join(f"{name}={quoted(value)}" for name, value in labels.items() if value is not None)

    def products(self, of: str, window: str, by: str = _BY) -> str:
        """Sum the products of weights within sessions over a window."""
        family = f"{_WHOLE if self.slice is None else _SLICED}_session_products_total"
        return f"sum {by} (increase({family}{{{self.selector(**self._value, of=of)}}}[{window}]))"

    def increase(self, counted: str, window: str, by: str, *, defect: bool = False) -> str:
        """Sum a counter over a window: `counted` is `s` (the number), `_weight` or `_weight_squares`."""
        labels = {**self._value, **({"defect": "true"} if defect else {})}
        family = _WHOLE if self.slice is None else _SLICED
        return f"sum {by} (increase({family}{counted}_total{{{self.selector(**labels)}}}[{window}]))"

    @property
    def _value(self) -> dict[str, str]:
        return {"slice": self.slice, "value": self.value} if self.slice is not None else {}


def sums(part: GateSubject, window: str) -> Mapping[str, str]:
    """Write one query for each field of `rates.Sums` that the limits need, by app and version."""
    return {
        "judged": part.increase("s", window, _BY),
        "defects": part.increase("s", window, _BY, defect=True),
        "weight": part.increase("_weight", window, _BY),
        "defect_weight": part.increase("_weight", window, _BY, defect=True),
        "defect_weight_squares": part.increase("_weight_squares", window, _BY, defect=True),
        "weight_squares": part.increase("_weight_squares", window, _BY),
        **{name: part.products(of, window) for name, of in _PRODUCTS.items()},
    }


def largest(part: GateSubject, window: str) -> str:
    """Write the query for the largest weight of an evaluator over a window, by app; slices have no such series."""
    return f"max by (app) (max_over_time(ragmonitor_evaluation_weight_max{{{part.selector()}}}[{window}]))"


def began(part: GateSubject) -> str:
    """Write the query for when the newest generation began, by app, in seconds since 1970."""
    return f"max by (app) (ragmonitor_service_version_start_timestamp_seconds{{{part.selector()}}})"


def rate_state(part: GateSubject, window: str, limit: str) -> str:
    """Write a query for 1: some version's rate is clearly above `limit`; -1: all versions' are clearly below; else 0.

    It reads the limits that the rules record, so `window` is one of `rates.SHOWN`, or a placeholder for one of them.
    """
    lower, upper = (limit_95(name, window, part.selector()) for name in ("lower", "upper"))
    return _state(f"{lower}\n> bool {limit}", f"{upper}\n< bool {limit}")


def ratio_state(now: GateSubject, base: GateSubject, window: str, times: str) -> str:
    """Write a query for 1: the rate of `now` is clearly more than `times` that of `base`; -1: clearly less; else 0.

    For 1, some version is enough. Both sides are read over the same window.
    """
    new, old = _Sums(now, window), _Sums(base, window)
    new_more, old_more = new.one_more(), old.one_more()
    worse = _score(new, (new.defects, new.squares), old, old_more, times)
    better = _score(new, new_more, old, (old.defects, old.squares), times)
    # Without a defect in the base its variance is NaN, and every comparison with it is false: undecided.
    return _state(f"{worse}\n> bool {Z_95:.7g}", f"{better}\n< bool -{Z_95:.7g}")


class _Sums:
    """The sums of one part by version, as expressions."""

    def __init__(self, part: GateSubject, window: str) -> None:
        self.judged = part.increase("s", window, _BY_VERSION)
        self.weight = part.increase("_weight", window, _BY_VERSION)
        self.defects = part.increase("_weight", window, _BY_VERSION, defect=True)
        squares = part.increase("_weight_squares", window, _BY_VERSION, defect=True)
        products, most = part.products("defects", window, _BY_VERSION), f"{self.defects} ^ 2"
        # As in `Sums.defect_session_squares`: a window's products may also be with answers before it.
        self.squares = f"((({products} or {squares}) < {most} or {most}) > {squares} or {squares})"

    def one_more(self) -> tuple[str, str]:
        """Weight and squares of the defects plus one pseudo defect, as heavy as answers, defects and their sessions."""
        mean = f"{self.weight} / ({self.judged} > 0)"
        pseudo = f"({self.squares} / ({self.defects} > 0) > {mean} or {mean})"
        return f"({self.defects} + {pseudo})", f"({self.squares} + {pseudo} ^ 2)"


def _score(now: _Sums, new: tuple[str, str], base: _Sums, old: tuple[str, str], times: str) -> str:
    """Write Paulson's z of the ratio of both rates over `times`, from each side's weight and squares of defects."""
    b1, b2 = (f"({squares} / {weight} ^ 2 / 9)" for weight, squares in (new, old))
    x = f"(({new[0]} / ({now.weight} > 0)) / ({old[0]} / ({base.weight} > 0)) / {times}) ^ (1 / 3)"
    return f"((1 - {b1}) * {x} - (1 - {b2}))\n/ sqrt({b1} * ({x}) ^ 2 + {b2})"


def _state(worse: str, better: str) -> str:
    """Combine both; with `or vector(0)`, since nothing is known if nothing was scored."""
    return f"(\nmax(\n{_indented(worse)}\n)\n-\nmin(\n{_indented(better)}\n)\n)\nor\nvector(0)"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def argo_rollouts() -> str:
    """Analysis templates for Argo Rollouts: a rate against a limit, and a canary against the stable version."""
    common = {"window": "30m", "evaluator": "groundedness", "prometheus": "http://prometheus:9090"}
    arg = _placeholder("{{{{args.{}}}}}")
    part = GateSubject(arg["evaluator"], arg["app"])
    canary, stable = (
        GateSubject(arg["evaluator"], arg["app"], arg["slice"], arg[side]) for side in ("canary", "stable")
    )
    templates = [
        _analysis("rag-defect-rate", {"app": None, "limit": "0.05"} | common,
                  rate_state(part, arg["window"], arg["limit"])),
        _analysis("rag-defect-ratio",
                  {"app": None, "canary": None, "stable": None, "slice": "service.version", "times": "2"} | common,
                  ratio_state(canary, stable, arg["window"], arg["times"])),
    ]  # fmt: skip
    return _documents("argo-rollouts", templates)


def flagger() -> str:
    """Metric templates for Flagger. The window is the metric's `interval`."""
    arg = _placeholder("{{{{ variables.{} }}}}")
    window = "{{ interval }}"
    part = GateSubject(arg["evaluator"], arg["app"])
    canary, stable = (
        GateSubject(arg["evaluator"], arg["app"], arg["slice"], arg[side]) for side in ("canary", "stable")
    )
    templates = [
        _metric("rag-defect-rate", rate_state(part, window, arg["limit"])),
        _metric("rag-defect-ratio", ratio_state(canary, stable, window, arg["times"])),
    ]
    return _documents("flagger", templates)


class _placeholder:  # noqa: N801 - used as a value
    """Writes the names of a template's arguments in its notation."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __getitem__(self, name: str) -> str:
        return self._form.format(name)


def _analysis(name: str, args: Mapping[str, str | None], query: str) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": name},
        "spec": {
            "args": [{"name": key, **({"value": value} if value is not None else {})} for key, value in args.items()],
            "metrics": [
                {
                    "name": name,
                    "interval": "5m",
                    "count": 6,
                    "failureLimit": 0,
                    "inconclusiveLimit": 5,
                    "successCondition": "result[0] < 0",
                    "failureCondition": "result[0] > 0",
                    "provider": {"prometheus": {"address": "{{args.prometheus}}", "query": query}},
                }
            ],
        },
    }


def _metric(name: str, query: str) -> dict[str, Any]:
    return {
        "apiVersion": "flagger.app/v1beta1",
        "kind": "MetricTemplate",
        "metadata": {"name": name},
        "spec": {"provider": {"type": "prometheus", "address": "http://prometheus:9090"}, "query": query},
    }


def _documents(name: str, templates: list[dict[str, Any]]) -> str:
    head = f"# Written by `rag-monitor gate --template {name}`: docs/gate.md\n"
    return head + "---\n".join(dump(one) for one in templates)
