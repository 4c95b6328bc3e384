"""The Quality dashboard: the rates of one app, and the data behind them."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, STEP, Rate, increase, rule_threshold, selector, threshold
from grafana.panels import BLUE, COUNT, FEW, GREEN, GREY, ORANGE, RED, SHARE, Panel, Query, band, colours, curve, heat
from grafana.tables import UNSET, Column, few, rows


def board() -> build.Dashboard:
    """Build the rates of one app: a row per evaluator, then versions, then results outside the rates."""
    return made(
        "quality",
        "RAG quality / Quality",
        "The defect rates of one app: estimates for all its traffic, with 95 % intervals.",
        Chosen(slices=True),
        [
            Row("$evaluator", [_rate(), _judged(), _scores(), _week(), _slices(), _slice_trend()], repeat="evaluator"),
            Row("By the defect rules of alerts", [_rules(), _rules_trend()]),
            Row("Versions", [_versions()]),
            Row("Not in the rates: late results, non-production traffic", [_late(), _aside()]),
        ],
    )


_THIN = " With few scored answers the band is wide: look at the band, not the line."


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Defect rate",
        "Share of defects in all traffic, each point over the window before it, with its 95 % interval, as"
        " in alerts. Dashed: thresholds; an alert fires when the whole interval is above one. During a rollout,"
        " shows the version with the most scores." + _THIN,
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
        "Scored answers and defects (points open the trace)",
        "Scored answers within the window before each point, and defects among them. Unweighted: their ratio is not"
        " the rate. Each point is one defective answer and opens its trace. With fewer than 30 scored, a rate means"
        " little.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by=""), "scored"),
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, defects, by=""), "defects", exemplars=True),
        overrides={
            **colours({"scored": GREY, "defects": RED}),
            "scored": {"color": {"mode": "fixed", "fixedColor": GREY}, "custom.fillOpacity": 10},
        },
        width=7,
        height=8,
        empty="nothing scored in this time",
    )


def _scores() -> Panel:
    buckets = increase("ragmonitor_evaluation_score_bucket", ONE_APP, EVALUATOR, by="le", window=STEP)
    return heat(
        "Scores",
        "Scores of all versions on the evaluator's own scale, per step of the graph. Unweighted: scored answers, not"
        " all traffic. A column with few scores is pale.",
        COUNT,
        Query(buckets, "{{le}}", exemplars=True),
        width=7,
    )


def _week() -> Panel:
    now = Rate((ONE_APP, EVALUATOR))
    before = now.before("1w")
    return band(
        "This week and last week",
        "The rate with its 95 % interval, and the rate at the same time a week earlier. A rate within the other's"
        " band is no change. Empty in the first week, and if Prometheus keeps less than eight days. With few scored"
        " answers both jump; `RagDefectRateRegression` compares with all of the seven days before.",
        Query(now.leading(now.rate), "rate"),
        Query(now.leading(now.lower), "lower"),
        Query(now.leading(now.upper), "upper"),
        Query(before.leading(before.rate), "a week earlier"),
        width=8,
        height=8,
    )


def _versions() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    scored = f"{rate.scored} > 0"
    return rows(
        "By version",
        "One row per version of an evaluator (prompt or code, options, judge model) with scores within the window."
        " Versions measure differently: compare rates of one version only. Few: under 30 scored.",
        Column("evaluator"),
        Column("version"),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}, rows=scored),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}, rows=scored),
        Column("scored", scored, COUNT, few(FEW)),
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
        "The rate for each value of the chosen slice over the window, with its 95 % interval. Configure slices with"
        " `slices`. Up to 20 values per app; the rest is `__other__`. (none) means that the attribute is missing. Each"
        " value has few scored answers: compare intervals, not rates. Few: under 30.",
        Column("value", properties=UNSET),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("scored", f"{rate.scored} > 0", COUNT, few(FEW)),
        width=8,
        sort=("rate",),
        hide=("app", "evaluator", "version"),
    )


def _slice_trend() -> Panel:
    rate = _sliced()
    return curve(
        "By slice over time",
        "The same rates over time, without intervals: lines with few scored answers jump by chance. During a rollout"
        " there is a line per version.",
        SHARE,
        Query(f'label_replace(\n{rate.rate},\n"value", "(none)", "value", ""\n)', "{{value}}"),
        width=8,
        empty="no slices are configured, or nothing was scored",
    )


def _by_rule() -> Rate:
    return Rate((ONE_APP,), sliced="defect_rule")


def _rules() -> Panel:
    rate = _by_rule()
    scored = f"{rate.scored} > 0"

    def threshold_by_rule(severity: str) -> str:
        return f"{rate.weight} * 0\n+ on (app, evaluator, defect_rule) group_left ()\n{rule_threshold(severity)}"

    return rows(
        "By the defect rules of alerts",
        "For alerts with a `defect` of their own: the rate by that rule over the window, with its 95 % interval and its"
        " thresholds. This interval treats answers as independent; alerts count bad answers of a session together, so"
        " theirs may be wider. Few: under 30 scored.",
        Column("evaluator"),
        Column("rule", label="defect_rule"),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("scored", scored, COUNT, few(FEW)),
        Column("warning", threshold_by_rule("warning"), SHARE, {"custom.width": 80}, rows=scored),
        Column("critical", threshold_by_rule("critical"), SHARE, {"custom.width": 80}, rows=scored),
        width=14,
        sort=("rate",),
        hide=("app", "version"),
    )


def _rules_trend() -> Panel:
    return curve(
        "By the defect rules of alerts, over time",
        "The same rates over time, without intervals: lines with few scored answers jump by chance. During a rollout"
        " there is a line per version.",
        SHARE,
        Query(_by_rule().rate, "{{evaluator}}: {{defect_rule}}"),
        width=10,
        empty="no alert has a defect rule of its own, or nothing was scored",
    )


def _late() -> Panel:
    return curve(
        "Late results",
        "Results that arrived more than `traffic.late_after` after the answer, by outcome. They count in no rate above,"
        " so a backlog raises no alert.",
        COUNT,
        Query(increase("ragmonitor_late_evaluations_total", ONE_APP, EVALUATOR, by="outcome"), "{{outcome}}"),
        overrides=colours({"passed": GREEN, "defect": RED, "unscored": ORANGE, "skipped": GREY}),
        empty="no late results",
    )


def _aside() -> Panel:
    by = "by (traffic, evaluator, version)"
    of = "ragmonitor_non_production_evaluation_weight_total"
    bad, scored = (selector(of, ONE_APP, EVALUATOR, f'outcome=~"{outcome}"') for outcome in ("defect", "passed|defect"))
    return curve(
        "Defect rate of non-production traffic",
        "Experiments, synthetic and internal requests, which count in no rate above. Without intervals: with few"
        " scored answers it jumps by chance. One line per version of an evaluator.",
        SHARE,
        Query(
            f"sum {by} (increase({bad}[$window]))\n/\n(sum {by} (increase({scored}[$window])) > 0)",
            "{{traffic}}: {{evaluator}}",
        ),
        overrides=colours({"internal*": BLUE}),
        empty="all traffic is production",
    )
