"""The queue of reviews: blind, the same after a restart, labels for what measures, and nothing of what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData
from monitor.jobs.calibration import CalibrationGauges
from monitor.jobs.review import ReviewOrder, ReviewQueue
from monitor.jobs.review.effects import by_result, chance_of_lately
from monitor.model.label import Label, LabelDraw, LabelVerdict, is_test
from monitor.model.outcome import EvaluationResult, Level, RateScope, Scale
from monitor.privacy import erasure
from monitor.sinks.history import HistorySink
from monitor.storage.history import erasing as history
from tests.support.labels import label
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio
NOW = 1_700_000_500.0
SCALE = Scale(1, 5, "higher", (Level("poor", 1), Level("fair", 3), Level("good", 4)))
GOOD, DEFECT, CANNOT_TELL = LabelVerdict


async def filled(folder: Path, results: list[EvaluationResult], **options: Any) -> None:
    async with HistorySink(path=folder / "history.db", **{"texts": "all", **options}).open(runtime()) as deliver:
        await deliver(results)


def queue(folder: Path, clock: ManualClock | None = None, **options: Any) -> ReviewQueue:
    lent = runtime(clock or ManualClock(NOW))
    return ReviewQueue(folder, {"groundedness": SCALE}, {"groundedness": "v1"}, lent, retention=7 * 86400.0, **options)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await filled(tmp_path, [judged(n, value=2.0 if n % 5 == 0 else 4.0 + n % 2) for n in range(200)])
    return tmp_path


async def test_a_case_comes_without_the_verdict_until_it_is_labelled(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    assert (case.question, case.answer) == ("How long is the warranty?", "It is two years.")
    assert [one.content for one in case.sources] == ["Two years."]
    assert case.stretches == [(6, 15)]
    assert case.levels == ["poor", "fair", "good"]
    assert (case.own, case.judged, list(case.others)) == (None, None, [])
    after = await review.record(case.result_id, "ana", DEFECT, level="poor", comment="No source says so.")
    assert after is not None
    assert after.own is not None
    assert (after.own.verdict, after.own.level, after.own.comment) == (DEFECT, "poor", "No source says so.")
    assert after.judged is not None
    assert after.judged.explanation == "because"
    assert after.own.judged_defect == after.judged.defect


async def test_only_the_half_that_measures_is_drawn_each_with_its_chance(folder: Path):
    review = queue(folder)
    for _ in range(30):
        case = await review.next("shop", "groundedness", "ana")
        assert case is not None
        await review.record(case.result_id, "ana", GOOD)
    found = review.labels.find()
    assert all(is_test(one.request_id) for one in found)
    assert {one.draw for one in found} == {LabelDraw.UNIFORM, LabelDraw.STRATIFIED}
    assert all(one.probability is not None and 0 < one.probability < 0.2 for one in found)
    assert all(one.weight == 10.0 for one in found)


async def test_a_closed_tab_and_a_restart_show_the_same_case_again(folder: Path):
    first = queue(folder)
    shown = await first.next("shop", "groundedness", "ana")
    again = await first.next("shop", "groundedness", "ana")
    first.labels.close()
    later = await queue(folder).next("shop", "groundedness", "ana")
    assert shown is not None
    assert shown == again == later


async def test_two_machines_with_the_same_results_draw_the_same(tmp_path: Path):
    results = [judged(n, value=2.0 if n % 5 == 0 else 4.0) for n in range(100)]
    drawn = []
    for name, order in (("one", results), ("two", results[::-1])):
        (tmp_path / name).mkdir()
        await filled(tmp_path / name, order)
        review = queue(tmp_path / name)
        for _ in range(12):
            case = await review.next("shop", "groundedness", "ana")
            assert case is not None
            await review.record(case.result_id, "ana", GOOD)
        drawn.append([(one.result_id, one.probability) for one in review.labels.find()])
    assert drawn[0] == drawn[1]


async def test_two_reviewers_at_the_same_time_have_different_cases(folder: Path):
    review = queue(folder)
    ana, ben = [await review.next("shop", "groundedness", one) for one in ("ana", "ben")]
    assert ana is not None
    assert ben is not None
    assert ana.result_id != ben.result_id


async def test_a_case_that_a_reviewer_left_open_goes_to_another_after_ten_minutes(folder: Path):
    clock = ManualClock(NOW)
    review = queue(folder, clock)
    ana = await review.next("shop", "groundedness", "ana")
    clock.advance(601.0)
    ben = await review.next("shop", "groundedness", "ben")
    assert ana is not None
    assert ben is not None
    assert ana.result_id == ben.result_id


async def test_some_cases_come_to_a_second_reviewer_who_does_not_see_the_first_label(folder: Path):
    review = queue(folder)
    first = await review.next("shop", "groundedness", "ana")
    assert first is not None
    await review.record(first.result_id, "ana", GOOD)
    second = await review.next("shop", "groundedness", "ben")
    assert second is not None
    assert second.result_id == first.result_id
    assert list(second.others) == []
    after = await review.record(second.result_id, "ben", DEFECT)
    assert after is not None
    assert [one.reviewer for one in after.others] == ["ana"]
    assert (await review.status("shop", "groundedness")).disagreements == 1
    (both,) = await review.disagreements("shop", "groundedness")
    assert {one.reviewer: one.verdict for one in both} == {"ana": GOOD, "ben": DEFECT}
    cara = await review.next("shop", "groundedness", "cara", ReviewOrder.DISAGREED)
    assert cara is not None
    assert cara.result_id == first.result_id


async def test_a_label_can_be_changed_and_withdrawn(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    await review.record(case.result_id, "ana", GOOD)
    await review.record(case.result_id, "ana", DEFECT)
    assert [one.verdict for one in review.labels.of_result(case.result_id)] == [DEFECT]
    assert await review.withdraw(case.result_id, "ana")
    assert not await review.withdraw(case.result_id, "ana")
    assert review.labels.find() == []


async def test_what_a_reviewer_picks_does_not_measure_until_it_is_drawn(folder: Path):
    review = queue(folder)
    for _ in range(4):
        case = await review.next("shop", "groundedness", "ana", ReviewOrder.NEWEST)
        assert case is not None
        await review.record(case.result_id, "ana", GOOD)
    assert {one.draw for one in review.labels.find()} == {LabelDraw.PICKED}
    assert (await review.status("shop", "groundedness")).labels == 0
    picked = {one.result_id for one in review.labels.find() if is_test(one.request_id)}
    for _ in range(40):
        case = await review.next("shop", "groundedness", "ben")
        if case is None:
            break
        await review.record(case.result_id, "ben", GOOD)
    measuring = {one.result_id for one in review.labels.find(reviewer="ana") if one.draw.measures}
    assert measuring <= picked


async def test_the_status_has_the_rate_and_what_forty_more_labels_buy(folder: Path):
    review = queue(folder)
    assert (await review.status("shop", "groundedness")).outlook is None
    for _ in range(30):
        case = await review.next("shop", "groundedness", "ana")
        assert case is not None
        after = await review.record(case.result_id, "ana", GOOD)
        assert after is not None
        assert after.judged is not None
        if after.judged.defect:
            await review.record(case.result_id, "ana", DEFECT)
    status = await review.status("shop", "groundedness")
    assert (status.labels, status.others) == (30, 0)
    found = status.outlook
    assert found is not None
    assert found.raw == pytest.approx(0.2)
    assert found.corrected.rate == pytest.approx(0.2)
    assert found.corrected.lower < 0.2 < found.corrected.upper
    assert 0 < found.half_width_after < found.half_width


async def test_a_label_that_nobody_can_tell_measures_nothing(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    await review.record(case.result_id, "ana", CANNOT_TELL)
    status = await review.status("shop", "groundedness")
    assert (status.labels, status.others) == (0, 1)


async def test_results_of_other_versions_apps_and_traffic_are_not_drawn(tmp_path: Path):
    others = [
        judged(1, version="v0"),
        judged(2, app="docs"),
        judged(3, evaluator="relevance"),
        judged(4, scope=RateScope.NON_PRODUCTION),
    ]
    await filled(tmp_path, others)
    assert await queue(tmp_path).next("shop", "groundedness", "ana") is None
    with pytest.raises(InvalidData, match="is not one of: groundedness"):
        await queue(tmp_path).next("shop", "relevance", "ana")


async def test_a_case_forgotten_since_it_was_shown_gets_no_label(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    history.erase(folder / "history.db", {case.request_id}, dry_run=False)
    assert await review.record(case.result_id, "ana", GOOD) is None
    assert review.labels.find() == []


async def test_a_case_marked_to_be_forgotten_gets_no_label(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    erasure.add(folder, [erasure.Mark(NOW, trace=case.request_id)], since=0.0)
    review = queue(folder)  # it has read the marks; a running one reads them within a second
    assert await review.record(case.result_id, "ana", GOOD) is None


async def test_a_level_that_the_evaluator_lacks_is_refused(folder: Path):
    review = queue(folder)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    with pytest.raises(InvalidData, match="is not one of: poor, fair, good"):
        await review.record(case.result_id, "ana", GOOD, level="excellent")


async def test_without_texts_a_case_says_so_and_is_given_to_nobody(tmp_path: Path):
    one = judged(0)
    await filled(tmp_path, [one, *(judged(n) for n in range(1, 50))], texts="none")
    for order in (*set(ReviewOrder) - {"incident", "topic"}, "incident:20260301-0000000a", "topic:warranty"):
        assert await queue(tmp_path).next("shop", "groundedness", "ana", order) is None
    case = await queue(tmp_path).case(one.id, "ana")
    assert case is not None
    assert (case.texts_kept, case.answer, case.stretches) == (False, "", [])


async def test_hostile_and_huge_texts_are_shortened_and_kept_apart(tmp_path: Path):
    one = judged(1)
    huge = "<script>\u202e\x1b[31m" * 100_000
    await filled(tmp_path, [judged(n) for n in range(2, 40)])
    await filled(tmp_path, [replace(one, case=replace(one.case, response=huge))])
    review = queue(tmp_path)
    case = await review.case(one.id, "ana")
    assert case is not None
    assert case.cut
    assert len(case.answer) == 200_000


async def test_without_a_history_there_is_nothing_to_review(tmp_path: Path):
    review = queue(tmp_path)
    assert await review.next("shop", "groundedness", "ana") is None
    assert await review.case("none", "ana") is None
    assert (await review.status("shop", "groundedness")).waiting == 0


async def test_draws_end_with_their_results_and_comments_with_the_texts(folder: Path):
    clock = ManualClock(NOW)
    review = queue(folder, clock, texts_retention=3600.0)
    case = await review.next("shop", "groundedness", "ana")
    assert case is not None
    await review.record(case.result_id, "ana", GOOD, comment="as quoted")
    clock.advance(8 * 86400.0)
    review.tidy()
    assert [one.comment for one in review.labels.find()] == [""]
    assert review.labels.draw_of(case.result_id) is None


# -- what labels do


async def labelled(review: ReviewQueue, number: int, *, missed: int = 0) -> None:
    """Label as the judge does; of what it calls good, the first `missed` are defects."""
    for _ in range(number):
        case = await review.next("shop", "groundedness", "ana")
        assert case is not None
        after = await review.record(case.result_id, "ana", GOOD)
        assert after is not None
        assert after.judged is not None
        if after.judged.defect or missed > 0:
            missed -= not after.judged.defect
            await review.record(case.result_id, "ana", DEFECT)


async def test_a_label_moves_the_gauges_at_once(folder: Path):
    lent = runtime(ManualClock(NOW))
    review = queue(folder, gauges=CalibrationGauges(lent.metrics))
    await labelled(review, 1)
    assert total(lent.metrics, "ragmonitor_calibration_labels") == 1
    await labelled(review, 29, missed=2)
    assert total(lent.metrics, "ragmonitor_calibration_labels") == 30
    assert total(lent.metrics, "ragmonitor_calibration_labels", verdict="good", truth="defect") == 2
    case = review.labels.find()[0]
    await review.withdraw(case.result_id, "ana")
    assert total(lent.metrics, "ragmonitor_calibration_labels") == 29


async def test_labels_stand_for_as_many_requests_as_the_judge_gave_their_verdict(folder: Path):
    lent = runtime(ManualClock(NOW))
    review = queue(folder, gauges=CalibrationGauges(lent.metrics))
    await labelled(review, 30, missed=2)
    for verdict, requests in (("defect", 400.0), ("good", 1600.0)):  # 40 and 160 results of weight 10
        weight = total(lent.metrics, "ragmonitor_calibration_label_weight", verdict=verdict)
        assert weight == pytest.approx(requests)
        assert total(lent.metrics, "ragmonitor_calibration_result_weight", verdict=verdict) == pytest.approx(requests)


async def test_picked_labels_move_no_gauge(folder: Path):
    lent = runtime(ManualClock(NOW))
    review = queue(folder, gauges=CalibrationGauges(lent.metrics))
    case = await review.next("shop", "groundedness", "ana", ReviewOrder.NEWEST)
    assert case is not None
    await review.record(case.result_id, "ana", DEFECT)
    assert total(lent.metrics, "ragmonitor_calibration_labels") == 0


async def test_a_judge_is_measured_by_its_labels(folder: Path):
    review = queue(folder)
    await labelled(review, 40, missed=2)
    found = await review.measured("groundedness")
    assert found.labels == 40
    assert found.sensitivity is not None
    assert found.specificity is not None
    assert found.with_people is not None
    assert found.sensitivity.lower < found.sensitivity.value < 1.0
    assert found.specificity.value == 1.0
    assert 0 < found.with_people.lower < found.with_people.value < 1.0
    assert found.of_people is None  # one person


async def test_labels_of_another_process_show_after_a_look(folder: Path):
    lent = runtime(ManualClock(NOW))
    other, review = queue(folder), queue(folder, gauges=CalibrationGauges(lent.metrics))
    await labelled(other, 2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(review.run)
        await until(lambda: total(lent.metrics, "ragmonitor_calibration_labels") == 2)
        tasks.cancel_scope.cancel()


async def test_without_labels_no_file_is_made(folder: Path):
    async with anyio.create_task_group() as tasks:
        review = queue(folder)
        tasks.start_soon(review.run)
        for _ in range(20):
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert not (folder / "labels.db").exists()


def test_labels_of_the_last_week_are_compared_with_all_before():
    def labels(days: float, missed: int, number: int = 30) -> list[Label]:
        return [
            label(
                int(days * 1000) + n,
                answered_at=NOW - days * 86400.0,
                verdict=DEFECT if n % 2 else GOOD,
                judged_defect=bool(n % 2) and n // 2 >= missed,
            )
            for n in range(number)
        ]

    assert chance_of_lately(by_result([*labels(20, 1), *labels(1, 14)]), NOW) < 0.001
    assert chance_of_lately(by_result([*labels(20, 1), *labels(1, 1)]), NOW) > 0.3
    assert chance_of_lately(by_result([*labels(20, 14), *labels(1, 1)]), NOW) > 0.9
    assert chance_of_lately(by_result([*labels(20, 1), *labels(1, 9, number=18)]), NOW) == 1.0  # too few


def test_drawing_more_of_what_the_judge_calls_good_does_not_make_it_worse():
    def labels(days: float, good_of_ten: int) -> list[Label]:
        """100 labels of a judge that finds half of the defects; good verdicts stand for as many more as are missing."""
        made = []
        for n in range(100):
            good = n % 10 < good_of_ten
            one = label(
                int(days * 1000) + n,
                answered_at=NOW - days * 86400.0,
                verdict=DEFECT if not good or n < 10 else GOOD,
                judged_defect=not good,
                probability=0.1 * good_of_ten / 5 if good else 0.1 * (10 - good_of_ten) / 5,
            )
            made.append(one)
        return made

    assert chance_of_lately(by_result([*labels(20, 5), *labels(1, 8)]), NOW) > 0.02
