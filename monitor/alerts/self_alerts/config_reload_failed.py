"""`RagConfigReloadFailed`: the configuration file was changed and cannot be used, so the previous one stays in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject

NAME: Final = "RagConfigReloadFailed"
_SUCCESSFUL: Final = "ragmonitor_config_last_reload_successful"


class _ConfigReloadFailed(Condition):
    """Checks how the last reload ended."""

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:  # noqa: ARG002 - until the next reload
        """Yield one finding for the process."""
        why = self.observed.reload_failed()
        text = f"The last reload failed: {why}" if why else "The configuration in use is that of the last reload."
        yield Subject(NAME, Severity.WARNING), ConditionResult(AlertStatus.FIRING if why else AlertStatus.OK, text)


def _tests() -> Iterator[Test]:
    one, other = REPLICAS
    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, 2 * HOUR, {"severity": "warning"})]
    silent = [expect_firing(NAME, 2 * HOUR)]
    for title, values, checks in (
        ("one replica could not use the file for an hour: fires", "1x12 0x24", fires),
        ("it was fixed: silent", "1x12 0x6 1x18", silent),
        ("each reload was successful: silent", "1x36", silent),
    ):
        series = [input_series(_SUCCESSFUL, {"instance": at}, given) for at, given in ((one, values), (other, "1x36"))]
        yield promtool_test(f"{NAME}: {title}", series, checks)
    yield promtool_test(f"{NAME}: no data: silent", [], silent)


ALERT = SelfAlert(
    name=NAME,
    summary="A changed configuration cannot be used; the previous one stays in use.",
    condition=_ConfigReloadFailed,
    rules=(
        PrometheusRule(
            f"min({_SUCCESSFUL}) == 0",
            "The last reload of the configuration failed on a replica; it still runs with the previous one. Its log"
            " (event `reload_failed`) and its web UI say why. If it is restarted now, it will not start.",
        ),
    ),
    tests=_tests,
)
