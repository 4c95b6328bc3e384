"""Rates by slice, and rates without the judge's errors: what stands beside the rate of the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from monitor.statistics.correction import ConfusionCell, JudgeQuality, by_quality, quality_of
from monitor.statistics.rates import Sums, effective_judged, interval_95
from monitor.statistics.slice_sums import Sliced
from monitor.telemetry.metrics import OVERFLOW, Metrics, samples
from monitor.web import view

FEWEST: Final = 20
"""Equally weighted verdicts below which a rate of a slice says nothing."""


def by_slice(sliced: Sliced, app: str, evaluator: str) -> list[view.Slice]:
    """Each slice with its values: those with enough judged first, and of them the worst."""
    return [
        view.Slice(name=name, since=sliced.since, values=sorted((_value(*one) for one in values.items()), key=_place))
        for name, values in sliced.of(app, evaluator).items()
        if set(values) != {""}  # a fact that no request of this app states is no slice of it
    ]


def _value(value: str, sums: Sums) -> view.SliceRate:
    found = interval_95(sums)
    return view.SliceRate(
        value=value,
        others=value == OVERFLOW,
        judged=sums.judged,
        defects=sums.defects,
        rate=found.rate if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        enough=effective_judged(sums) >= FEWEST,
    )


def _place(one: view.SliceRate) -> tuple[bool, bool, float, str]:
    return one.others, not one.enough, -(one.rate or 0.0), one.value


def qualities(metrics: Metrics, versions: Mapping[str, str]) -> dict[str, JudgeQuality]:
    """By evaluator, what people's labels say of the version that judges now."""
    parts = (metrics.calibration_labels, metrics.calibration_label_weight, metrics.calibration_label_weight_squares)
    sums: defaultdict[tuple[str, bool, bool], list[float]] = defaultdict(list)
    for gauge in parts:
        for at, value in samples(gauge):
            if versions.get(at["evaluator"]) == at["version"]:
                sums[at["evaluator"], at["verdict"] == "defect", at["truth"] == "defect"].append(value)
    cells: defaultdict[str, list[ConfusionCell]] = defaultdict(list)
    for (evaluator, verdict, truth), (labels, weight, squares) in sums.items():
        cells[evaluator].append(ConfusionCell(verdict, truth, int(labels), weight, squares))
    return {evaluator: quality_of(found) for evaluator, found in cells.items()}


def corrected(sums: Sums, judge: JudgeQuality | None) -> view.Corrected | None:
    """The rate as people would have judged it; None where too little is known of the judge."""
    found = by_quality(sums, judge) if judge is not None else None
    if judge is None or found is None:
        return None
    return view.Corrected(
        rate=found.rate, lower=found.lower, upper=found.upper, labelled_defects=judge.defects, labelled_good=judge.good
    )
