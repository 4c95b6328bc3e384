"""A verdict whose explanation says the opposite is marked and counted, and counts as it stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.outcome import RateScope, Score
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.scoring import checked
from monitor.storage.history.rows import as_json
from monitor.telemetry.metrics import Metrics
from tests.support.page import Site, answer
from tests.support.rubrics import shipped

pytestmark = pytest.mark.anyio

PRAISE = "All claims in the response are supported by the context."


@pytest.mark.parametrize(
    ("name", "value", "marked"),
    [("groundedness", 1, True), ("groundedness", 5, False), ("overlap_groundedness", 0.0, False)],
)
def test_a_verdict_of_a_judge_is_marked_and_its_value_left_as_it_is(name, value, marked):
    outcome = checked(shipped(name), Score(value, PRAISE))
    assert isinstance(outcome, Score)
    assert outcome.contradicts is marked
    assert (outcome.value, outcome.explanation) == (value, PRAISE)


@pytest.mark.parametrize("scope", [RateScope.LIVE, RateScope.LATE, RateScope.NON_PRODUCTION])
def test_it_is_counted_from_zero_by_how_the_score_counted(scope):
    metrics = Metrics()
    counting = ResultMetrics(metrics)
    for name in ("groundedness", "overlap_groundedness"):
        counting.declare(shipped(name), shipped(name).default_defect, "1")
    counting.prepare("shop")

    def counted(name: str, what: str) -> float | None:
        labels = {"app": "shop", "evaluator": name, "counted": what}
        return metrics.registry.get_sample_value("ragmonitor_contradictions_total", labels)

    assert [counted("groundedness", what) for what in ("defect", "passed")] == [0, 0]
    assert counted("overlap_groundedness", "defect") is None
    judged = answer(1, evaluator="groundedness", level="ungrounded", defect=True, scope=scope)
    for one in (Score(1, PRAISE, contradicts=True), Score(1, "no")):
        counting.selected("shop", "groundedness")
        level = shipped("groundedness").scale.level(1)
        counting.finished(replace(judged, outcome=one, level=level), 1.0)
    assert [counted("groundedness", what) for what in ("defect", "passed")] == [1, 0]


def test_the_row_says_so_and_no_other_row_has_the_key():
    judged = answer(1)
    assert "contradicts" not in as_json(judged)
    marked = replace(judged, outcome=replace(judged.outcome, contradicts=True))
    assert as_json(marked)["contradicts"] is True


async def test_the_page_shows_it_on_the_case_and_in_lists(tmp_path):
    site = Site(tmp_path)
    judged = answer(1)
    marked = replace(judged, outcome=replace(judged.outcome, contradicts=True))
    await site.store([marked, answer(2, question="Another?", response="Another.")])
    case = (await site.get(f"/case/{1:032x}")).body.decode()
    assert "appears to contradict the score" in case
    assert "appears to contradict the score" not in (await site.get(f"/case/{2:032x}")).body.decode()
    listed = (await site.get("/answers?outcome=score")).body.decode()
    assert listed.count("explanation contradicts score") == 1
