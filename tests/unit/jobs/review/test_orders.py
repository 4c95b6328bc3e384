"""Orders that a person asks for: each brings its own answers, and none measures the judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData
from monitor.jobs.review import ReviewQueue
from monitor.jobs.review.orders import ReviewOrder, WantedOrder
from monitor.model.case import Request
from monitor.model.external import USER_FEEDBACK, ScoreSource
from monitor.model.incident import Incident
from monitor.model.label import LabelDraw, LabelVerdict
from monitor.model.outcome import EvaluationResult, Level, RecheckOutcome, Scale, Score
from monitor.model.severe import SecondJudgement, SevereOutcome
from monitor.sinks.history import HistorySink
from monitor.storage.incidents import IncidentFile
from monitor.storage.state_file import open_state
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
NOW = 1_700_000_500.0
HOSTILE = "incident:' OR 1=1; --\x00\ud800<script>" + "x" * 9_000


async def queue(folder: Path, results: list[EvaluationResult]) -> ReviewQueue:
    clock = ManualClock(NOW)
    async with HistorySink(path=folder / "history.db", texts="all").open(runtime(clock)) as deliver:
        await deliver(results)
    scale = {"groundedness": Scale(1, 5, "higher", (Level("poor", 1), Level("good", 3)))}
    return ReviewQueue(folder, scale, {"groundedness": "v1"}, runtime(clock), retention=7 * 86400.0)


async def reviewed(review: ReviewQueue, order: str) -> list[str]:
    """Label all that an order brings; the requests in their order."""
    found = []
    while (case := await review.next("shop", "groundedness", "ana", order)) is not None:
        found.append(case.request_id)
        await review.record(case.result_id, "ana", LabelVerdict.GOOD)
    assert {one.draw for one in review.labels.find()} <= {LabelDraw.PICKED}
    assert (await review.status("shop", "groundedness")).labels == 0
    return found


def names(*numbers: int) -> list[str]:
    return [f"{one:032x}" for one in numbers]


def said_by_user(number: int, *, down: bool, **fields: Any) -> EvaluationResult:
    about = {"evaluator": USER_FEEDBACK, "version": "feedback", "score_source": ScoreSource.FEEDBACK, **fields}
    return replace(judged(number, outcome=Score(-1.0 if down else 1.0, ""), **about), defect=down)


async def test_answers_whose_explanation_contradicts_the_verdict(tmp_path: Path) -> None:
    odd = Score(4.0, "Nothing of this is in the sources.", contradicts=True)
    review = await queue(tmp_path, [*(judged(n) for n in range(50)), judged(77, outcome=odd)])
    assert await reviewed(review, "contradictions") == names(77)


async def test_answers_of_which_the_judge_said_otherwise_when_asked_again(tmp_path: Path) -> None:
    again = {one: replace(judged(n), recheck=one) for n, one in enumerate(RecheckOutcome, 60)}
    refuted = SecondJudgement(SevereOutcome.REFUTED, 4.0, "m")
    severe = replace(judged(70, value=1.0), second=refuted)
    review = await queue(tmp_path, [*(judged(n) for n in range(50)), *again.values(), severe])
    other = again[RecheckOutcome.OTHER].case.request_id
    assert sorted(await reviewed(review, "flips")) == sorted([other, *names(70)])


async def test_answers_on_which_the_user_and_the_judge_disagree(tmp_path: Path) -> None:
    results = [judged(n, value=2.0 if n % 2 else 4.0) for n in range(10)]  # odd ones are defects
    votes = [said_by_user(1, down=False), said_by_user(2, down=True), said_by_user(3, down=True)]
    votes += [said_by_user(4, down=True, key="a"), said_by_user(4, down=False, key="b", evaluated_at=NOW)]
    votes.append(said_by_user(6, down=True, evaluator="helpful"))
    review = await queue(tmp_path, [*results, *votes, judged(8, value=1.0, evaluator="relevance")])
    assert sorted(await reviewed(review, "users")) == names(1, 2, 6), "the last vote of each counts"


async def test_answers_of_an_incident_come_bad_and_good_in_turn(tmp_path: Path) -> None:
    results = [
        replace(judged(n, value=2.0 if n < 6 else 4.0), evaluated_at=NOW - 3600 + (n if n < 12 else 9_000 - n))
        for n in range(20)
    ]
    review = await queue(tmp_path, results)
    for name, evaluator in (("20260301-0000000a", "groundedness"), ("20260301-0000000b", "relevance")):
        incident = Incident(
            id=name,
            app="shop",
            evaluator=evaluator,
            defect_rule="",
            version="v1",
            fired=NOW - 3000,
            checked=NOW,
            severity="warning",
            worst="warning",
            alerts=(),
            ended=NOW - 1000,
            window=600.0,
        )
        file = IncidentFile(tmp_path / "incidents.db", ManualClock(NOW))
        file.save(incident)
        file.close()
    assert [one.id for one in (await review.choices("shop", "groundedness")).incidents] == ["20260301-0000000a"]
    assert await reviewed(review, "incident:20260301-0000000b") == []
    found = await reviewed(review, "incident:20260301-0000000a")
    assert sorted(found) == names(*range(12))
    defects = [int(one, 16) < 6 for one in found]
    assert [sum(defects[at : at + 2]) for at in range(0, 12, 2)] == [1] * 6
    assert defects[::2] != [True] * 6, "which of two comes first does not tell the verdict"


async def test_questions_of_one_topic(tmp_path: Path) -> None:
    def asking(number: int, question: str) -> EvaluationResult:
        one = judged(number)
        return replace(one, case=replace(one.case, request=Request(question)))

    review = await queue(tmp_path, [asking(1, "Do you ship to Norway?"), asking(2, "Where is the invoice?")])
    there = runtime(ManualClock(NOW))
    state = open_state(tmp_path / "state.db", clock=there.clock, metrics=there.metrics, events=there.events)
    async with state as values:
        values.follow("topics", lambda: {"at": NOW, "apps": {"shop": [["norway", "norway", 0.5]]}})
    assert list((await review.choices("shop", "groundedness")).topics) == ["norway"]
    assert await reviewed(review, "topic:invoice") == []
    assert await reviewed(review, "topic:norway") == names(1)


async def test_what_is_labelled_in_another_order_is_drawn_later_by_its_chance_and_measures_then(tmp_path: Path) -> None:
    odd = Score(4.0, "None of it is so.", contradicts=True)
    review = await queue(tmp_path, [judged(n, outcome=odd) for n in range(40)])
    picked = await reviewed(review, "contradictions")
    assert len(picked) == 40
    while (case := await review.next("shop", "groundedness", "ben")) is not None:
        await review.record(case.result_id, "ben", LabelVerdict.GOOD)
    drawn = {one.result_id: one.probability for one in review.labels.draws("shop", "groundedness", "v1")}
    measuring = {one.result_id: one.probability for one in review.labels.find(reviewer="ana") if one.draw.measures}
    assert measuring == drawn
    assert all(one is not None and 0 < one < 1 for one in measuring.values())


@pytest.mark.parametrize("text", ["random", "incident", "topic:", "newest:x", "Measure", HOSTILE[8:]])
def test_an_order_that_does_not_exist_is_refused_with_those_that_do(text: str) -> None:
    with pytest.raises(InvalidData, match=r"by: .{1,400} is not one of: measure, .*incident:\.\.\., topic:\.\.\."):
        WantedOrder.parse(text)


@pytest.mark.parametrize("order", ReviewOrder)
def test_an_order_is_read_as_it_is_written(order: ReviewOrder) -> None:
    one = WantedOrder(order, "a:b" if order in (ReviewOrder.INCIDENT, ReviewOrder.TOPIC) else "")
    assert WantedOrder.parse(one.name) == one
    assert WantedOrder.parse("") == WantedOrder(ReviewOrder.MEASURE)


@pytest.mark.parametrize("order", [HOSTILE, HOSTILE.replace("incident", "topic"), "topic:\n"])
async def test_names_of_strangers_find_nothing(tmp_path: Path, order: str) -> None:
    assert await reviewed(await queue(tmp_path, [judged(1)]), order) == []
    assert await reviewed(await queue(tmp_path / "empty", []), order) == []
