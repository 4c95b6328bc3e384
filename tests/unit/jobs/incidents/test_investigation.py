"""What the history says of an incident: its onset, its size, what changed, and its worst answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.jobs.incidents.investigation import Investigation
from monitor.model.incident import FiredAlert, Incident, IncidentOnset, RatePeak
from monitor.model.outcome import DefectRule
from monitor.model.service_version import ServiceVersion
from monitor.storage.history.reader import HistoryReader
from tests.support import rise

pytestmark = pytest.mark.anyio
ROSE = rise.NOW - rise.SINCE * rise.PERIOD


def incident(**given: object) -> Incident:
    fired = rise.NOW - 3600.0
    one = Incident(
        id="20231114-0000000a",
        app="shop",
        evaluator="overlap_groundedness",
        defect_rule="",
        version="v1",
        fired=fired,
        checked=rise.NOW,
        severity="warning",
        worst="warning",
        alerts=(FiredAlert("RagDefectRateHigh", "warning", 0.1),),
        peak=RatePeak(fired, 0.5, 0.4, 0.6, 100, 50, 6 * rise.HOUR),
    )
    return replace(one, **given)  # type: ignore[arg-type]


def investigation(folder: Path, *rules: DefectRule) -> Investigation:
    scales = {"overlap_groundedness": OverlapGroundedness().scale}
    history = HistoryReader(folder / "data" / "history.db")
    return Investigation(history, scales, {"overlap_groundedness": rules})


async def test_it_says_since_when_how_many_and_which_were_the_worst(tmp_path: Path):
    results = rise.results(lambda one: rise.mixed(one) % 10 < 6)
    await rise.kept(tmp_path, results, texts="all")
    found = investigation(tmp_path).look(incident(), rise.NOW)
    assert found.onset is not None
    assert found.onset.earliest <= ROSE + rise.PERIOD
    assert abs(found.onset.at - ROSE) < 30 * 60
    assert found.onset.latest >= ROSE - rise.PERIOD
    since = [one for one in results if (one.case.answered_at or 0.0) >= found.onset.at // 60 * 60]
    assert found.impact is not None
    assert (found.impact.judged, found.impact.defects) == (len(since), sum(one.defect for one in since))
    assert found.impact.bad_lower < found.impact.bad_answers == pytest.approx(10.0 * found.impact.defects)
    assert len(found.answers) == 10
    assert all(one.score == 1.0 and one.at >= found.onset.earliest and one.response for one in found.answers)
    assert len({one.question for one in found.answers}) == 10
    assert all(one.user.startswith("user-") for one in found.answers)


async def test_without_texts_in_the_history_there_are_none_in_an_incident(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common), texts="none")
    found = investigation(tmp_path).look(incident(), rise.NOW)
    assert found.answers
    assert {(one.question, one.response, one.explanation) for one in found.answers} == {(None, None, "")}


async def test_the_onset_of_a_diagnosis_counts_before_that_of_the_sums(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common))
    onset = IncidentOnset(ROSE, ROSE - 60, ROSE + 60)
    assert investigation(tmp_path).look(incident(), rise.NOW, onset).onset == onset


async def test_without_days_before_or_without_a_rise_there_is_no_onset(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(lambda _: False, number=rise.NUMBER))
    young = investigation(tmp_path).look(incident(fired=rise.NOW - 24 * rise.HOUR), rise.NOW)
    assert young.onset is None
    other = investigation(tmp_path).look(incident(app="docs"), rise.NOW)
    assert other == (None, [], None, [])


async def test_without_an_onset_the_window_that_the_alert_fired_for_counts_also_where_traffic_ended_before(
    tmp_path: Path,
):
    results = rise.results(lambda one: one % 2 == 0, number=60)
    await rise.kept(tmp_path, results, texts="all")
    late = incident(fired=rise.NOW + 120, window=1200.0)
    found = investigation(tmp_path).look(late, rise.NOW + 180)
    assert found.onset is None
    within = [one for one in results if (one.case.answered_at or 0.0) >= (late.fired - 1200.0) // 60 * 60]
    assert found.impact is not None
    assert found.impact.since == late.fired - 1200.0
    assert (found.impact.judged, found.impact.defects) == (len(within), sum(one.defect for one in within))
    assert found.answers
    assert all(one.at >= found.impact.since for one in found.answers)


async def test_it_names_the_changes_of_the_day_before_the_onset_and_since(tmp_path: Path):
    results = rise.results(rise.common)
    versions = [ServiceVersion(evaluator="v1", prompt=prompt) for prompt in ("1", "2", "3")]
    begins = [0, rise.NUMBER - 2 * rise.SINCE, rise.NUMBER - rise.SINCE]
    for begin, version in zip(begins, versions, strict=True):
        results[begin:] = [replace(one, service_version=version) for one in results[begin:]]
    await rise.kept(tmp_path, results)
    found = investigation(tmp_path).look(incident(), rise.NOW)
    assert [one.text for one in found.changes] == ["prompt 1 -> 2", "prompt 2 -> 3"]
    assert abs(found.changes[1].at - ROSE) < 2 * rise.PERIOD


async def test_by_an_alerts_own_rule_the_worst_are_those_that_it_calls_bad(tmp_path: Path):
    rule = DefectRule("below", 2.0)
    results = [replace(one, alert_defects={rule.name: one.defect}) for one in rise.results(rise.common)]
    await rise.kept(tmp_path, results)
    found = investigation(tmp_path, rule).look(incident(defect_rule=rule.name), rise.NOW)
    assert found.onset is not None
    assert found.impact is not None
    assert found.impact.defects > 0
    assert {one.score for one in found.answers} == {1.0}


async def test_of_an_incident_that_is_over_nothing_later_counts(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common))
    ended = rise.NOW - 1800.0
    found = investigation(tmp_path).look(incident(ended=ended), rise.NOW)
    assert found.impact is not None
    assert found.impact.until == ended
    assert all(one.at <= ended + 1 for one in found.answers)
