"""What the Judge board shows of sampling by a budget, boosted or not."""

from __future__ import annotations

from grafana.expressions import APP, EVALUATOR, increase, selector
from grafana.panels import COUNT, SHARE, Panel, Query, curve


def panels() -> list[Panel]:
    """The budget, what it leaves out, where it goes, and what that does to weights."""
    return [_budget(), _thinned(), _boost(), _weights()]


def _budget() -> Panel:
    by = "evaluator"
    cases = increase("ragmonitor_sampling_cases_total", APP, EVALUATOR, by=by)
    expected = increase("ragmonitor_sampling_expected_total", APP, EVALUATOR, by=by)
    target = increase("ragmonitor_sampling_target_total", APP, EVALUATOR, by=by)
    return curve(
        "Share of cases that the budget pays for",
        "Of evaluators that sample by a budget: the share that is judged, and (dashed) the share that the budget"
        " allows. Of few cases both jump.",
        SHARE,
        Query(f"{expected}\n/\n({cases} > 0)", "{{evaluator}}"),
        Query(f"{target}\n/\n({cases} > 0)", "{{evaluator}}: allowed"),
        overrides={"*: allowed": {"custom.lineStyle": {"fill": "dash", "dash": [8, 6]}}},
        empty="no evaluator samples by a budget",
    )


def _thinned() -> Panel:
    return curve(
        "Cases judged less often than planned",
        "Cases within the window whose probability was lowered, because the cap of the hour was near or the quota of"
        " their app nearly spent. Rates stay true; their intervals widen.",
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
        "Part of the budget that is moved to suspicious cases",
        "Of boosted sampling, within the window; the rest stays spread evenly. 0 while the model has learned too"
        " little, and of few cases a rough figure.",
        SHARE,
        Query(f"{boosted}\n/\n({expected} > 0)", "{{evaluator}}"),
        empty="no sampling is boosted",
    )


def _weights() -> Panel:
    return curve(
        "Largest weight of a verdict",
        "How many answers the heaviest single verdict of the last minutes stands for. One bad answer of great weight"
        " moves the rate, and widens its interval: few judged, and heavy, is a noisy rate.",
        COUNT,
        Query(
            f"max by (evaluator) ({selector('ragmonitor_evaluation_weight_max', APP, EVALUATOR)})",
            "{{evaluator}}",
        ),
        empty="nothing judged in this time",
    )
