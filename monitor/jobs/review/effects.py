"""What labels say about a judge as a whole: the sums that correct its rates, and its quality. All functions block."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

from monitor.jobs.calibration import AuditedResults, JudgeCalibration, LabelCell
from monitor.model.label import Label, LabelVerdict
from monitor.statistics.correction import LabelledResult, ShareInterval
from monitor.statistics.rates import Sums
from monitor.statistics.review import (
    Kappa,
    LabelCounts,
    agreement,
    chance_if_as_good,
    sensitivity,
    shares,
    specificity,
    truth_of,
)
from monitor.storage.history.judged import ReviewableResult

LATELY: Final = 7 * 86_400.0
"""How many seconds of recent answers have their labels compared with all earlier ones."""
LATELY_AT_LEAST: Final = 20
"""Labels that a comparison needs on each side."""

_VERDICTS: Final = (True, False)

ByResult = Mapping[str, Sequence[Label]]
"""The labels of each result, oldest first."""

Frame = Callable[[str], Sequence[ReviewableResult]]
"""The results of an app from which cases are drawn now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeMeasure:
    """How good a version of a judge is, by the labels that measure it. Values are None with too few labels.

    `labels` counts labelled results. `with_people` is the kappa of judge and people over all traffic, `of_people` the
    kappa of two people over the results that both have labelled.
    """

    evaluator: str
    version: str
    labels: int
    sensitivity: ShareInterval | None
    specificity: ShareInterval | None
    with_people: Kappa | None
    of_people: Kappa | None


def by_result(labels: Iterable[Label]) -> dict[str, list[Label]]:
    """Group labels by result, in the order of the first label of each."""
    found: dict[str, list[Label]] = {}
    for one in labels:
        found.setdefault(one.result_id, []).append(one)
    return found


def labelled_results(labels: Iterable[Sequence[Label]]) -> list[LabelledResult]:
    """Return what people say about each result, without the results on which nobody can decide."""
    found = []
    for of_one in labels:
        truth = truth_of(of_one)
        if truth is not None:
            found.append(LabelledResult(of_one[-1].design_weight, of_one[-1].judged_defect, truth))
    return found


def calibration(evaluator: str, version: str, labels: ByResult, frame: Frame) -> JudgeCalibration:
    """Sum up the labels that measure the judge, in the form that the gauges and the rules read.

    Within each app and verdict of the judge, labels are weighted up to all its results there: how often the judge gives
    which verdict is known from all results, and needs no labels.
    """
    by_app: defaultdict[str, list[Sequence[Label]]] = defaultdict(list)
    for of_one in labels.values():
        if of_one[-1].draw.measures:
            by_app[of_one[-1].app].append(of_one)
    audited, weighed = _Audited(), []
    for app, own in sorted(by_app.items()):
        known, results = labelled_results(own), frame(app)
        for verdict in _VERDICTS:
            audited.add(one for one in results if one.defect == verdict)
            mine = [one for one in known if one.verdict == verdict]
            drawn = math.fsum(one.weight for one in mine)
            whole = math.fsum(one.weight for one in results if one.defect == verdict)
            # If no results are kept any more: as many as the draws say.
            factor = (whole if results else drawn / len(known)) / drawn if drawn else 0.0
            weighed += [LabelledResult(one.weight * factor, one.verdict, one.truth) for one in mine if factor > 0]
    cells = [_cell(weighed, *kind) for kind in product(_VERDICTS, repeat=2)] if weighed else []
    return JudgeCalibration(
        evaluator=evaluator, version=version, cells=cells, audited=audited.results() if weighed else []
    )


def _cell(labels: Sequence[LabelledResult], verdict: bool, truth: bool) -> LabelCell:
    weights = [one.weight for one in labels if (one.verdict, one.truth) == (verdict, truth)]
    squares = math.fsum(one**2 for one in weights)
    return LabelCell(
        verdict=verdict, truth=truth, labels=len(weights), weight=math.fsum(weights), weight_squares=squares
    )


