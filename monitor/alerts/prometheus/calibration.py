"""The corrected rate in PromQL, from the sums of human labels: the arithmetic of `statistics/correction.py`.

It is recorded in addition to the raw rate; only alerts that ask for it use it. Labels and results are joined by
version, since a judge with another model or prompt makes other errors. Replicas may all have the same labels, so the
largest of each sum counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from monitor.alerts.prometheus.promql import BY_EVALUATOR, Rule, record
from monitor.alerts.prometheus.rates import WEEK
from monitor.quantities import format_duration
from monitor.statistics.change import DAY
from monitor.statistics.correction import LABELS_NEEDED, Z_JUDGE
from monitor.statistics.rates import Z_95

_RECORDED = BY_EVALUATOR.recorded
_JUDGE = "evaluator_version:ragmonitor_"
_CELL = "evaluator_version_verdict_truth:ragmonitor_calibration_"
_KIND = "evaluator_version_verdict:ragmonitor_calibration_"
_SUM = "sum by (evaluator, version) "
_OF_JUDGE = "on (evaluator, version) group_left ()"
_SENSITIVITY, _SPECIFICITY = f"{_JUDGE}sensitivity", f"{_JUDGE}specificity"
_POWER = f"{_JUDGE}power"


def records() -> list[Rule]:
    """Return the rules of one group; other groups record the sums and the rates of a day and of a week."""
    return [
        *_labels(),
        *_quality(_SENSITIVITY, "defect"),
        *_quality(_SPECIFICITY, "good"),
        *_power(),
        *_corrected(DAY),
        *_corrected(WEEK),
        *_audited(),
    ]


def _labels() -> list[Rule]:
    cells, kinds = ("labels", "label_weight", "label_weight_squares"), ("results", "result_weight")
    largest = "max by (evaluator, version, verdict"
    return [
        *(record(f"{_CELL}{name}:max", f"{largest}, truth) (ragmonitor_calibration_{name})") for name in cells),
        *(
            record(f"{_KIND}{name}:max", f"{largest}) (ragmonitor_calibration_{name})")
            for name in (*kinds, "result_weight_squares")
        ),
    ]


def _quality(name: str, kind: str) -> list[Rule]:
    """Record the share of labels of a kind that the judge gets right; for limits, after Agresti and Coull."""
    right = f'{_SUM}({_CELL}label_weight:max{{verdict="{kind}",truth="{kind}"}})'
    all_of_kind = f'{_SUM}({_CELL}label_weight:max{{truth="{kind}"}})'
    squares = [
        f'{_SUM}({_CELL}label_weight_squares:max{{verdict{sign}"{kind}",truth="{kind}"}})' for sign in ("=", "!=")
    ]
    number, pulled = f"{name}:effective_labels", f"{name}:pulled"
    return [
        record(f"{name}:ratio", f"clamp_max({right} / ({all_of_kind} > 0), 1)"),
        record(number, _effective(f"({all_of_kind} > 0)", f"{name}:ratio", *squares)),
        record(pulled, f"({number} * {name}:ratio + 1) / ({number} + 2)"),
        record(f"{name}:variance", f"{pulled} * (1 - {pulled}) / ({number} + 2)"),
    ]


def _power() -> list[Rule]:
    """Record how far the judge is above chance, 0 to 1; no series if it is not above, or with too few labels."""
    of_each = f"sum by (evaluator, version, truth) ({_CELL}labels:max)"
    return [
        record(
            f"{_POWER}:ratio",
            f"{_SENSITIVITY}:ratio + {_SPECIFICITY}:ratio - 1 > 0\n"
            f"and on (evaluator, version)\n{_SENSITIVITY}:pulled + {_SPECIFICITY}:pulled - 1 > 0\n"
            f"and on (evaluator, version)\nmin by (evaluator, version) ({of_each}) >= {LABELS_NEEDED}",
        ),
        record(
            f"{_POWER}:pulled",
            f"{_SENSITIVITY}:pulled + {_SPECIFICITY}:pulled - 1\nand on (evaluator, version)\n{_POWER}:ratio",
        ),
    ]


def _corrected(window: float) -> list[Rule]:
    """Record the rate by Rogan and Gladen, with the limits of Lang and Reiczigel."""
    span = format_duration(window)
    rate, number = f"{_RECORDED}defect_ratio:rate{span}", f"{_RECORDED}effective_judged:increase{span}"
    weight = f"{_RECORDED}evaluation_weight:increase{span}"
    corrected = f"{_RECORDED}corrected_defect_ratio"
    shown, middle = f"{_RECORDED}defect_ratio:pulled{span}", f"{corrected}:middle{span}"
    spread, centre = f"{corrected}:spread{span}", f"{corrected}:centre{span}"
    z2 = Z_95**2
    missed = f"{_OF_JUDGE} {_SENSITIVITY}:variance"
    alarmed = f"{_OF_JUDGE} {_SPECIFICITY}:variance"
    return [
        *_effective_by_session(number, weight, rate, span),
        record(shown, f"({number} * {rate} + {z2 / 2:.9g}) / ({number} + {z2:.9g})"),
        record(middle, f"({shown} + {_OF_JUDGE} {_SPECIFICITY}:pulled - 1) / {_OF_JUDGE} {_POWER}:pulled"),
        record(
            spread,
            f"sqrt(\n  {shown} * (1 - {shown}) / ({number} + {z2:.9g})\n"
            f"  + {middle} ^ 2 * {missed}\n  + (1 - {middle}) ^ 2 * {alarmed}\n)\n/ {_OF_JUDGE} {_POWER}:pulled",
        ),
        record(centre, f"{middle} + {2 * z2:.9g} * ({middle} * {missed} - (1 - {middle}) * {alarmed})"),
        record(
            f"{corrected}:rate{span}",
            f"clamp(\n  ({rate} + {_OF_JUDGE} {_SPECIFICITY}:ratio - 1) / {_OF_JUDGE} {_POWER}:ratio,\n  0, 1\n)",
        ),
        *_limits(corrected, span, centre, f"{Z_95} * {spread}"),
    ]


def surely_corrected(windows: Iterable[tuple[float, str]]) -> list[Rule]:
    """Record limits of `statistics.correction.surely_corrected`: for each window, the `lower` or the `upper` ones."""
    found = []
    missed, alarmed = f"{_OF_JUDGE} {_SENSITIVITY}:variance", f"{_OF_JUDGE} {_SPECIFICITY}:variance"
    for window, which in windows:
        span, sign = format_duration(window), "-" if which == "lower" else "+"
        limit = f"{_RECORDED}surely_corrected_defect_ratio"
        point = f"{limit}:{which}_point{span}"
        found += [
            record(
                point,
                f"clamp(\n  ({_RECORDED}defect_ratio:{which}{span} + {_OF_JUDGE} {_SPECIFICITY}:ratio - 1)"
                f" / {_OF_JUDGE} {_POWER}:ratio,\n  0, 1\n)",
            ),
            record(
                f"{limit}:{which}{span}",
                f"clamp(\n  {point} {sign} {Z_JUDGE} * sqrt({point} ^ 2 * {missed} + (1 - {point}) ^ 2 * {alarmed})"
                f" / {_OF_JUDGE} {_POWER}:ratio,\n  0, 1\n)",
            ),
        ]
    return found


def _audited() -> list[Rule]:
    """Record the rate of randomly audited results: the raw rate, and how people and the judge differ."""
    audited = f"{_JUDGE}audited_defect_ratio"
    weight = f"{_SUM}({_KIND}result_weight:max)"
    raw, number = f"{audited}:raw", f"{_JUDGE}audited_results:effective"
    difference, spread, unclamped = f"{audited}:difference", f"{audited}:spread", f"{audited}:unclamped"
    labels = f"{_SUM}({_CELL}labels:max)"
    label_weight, label_squares = (f"{_SUM}({_CELL}{name}:max)" for name in ("label_weight", "label_weight_squares"))

    def of(name: str, verdict: str, truth: str) -> str:
        return f'{_SUM}({_CELL}{name}:max{{verdict="{verdict}",truth="{truth}"}})'

    found = f'{_SUM}({_KIND}result_weight:max{{verdict="defect"}})'
    squares_of = [f'{_SUM}({_KIND}result_weight_squares:max{{verdict="{kind}"}})' for kind in ("defect", "good")]
    missed, alarmed = of("label_weight", "good", "defect"), of("label_weight", "defect", "good")
    disagreeing = (
        f"{of('label_weight_squares', 'good', 'defect')} * (1 - {difference}) ^ 2\n"
        f"  + {of('label_weight_squares', 'defect', 'good')} * (1 + {difference}) ^ 2\n"
        f"  + ({of('label_weight_squares', 'defect', 'defect')} + {of('label_weight_squares', 'good', 'good')})"
        f" * {difference} ^ 2\n"
        f"  + 2 * ({label_squares} / {label_weight}) ^ 2"
    )
    remaining = f"clamp_min(1 - {labels} / {_SUM}({_KIND}results:max), 0)"
    first = f"clamp({unclamped}, 0, 1)"
    even = f"({first} * (1 - {first}) > {raw} * (1 - {raw}) or {raw} * (1 - {raw}))"
    return [
        record(raw, f"clamp_max({found} / ({weight} > 0), 1)\nand\n{labels} >= {2 * LABELS_NEEDED}"),
        record(number, _effective(f"({weight})", raw, *squares_of)),
        record(difference, f"({missed} - {alarmed}) / ({label_weight} > 0)\nand\n{raw}"),
        record(unclamped, f"{raw} + {difference}"),
        record(
            spread, f"sqrt(\n  (\n  {disagreeing}\n  ) / {label_weight} ^ 2\n  * {remaining}\n  + {even} / {number}\n)"
        ),
        record(f"{audited}:rate", first),
        *_limits(audited, "", unclamped, f"{Z_95} * {spread}"),
    ]


def _effective(weight: str, rate: str, defect_squares: str, good_squares: str) -> str:
    """Write `rates.effective_judged` by answer: from the variance of the rate, and never more than Kish's number."""
    kish = f"{weight} ^ 2 / ({defect_squares} + {good_squares} > 0)"
    variance = _variance(rate, defect_squares, good_squares)
    return f"({rate} * (1 - {rate}) * {weight} ^ 2 / {variance} > 0) < {kish}\nor\n{kish}"


