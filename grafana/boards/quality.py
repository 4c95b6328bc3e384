"""Quality: an app's rates, with what they rest on."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, STEP, Rate, increase, selector, threshold
from grafana.panels import BLUE, COUNT, FEW, GREEN, GREY, ORANGE, RED, SHARE, Panel, Query, band, colours, curve, heat
from grafana.tables import UNSET, Column, few, rows


def board() -> build.Dashboard:
    """An app's rates with their intervals, a row for each evaluator, then by version, by slice, and what is apart."""
    return made(
        "quality",
        "RAG quality / Quality",
        "The rates of bad answers of one app: estimates for all of its traffic, with the limits of 95 % intervals.",
        Chosen(slices=True),
        [
            Row("$evaluator", [_rate(), _judged(), _scores(), _week(), _slices(), _slice_trend()], repeat="evaluator"),
            Row("Versions", [_versions()]),
            Row("Kept apart: late verdicts, traffic that is not production", [_late(), _aside()]),
        ],
    )


_THIN = " Where few are judged the band is wide: that is the news, not the line in it."


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Rate of bad answers",
        "Share of bad answers in all traffic, each point over the window before it, and its 95 % interval (of gamma"
        " type, as alerts use). Dashed: the configured thresholds; an alert fires when the whole interval is above one."
        " While a change is rolled out, the version that judged most." + _THIN,
        Query(rate.leading(rate.rate), "rate"),
        Query(rate.leading(rate.lower), "lower"),
        Query(rate.leading(rate.upper), "upper"),
        Query(threshold("warning", ONE_APP), "warning"),
        Query(threshold("critical", ONE_APP), "critical"),
        width=10,
        height=8,
    )


def _judged() -> Panel:
    defects = 'defect="true"'
    return curve(
        "Judged, and bad ones (dots open the trace)",
        "How many were judged in the window before each point, and how many of them are bad; unweighted, so their"
        " quotient is not the rate. Dots are single bad answers and open their trace. With fewer than 30 judged a rate"
        " says little.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by=""), "judged"),
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, defects, by=""), "bad", exemplars=True),
        overrides={
            **colours({"judged": GREY, "bad": RED}),
            "judged": {"color": {"mode": "fixed", "fixedColor": GREY}, "custom.fillOpacity": 10},
        },
        width=7,
        height=8,
        empty="nothing judged in this time",
    )


def _scores() -> Panel:
    buckets = increase("ragmonitor_evaluation_score_bucket", ONE_APP, EVALUATOR, by="le", window=STEP)
    return heat(
        "Scores",
        "How many verdicts of all versions had which score, on the evaluator's own scale, between two points of the"
        " graph. Unweighted: what was judged, not all traffic. A column with few verdicts is pale.",
        COUNT,
        Query(buckets, "{{le}}", exemplars=True),
        width=7,
    )


def _week() -> Panel:
    now = Rate((ONE_APP, EVALUATOR))
    before = now.before("1w")
    return band(
        "Now against last week",
        "The rate and its 95 % interval, and the rate of the same hours a week before. A rate that is within the band"
        " of the other is no change. Empty for the first week, and where Prometheus keeps less than eight days. With"
        " few judged both jump; `RagDefectRateRegression` compares with all of the seven days before.",
        Query(now.leading(now.rate), "rate"),
        Query(now.leading(now.lower), "lower"),
        Query(now.leading(now.upper), "upper"),
        Query(before.leading(before.rate), "a week before"),
        width=8,
        height=8,
    )


def _versions() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return rows(
        "By version",
        "A row for each version of an evaluator (its prompt or code, its options, the judge's model) that judged within"
        " the window. Each is an instrument of its own: compare rates within one. Few: under 30 judged.",
        Column("evaluator"),
        Column("version"),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("judged", f"{rate.judged} > 0", COUNT, few(FEW)),
        width=24,
        sort=("rate",),
        hide=("app",),
    )


def _sliced() -> Rate:
    return Rate(matchers=(ONE_APP, EVALUATOR, 'slice="$slice"'), sliced="value")


def _slices() -> Panel:
    rate = _sliced()
    return rows(
        "By slice",
        "The rate for each value of the chosen slice over the window, and its 95 % interval. Slices are configured"
        " (`slices`); 20 values an app, the rest is `__other__`, an empty value is a request without the attribute."
        " Slices have few judged each: compare intervals, not rates. Few: under 30.",
        Column("value", properties=UNSET),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("judged", f"{rate.judged} > 0", COUNT, few(FEW)),
        width=8,
        sort=("rate",),
        hide=("app", "evaluator", "version"),
    )


def _slice_trend() -> Panel:
    rate = _sliced()
    return curve(
        "By slice over time",
        "The same rates over time, without their limits: lines of values with few judged jump by chance. While a change"
        " is rolled out there is a line for each version.",
        SHARE,
        Query(f'label_replace(\n{rate.rate},\n"value", "(none)", "value", ""\n)', "{{value}}"),
        width=8,
        empty="no slices are configured, or nothing was judged",
    )


def _late() -> Panel:
    return curve(
        "Late verdicts",
        "Verdicts that came later after the answer than `traffic.late_after`, by outcome. They add to no rate above: a"
        " backlog that is worked off raises no alert.",
        COUNT,
        Query(increase("ragmonitor_late_evaluations_total", ONE_APP, EVALUATOR, by="outcome"), "{{outcome}}"),
        overrides=colours({"passed": GREEN, "defect": RED, "unscored": ORANGE, "skipped": GREY}),
        empty="none was late",
    )


def _aside() -> Panel:
    by = "by (traffic, evaluator, version)"
    of = "ragmonitor_non_production_evaluation_weight_total"
    bad, scored = (selector(of, ONE_APP, EVALUATOR, f'outcome=~"{outcome}"') for outcome in ("defect", "passed|defect"))
    return curve(
        "Rate of bad answers in other traffic",
        "Experiments, synthetic and internal requests, which no rate above includes. Without limits: with few judged it"
        " jumps by chance. A line for each version of an evaluator.",
        SHARE,
        Query(
            f"sum {by} (increase({bad}[$window]))\n/\n(sum {by} (increase({scored}[$window])) > 0)",
            "{{traffic}}: {{evaluator}}",
        ),
        overrides=colours({"internal*": BLUE}),
        empty="all traffic is production",
    )
