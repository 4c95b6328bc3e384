"""The panels on sampling by budget, boosted or not, on the Judge dashboard."""

from __future__ import annotations

from grafana.expressions import APP, EVALUATOR, increase, selector
from grafana.panels import COUNT, SHARE, Panel, Query, curve


def panels() -> list[Panel]:
    """Build the panels on the share that the budget pays for, lowered probabilities, boosting, and weights."""
    return [_budget(), _thinned(), _boost(), _weights()]


def _budget() -> Panel:
    by = "evaluator"
    cases = increase("ragmonitor_sampling_cases_total", APP, EVALUATOR, by=by)
    expected = increase("ragmonitor_sampling_expected_total", APP, EVALUATOR, by=by)
    target = increase("ragmonitor_sampling_target_total", APP, EVALUATOR, by=by)
    return curve(
        "Share of cases evaluated within the budget",
        "For evaluators that sample by a budget: the share evaluated, and (dashed) the share that the budget allows."
        " With few cases both jump.",
        SHARE,
        Query(f"{expected}\n/\n({cases} > 0)", "{{evaluator}}"),
        Query(f"{target}\n/\n({cases} > 0)", "{{evaluator}}: allowed"),
        overrides={"*: allowed": {"custom.lineStyle": {"fill": "dash", "dash": [8, 6]}}},
        empty="no evaluator samples by a budget",
    )


def _thinned() -> Panel:
    return curve(
        "Cases sampled less than planned",
        "Cases within the window with a lowered probability, because the hourly cap was near or their app's quota"
        " nearly spent. Rates stay unbiased; intervals widen.",
        COUNT,
        Query(
            increase("ragmonitor_sampling_thinned_cases_total", APP, EVALUATOR, by="evaluator"), "{{evaluator}}: cap"
        ),
        Query(increase("ragmonitor_quota_thinned_cases_total", APP, EVALUATOR, by="app"), "{{app}}: quota"),
        stacked=True,
        empty="none",
    )


def _boost() -> Panel:
    boosted = increase("ragmonitor_sampling_boosted_total", APP, EVALUATOR, by="evaluator")
    expected = increase("ragmonitor_sampling_expected_total", APP, EVALUATOR, by="evaluator")
    return curve(
        "Share of the budget moved to suspicious cases",
        "Boosted sampling within the window; the rest of the budget is spread evenly. 0 while the model has learned"
        " too little; rough with few cases.",
        SHARE,
        Query(f"{boosted}\n/\n({expected} > 0)", "{{evaluator}}"),
        empty="no boosted sampling",
    )


def _weights() -> Panel:
    return curve(
        "Largest weight of a score",
        "Number of answers that the heaviest score of the last minutes stands for. A defect with a large weight moves"
        " the rate and widens its interval: a few heavy scores make a noisy rate.",
        COUNT,
        Query(
            f"max by (evaluator) ({selector('ragmonitor_evaluation_weight_max', APP, EVALUATOR)})",
            "{{evaluator}}",
        ),
        empty="nothing scored in this time",
    )
