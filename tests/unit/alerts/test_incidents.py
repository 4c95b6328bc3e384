"""One incident from the first alert on a rate to the end of all of them: flapping, severities, restarts, changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.incidents import DOWN_AFTER, IncidentTracker
from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.state import AlertState, AlertStatus
from monitor.model.incident import STEPS_AT_MOST, Incident, IncidentEnd, incident_id
from monitor.statistics.rates import Estimate

NOW = 1_700_000_000.0
POLICY = AlertPolicy(evaluator="grounded", warning=0.05, critical=0.15, regression=True)
THRESHOLDS = {"warning": 0.05, "critical": 0.15}


def state(
    status: str = "firing",
    severity: str = "warning",
    *,
    rate: float = 0.1,
    name: str = "RagDefectRateHigh",
    app: str = "shop",
    rule: str = "",
) -> AlertState:
    labels = {"alertname": name, "app": app, "evaluator": "grounded", "severity": severity, "version": "1"}
    return AlertState(
        status=AlertStatus(status),
        severity=Severity(severity),
        app=app,
        evaluator="grounded",
        threshold=THRESHOLDS[severity],
        since=NOW,
        window=3600.0,
        estimate=Estimate(rate, rate - 0.02, rate + 0.02, 200, 20),
        labels={**labels, **({"defect_rule": rule} if rule else {})},
    )


class Life:
    """A tracker, and what it said of each incident, by its id."""

    def __init__(self, policies: Sequence[AlertPolicy] = (POLICY,), known: Sequence[Incident] = ()) -> None:
        self.told: dict[str, Incident] = {}
        self.tracker = IncidentTracker(policies, page="https://ui.example", changed=self.note)
        self.tracker.restore(known)

    def note(self, one: Incident) -> None:
        self.told[one.id] = one

    def see(self, after: float, *states: AlertState) -> list[AlertState]:
        return self.tracker.advance(states, NOW + after)

    @property
    def only(self) -> Incident:
        (one,) = self.told.values()
        return one


def test_an_incident_lasts_from_the_first_alert_to_the_end_of_all():
    life = Life()
    life.see(0, state("ok"))
    assert not life.told
    life.see(15, state(), state("ok", "critical"))
    life.see(30, state(), state(severity="critical", rate=0.3))
    life.see(45, state("ok"), state(severity="critical", rate=0.2))
    assert life.only.open
    life.see(60, state("ok"), state("ok", "critical"))
    assert (life.only.fired, life.only.ended, life.only.end) == (NOW + 15, NOW + 60, IncidentEnd.FELL_BACK)
    assert not life.tracker.open


def test_warning_critical_and_regression_of_one_rate_are_one_incident():
    life = Life()
    life.see(0, state())
    life.see(15, state(), state(severity="critical"), state(name="RagDefectRateRegression"))
    assert {(one.name, one.severity) for one in life.only.alerts} == {
        ("RagDefectRateHigh", "warning"),
        ("RagDefectRateHigh", "critical"),
        ("RagDefectRateRegression", "warning"),
    }
    assert (life.only.severity, life.only.worst) == ("critical", "critical")


def test_its_severity_falls_and_the_worst_stays():
    life = Life()
    life.see(0, state(), state(severity="critical"))
    life.see(15, state(), state("ok", "critical"))
    assert (life.only.severity, life.only.worst) == ("warning", "critical")
    assert life.only.steps[-1].text == "The severity is now warning; it was critical."


def test_another_rate_is_another_incident():
    life = Life([POLICY, AlertPolicy(evaluator="grounded", defect={"below": 2}, warning=0.05)])
    life.see(0, state(), state(rule="below 2"), state(app="docs"))
    assert {(one.app, one.defect_rule) for one in life.told.values()} == {
        ("shop", ""),
        ("shop", "below 2"),
        ("docs", ""),
    }


def test_alerts_that_are_about_no_rate_are_no_incident():
    life = Life()
    seen = life.see(0, state(name="RagUnscoredHigh"), state(name="RagSevereCase"))
    assert not life.told
    assert "incident" not in seen[0].annotations


def test_the_highest_rate_is_kept_with_its_limits():
    life = Life()
    for number, rate in enumerate((0.1, 0.4, 0.2)):
        life.see(15 * number, state(rate=rate))
    life.see(100, state("ok"))
    peak = life.only.peak
    assert peak is not None
    assert (peak.at, peak.rate, peak.lower, peak.upper) == (NOW + 15, 0.4, 0.38, 0.42000000000000004)


def test_a_firing_alert_has_the_id_and_the_link_of_its_incident():
    life = Life()
    (seen,) = life.see(0, state())
    assert seen.annotations["incident"] == life.only.id
    assert seen.annotations["incident_url"] == f"https://ui.example/incidents/{life.only.id}"
    (later,) = life.see(3600, state())
    assert later.annotations["incident"] == life.only.id
    (over,) = life.see(3615, state("ok"))
    assert "incident" not in over.annotations


def test_the_id_is_the_same_in_every_process_and_fits_a_url():
    assert incident_id("shop", "grounded", "", NOW) == incident_id("shop", "grounded", "", NOW) == "20231114-d5debe6f"
    assert incident_id("\ud800 <b>", "grounded", "", NOW).isascii()


def test_one_that_fires_again_after_its_end_is_a_new_incident():
    life = Life()
    for at in (0, 30, 60, 90):
        life.see(at, state("firing" if at % 60 == 0 else "ok"))
    assert [(one.fired - NOW, one.open) for one in life.told.values()] == [(0, False), (60, False)]


def test_with_too_few_answers_it_ends_for_want_of_traffic():
    life = Life()
    life.see(0, state(), state("ok", "critical"))
    life.see(15, state("not_enough_data"), state("ok", "critical"))
    assert life.only.end is IncidentEnd.TOO_LITTLE_TRAFFIC


def open_one(checked: float = 0.0) -> Incident:
    life = Life()
    life.see(0, state(), state(severity="critical"))
    return replace(life.only, checked=NOW + checked)


def test_it_goes_on_after_a_restart_if_the_alert_still_fires():
    known = open_one()
    life = Life(known=[known])
    (seen,) = life.see(30, state())
    assert seen.annotations["incident"] == known.id
    assert life.only.open
    assert life.only.steps == (*known.steps, *life.only.steps[2:])


def test_a_long_pause_of_the_monitor_is_a_step_of_it():
    life = Life(known=[open_one()])
    life.see(2 * DOWN_AFTER, state())
    assert "The monitor was stopped for 20 min. The alert still fires." in [one.text for one in life.only.steps]


def test_an_alert_that_waits_for_its_end_is_not_over_because_of_a_restart():
    life = Life(known=[open_one()])
    life.see(30, state("ok"), state("ok", "critical"))
    assert life.tracker.open
    life.see(30 + POLICY.resolve_after, state("ok"), state("ok", "critical"))
    assert life.only.end is IncidentEnd.FELL_BACK


def test_one_that_is_over_when_the_monitor_comes_back_late_ended_while_it_was_stopped():
    life = Life(known=[open_one()])
    for later in (7200, 7200 + POLICY.resolve_after):
        life.see(later, state("ok"), state("ok", "critical"))
    assert (life.only.end, life.only.ended) == (IncidentEnd.MONITOR_STOPPED, NOW)


def test_what_fires_after_a_stop_that_was_longer_than_an_alert_looks_back_is_another_incident():
    known, day = open_one(), 86_400
    life = Life(known=[known])
    (seen,) = life.see(19 * day, state())
    assert (life.told[known.id].end, life.told[known.id].ended) == (IncidentEnd.MONITOR_STOPPED, NOW)
    assert seen.annotations["incident"] != known.id
    assert [one.fired for one in life.tracker.open] == [NOW + 19 * day]


def test_after_such_a_stop_it_is_over_at_the_first_check_and_not_after_a_wait():
    life = Life(known=[open_one()])
    life.see(19 * 86_400, state("not_enough_data"))
    assert (life.only.end, life.only.ended) == (IncidentEnd.MONITOR_STOPPED, NOW)


@pytest.mark.parametrize(
    ("policies", "states", "end"),
    [
        ([], [], IncidentEnd.ALERT_REMOVED),
        ([POLICY], [state("ok", name="RagDefectRateRegression")], IncidentEnd.ALERT_REMOVED),
        ([POLICY], [replace(state("ok"), threshold=0.3)], IncidentEnd.THRESHOLD_CHANGED),
        (
            [POLICY],
            [replace(state("not_enough_data"), labels={**state().labels, "version": "2"})],
            IncidentEnd.EVALUATOR_CHANGED,
        ),
    ],
)
def test_a_new_configuration_ends_it_at_the_first_check(
    policies: list[AlertPolicy], states: list[AlertState], end: IncidentEnd
):
    life = Life(policies, [open_one()])
    life.see(30, *states)
    assert (life.only.end, life.only.ended) == (end, NOW + 30)


def test_a_clock_that_is_set_back_keeps_it():
    life = Life()
    life.see(0, state())
    life.see(-3600, state())
    assert (life.only.fired, life.only.checked) == (NOW, NOW)
    life.see(-3000, state("ok"))
    assert life.only.ended == NOW


def test_what_happens_in_it_is_bounded():
    life = Life()
    for number in range(500):
        life.see(15 * number, state(), state("firing" if number % 2 else "ok", "critical"))
    assert len(life.only.steps) == STEPS_AT_MOST
    assert life.only.steps[0].at == NOW


STATUSES = st.sampled_from(["firing", "ok", "not_enough_data"])


@given(st.lists(st.tuples(STATUSES, STATUSES, st.booleans()), max_size=40))
def test_at_any_time_an_incident_is_open_just_while_an_alert_fires_and_all_that_end_say_why(
    checks: list[tuple[str, str, bool]],
):
    life, told = Life(), dict[str, Incident]()
    for number, (warning, critical, restart) in enumerate(checks):
        if restart:  # at once: the hold of the alert is over only after five minutes
            life = Life(known=[one for one in told.values() if one.open])
            life.told = told
        life.see(600 * number, state(warning), state(critical, "critical"))
        life.see(600 * number + 301, state(warning), state(critical, "critical"))
        told = life.told
        still = [one for one in told.values() if one.open]
        assert len(still) == ("firing" in (warning, critical))
        assert tuple(still) == life.tracker.open
    assert all((one.end is None) == one.open for one in told.values())
    assert all(one.ended is None or one.fired <= one.ended for one in told.values())
    assert [key for key, one in told.items() if one.id != key] == []