def _effective_by_session(number: str, weight: str, rate: str, span: str) -> list[Rule]:
    """Record `rates.effective_judged` as `number`: if all answers are alike, their sessions count."""
    bad, good = (f"{_RECORDED}{name}_weight_squares:increase{span}" for name in ("defect", "good"))
    defects, every, both = (f"{_RECORDED}{name}_products:increase{span}" for name in ("defect", "every", "both"))
    variance, alike = f"{_RECORDED}defect_weight:variance{span}", f"{_RECORDED}session_squares:increase{span}"
    by_answer, kish = _variance(rate, bad, good), f"{weight} ^ 2 / ({bad} + {good} > 0)"
    differ = f"{rate} * (1 - {rate})"
    return [
        record(
            variance,
            f"{defects} - 2 * {rate} * {both} + {rate} ^ 2 * {every} > {by_answer}\nor\n{by_answer}",
        ),
        record(alike, f"{every} > {bad} + {good}\nor\n{bad} + {good}"),
        record(
            number,
            f"({differ} * {weight} ^ 2 / {variance} > 0) < {kish}\n"
            f"or\n{kish} and {differ} > 0\n"
            f"or\n{weight} ^ 2 / ({alike} > 0)",
        ),
    ]


def _variance(rate: str, defect_squares: str, good_squares: str) -> str:
    return f"({defect_squares} * (1 - {rate}) ^ 2 + {good_squares} * {rate} ^ 2 > 0)"


def _limits(ratio: str, span: str, centre: str, half: str) -> list[Rule]:
    """Record both limits, clamped to 0 and 1, and never on the wrong side of the rate."""
    rate = f"{ratio}:rate{span}"
    return [
        record(f"{ratio}:lower{span}", f"clamp_min({centre} - {half}, 0) < {rate}\nor\n{rate}"),
        record(f"{ratio}:upper{span}", f"clamp_max({centre} + {half}, 1) > {rate}\nor\n{rate}"),
    ]
