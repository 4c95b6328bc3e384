"""`RagJudgeDisagrees`: according to human labels, the judge has clearly become worse.

The tests are exact and one-sided (`statistics.review.chance_if_as_good`): labels of the last seven days' answers
against all earlier ones of the same version. For an unchanged judge, at most one comparison in 200 is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject

NAME: Final = "RagJudgeDisagrees"
LEVEL: Final = 0.005
"""The alert fires if labels this bad would be less likely than this from a judge that is as good as before."""
_CHANCE: Final = "ragmonitor_judge_as_good_probability"


class _JudgeDisagrees(Condition):
    """Compares recent labels with earlier ones."""

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:  # noqa: ARG002 - the contract's
        """Yield one finding for each evaluator and version with labels."""
        for labels, chance in self.observed.judges_as_good():
            evaluator = labels["evaluator"]
            subject = Subject(NAME, Severity.WARNING, evaluator=evaluator, version=labels["version"])
            if chance < LEVEL:
                yield subject, ConditionResult(AlertStatus.FIRING, f"The judge of {evaluator} {_WORSE}")
            else:
                yield subject, ConditionResult(AlertStatus.OK, f"The judge of {evaluator} is not clearly worse.")


_WORSE: Final = (
    "agrees with human labels less than before: if it were still as good, labels as bad as those of the last seven"
    " days' answers would come up less than once in 200 times."
)


def _tests() -> Iterator[Test]:
    of = {"evaluator": "any", "version": "1+aa"}
    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, 2 * HOUR, {**of, "severity": "warning"})]
    silent = [expect_firing(NAME, 2 * HOUR)]
    for title, values, other, checks in (
        ("clearly worse: fires", "1x15 0.002x21", "1x36", fires),
        ("on one replica only: fires", "1x36", "0.2x15 0.002x21", fires),
        ("possibly worse: silent", "1x15 0.01x21", "1x36", silent),
        ("as good as before: silent", "1x36", "1x36", silent),
    ):
        both = zip(REPLICAS, (values, other), strict=True)
        series = [input_series(_CHANCE, {**of, "instance": replica}, one) for replica, one in both]
        yield promtool_test(f"{NAME}: {title}", series, checks)
    yield promtool_test(f"{NAME}: no labels: silent", [], silent)


ALERT = SelfAlert(
    name=NAME,
    summary="According to human labels, a judge has become worse.",
    condition=_JudgeDisagrees,
    rules=(
        PrometheusRule(
            f"min by (evaluator, version) ({_CHANCE}) < {LEVEL:g}",
            f"The judge of {{{{ $labels.evaluator }}}} {_WORSE}",
        ),
    ),
    keep_firing_for=3600.0,
    tests=_tests,
)