class _Audited:
    """Sums up the results that labels were drawn from."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_VERDICTS, Sums())

    def add(self, results: Iterable[ReviewableResult]) -> None:
        for defect, found in _summed(results).items():
            self._sums[defect] += found

    def results(self) -> list[AuditedResults]:
        return [
            AuditedResults(
                verdict=verdict,
                results=one.judged,
                weight=one.weight,
                weight_squares=one.defect_weight_squares + one.good_weight_squares,
            )
            for verdict, one in self._sums.items()
            if one.judged
        ]


def _summed(results: Iterable[ReviewableResult]) -> dict[bool, Sums]:
    found: defaultdict[bool, list[Sums]] = defaultdict(list)
    for one in results:
        found[one.defect].append(Sums.of(one.weight, defect=one.defect))
    return {defect: Sums.total(parts) for defect, parts in found.items()}


def measure(summed: JudgeCalibration, labels: ByResult) -> JudgeMeasure:
    """Measure a judge by the sums of `calibration`, and people by the results that they have both labelled."""
    judged = Sums.total(
        Sums(one.results, one.results, one.weight, one.weight, one.weight_squares)
        if one.verdict
        else Sums(one.results, 0, one.weight, 0.0, 0.0, one.weight_squares)
        for one in summed.audited
    )
    alike = [
        LabelledResult(cell.weight / cell.labels, cell.verdict, cell.truth)
        for cell in summed.cells
        for _ in range(cell.labels)
    ]
    known = shares(judged, alike)
    return JudgeMeasure(
        evaluator=summed.evaluator,
        version=summed.version,
        labels=len(alike),
        sensitivity=sensitivity(known) if known is not None else None,
        specificity=specificity(known) if known is not None else None,
        with_people=agreement([(one.verdict, one.truth, one.weight) for one in alike]),
        of_people=agreement([pair for of_one in labels.values() for pair in _pairs(of_one)]),
    )


def chance_of_lately(labels: ByResult, now: float) -> float:
    """Return `chance_if_as_good` for answers of the last `LATELY` against those before; 1 while nothing can be said.

    Where more labels were drawn than the share of the traffic justifies, only a part counts, chosen by a hash: the rest
    is as if drawn evenly from all traffic.
    """
    periods: defaultdict[bool, list[Sequence[Label]]] = defaultdict(list)
    for of_one in labels.values():
        if of_one[-1].draw.measures and truth_of(of_one) is not None:
            answered = of_one[-1].answered_at or of_one[-1].at
            periods[answered >= now - LATELY].append(of_one)
    before, lately = (_counts(periods[late]) for late in (False, True))
    return 1.0 if min(sum(before), sum(lately)) < LATELY_AT_LEAST else chance_if_as_good(before, lately)


def _counts(labels: Sequence[Sequence[Label]]) -> LabelCounts:
    heaviest: defaultdict[str, float] = defaultdict(float)
    for of_one in labels:
        heaviest[of_one[-1].app] = max(heaviest[of_one[-1].app], of_one[-1].design_weight)
    counts: Counter[tuple[bool, bool]] = Counter()
    for of_one in labels:
        one = of_one[-1]
        if _share_of_hash(one.result_id) <= one.design_weight / heaviest[one.app]:
            counts[one.judged_defect, bool(truth_of(of_one))] += 1
    return LabelCounts(*(counts[kind] for kind in ((True, True), (False, True), (True, False), (False, False))))


def _share_of_hash(name: str) -> float:
    """Return a number between 0 and 1, evenly distributed over names."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"label-thin").digest()
    return int.from_bytes(digest, "big") / 2**64


def _pairs(labels: Sequence[Label]) -> list[tuple[bool, bool, float]]:
    """Return what each pair of people said about a result, ordered by name; all pairs together count as one answer."""
    said = sorted((one.reviewer, one.verdict is LabelVerdict.DEFECT) for one in labels if one.verdict != "cannot_tell")
    pairs = list(combinations([defect for _, defect in said], 2))
    return [(*one, 1.0 / len(pairs)) for one in pairs]
