"""People's labels teach the learned order: those of cases drawn at random, each result once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.jobs.label_lessons import LabelLessons
from monitor.model.label import Label, LabelDraw, LabelVerdict, ReviewDraw
from monitor.model.outcome import RateScope, Selection
from monitor.pipeline.learned import LearnedOrder
from monitor.sinks.history import HistorySink
from monitor.statistics.defect_model import INPUTS, INPUTS_VERSION
from monitor.storage.history.judged import JudgedReader
from monitor.storage.labels import LabelReader, LabelStore
from tests.support.labels import label
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

DRAWN = Selection(0.5, 0.5, tuple(1.0 for _ in INPUTS), 0.0, INPUTS_VERSION)
RESULTS = [judged(number, value=1.0, selection=DRAWN) for number in range(8)]


async def lessons(folder: Path) -> tuple[LabelLessons, LearnedOrder, LabelStore]:
    unusable = [
        replace(judged(20, value=1.0, selection=DRAWN), scope=RateScope.USER_DISLIKED),
        judged(21, value=1.0, selection=replace(DRAWN, inputs_version=INPUTS_VERSION + 1)),
        judged(22, value=1.0),
    ]
    async with HistorySink(path=folder / "history.db").open(runtime()) as deliver:
        await deliver([*RESULTS, *unusable])
    order = LearnedOrder("groundedness")
    return LabelLessons(order, folder, "v1"), order, LabelStore(folder / "labels.db", ManualClock())


def of(number: int, **more: Any) -> Label:
    return label(
        number,
        **{
            "result_id": judged(number).id,
            "evaluator": "groundedness",
            "version": "v1",
            "draw": LabelDraw.STRATIFIED,
            "probability": 0.5,
            "verdict": LabelVerdict.DEFECT,
            **more,
        },
    )


async def test_labels_of_drawn_cases_teach_once_and_new_ones_at_the_next_look(tmp_path: Path) -> None:
    found, order, store = await lessons(tmp_path)
    await found.look()  # there is no file yet
    store.put(of(0))
    store.put(of(1, draw=LabelDraw.UNIFORM, verdict=LabelVerdict.GOOD))
    for _ in range(2):
        await found.look()
        assert order.standing("shop").taught == 2
    store.put(of(2, at=of(0).at + 5))
    store.put(of(0, reviewer="another", at=of(0).at + 6))
    await found.look()
    assert order.standing("shop").taught == 3
    assert order.standing("docs").taught == 0
    store.close()


async def test_other_labels_teach_nothing(tmp_path: Path) -> None:
    found, order, store = await lessons(tmp_path)
    for one in (
        of(0, draw=LabelDraw.PICKED, probability=None),
        of(1, draw=LabelDraw.IMPORTED, probability=None),
        of(2, verdict=LabelVerdict.CANNOT_TELL),
        of(3, evaluator="relevance"),
        of(4, version="of another judge"),
        of(5, result_id="f" * 32),
        of(20),
        of(21),
        of(22),
    ):
        assert store.put(one)
    await found.look()
    assert order.standing("shop").taught == 0
    store.close()


async def test_a_label_teaches_whatever_time_it_bears(tmp_path: Path) -> None:
    found, order, store = await lessons(tmp_path)
    for taught, at in enumerate(
        (5_000.0, 4e10, 10.0, 5_001.0), start=1
    ):  # an import brings old ones, and typing errors
        store.put(of(taught, at=at))
        await found.look()
        assert order.standing("shop").taught == taught
    store.close()


async def test_a_label_of_a_picked_answer_teaches_once_that_is_drawn(tmp_path: Path) -> None:
    found, order, store = await lessons(tmp_path)
    picked = of(0, draw=LabelDraw.PICKED, probability=None)
    store.put(picked)
    store.put(of(1, at=picked.at + 5))
    await found.look()
    assert order.standing("shop").taught == 1
    named = ("result_id", "request_id", "app", "evaluator", "version")
    about = {name: getattr(picked, name) for name in named}
    assert store.keep_draw(ReviewDraw(**about, draw=LabelDraw.UNIFORM, probability=0.5, at=picked.at + 6))
    await found.look()
    assert order.standing("shop").taught == 2
    store.close()


async def test_a_label_that_is_changed_or_given_anew_teaches_once(tmp_path: Path) -> None:
    found, order, store = await lessons(tmp_path)
    store.put(of(0))
    await found.look()
    store.put(of(0, verdict=LabelVerdict.GOOD, at=of(0).at + 5))
    await found.look()
    store.delete(of(0).result_id, of(0).reviewer)
    await found.look()
    store.put(of(0, verdict=LabelVerdict.GOOD, at=of(0).at + 6))
    await found.look()
    assert order.standing("shop").taught == 1
    after_restart = LearnedOrder("groundedness")
    await LabelLessons(after_restart, tmp_path, "v1").look()
    assert after_restart.standing("shop").taught == 1
    store.close()


async def test_labels_that_a_failed_look_has_seen_teach_at_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, order, store = await lessons(tmp_path)
    store.put(of(0))
    store.put(of(1))
    by_id, failing = JudgedReader.by_id, {of(1).result_id}

    def unreadable(self: JudgedReader, result_id: str) -> Any:
        if result_id in failing:
            raise MonitorError("the history cannot be read now")
        return by_id(self, result_id)

    monkeypatch.setattr(JudgedReader, "by_id", unreadable)
    with pytest.raises(MonitorError):
        await found.look()
    failing.clear()
    await found.look()
    assert order.standing("shop").taught == 2
    store.close()


async def test_the_file_is_left_alone_while_it_does_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, order, store = await lessons(tmp_path)
    store.put(of(0))
    reads = []
    find = LabelReader.find
    monkeypatch.setattr(LabelReader, "find", lambda self, **wanted: reads.append(1) or find(self, **wanted))
    for _ in range(5):
        await found.look()
    assert len(reads) == 2
    store.put(of(1))
    await found.look()
    assert order.standing("shop").taught == 2
    store.close()
