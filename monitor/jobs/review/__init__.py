"""The queue of answers that people review, beside the running monitor.

`ReviewQueue.next` gives a reviewer the next case without the judge's verdict, `ReviewQueue.record` keeps what they say
and returns the case with it. Cases that measure the judge are drawn with known chances (`monitor.statistics.review`)
among the results of the half of requests that measures. A draw is noted on the disk before it is shown: a closed tab or
a restart shows the same case again, and nothing that a page sends decides what a label stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from monitor.errors import InvalidData, MonitorError
from monitor.jobs.calibration import CalibrationGauges, JudgeCalibration
from monitor.jobs.review.case import JudgeSays, ReviewCase, review_case
from monitor.jobs.review.effects import (
    JudgeMeasure,
    by_result,
    calibration,
    chance_of_lately,
    labelled_results,
    measure,
)
from monitor.model.label import Label, LabelDraw, LabelVerdict, ReviewDraw, is_test
from monitor.model.outcome import Scale
from monitor.stages import Runtime
from monitor.statistics.rates import Sums
from monitor.statistics.review import ReviewOutlook, outlook, truth_of
from monitor.statistics.review_draws import JudgedResult, draw, verdict_shares
from monitor.storage import files
from monitor.storage.damage import reporter
from monitor.storage.history.judged import JudgedReader, ReviewableResult
from monitor.storage.history.reader import HistoryReader
from monitor.storage.labels import LabelStore
from monitor.telemetry.events import Event

__all__ = ["JudgeMeasure", "JudgeSays", "ReviewCase", "ReviewOrder", "ReviewQueue", "ReviewStatus"]

MORE: Final = 40
"""Labels that the outlook of the queue assumes."""
NEWEST_AT_MOST: Final = 5_000
"""The newest results of an app and evaluator among which cases are drawn."""
_FRESH: Final = 60.0
_KEPT: Final = 16
_LOOK_EVERY: Final = 60.0
_TIDY_EVERY: Final = 3600.0
_SHOWN_FOR: Final = 600.0
"""Seconds for which a case that one reviewer has open is given to no other."""
_SECOND_OPINION: Final = 10
"""One case of so many is given to a second reviewer."""


class ReviewOrder(StrEnum):
    """Which case comes next. Only `measure` draws at random, so only its labels measure the judge."""

    MEASURE = "measure"
    DOUBTFUL = "doubtful"  # the judge's explanation or its second judgement says the opposite of its score
    NEWEST = "newest"
    DISAGREED = "disagreed"  # two people disagree, and the reviewer has not said anything


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStatus:
    """How far the review of an app, evaluator and version has come.

    Attributes:
        app: of the results; `evaluator` and `version` say who judged them.
        evaluator: see `app`.
        version: see `app`.
        labels: labelled results that measure the judge, without those of which people cannot tell.
        others: labelled results that do not measure it: picked, imported, or no one can tell.
        disagreements: results on which people disagree.
        waiting: results that may be drawn and have no label yet.
        outlook: the corrected rate with its limits, and what `MORE` labels would do to them; None without labels of
            both verdicts of the judge, or without results.
    """

    app: str
    evaluator: str
    version: str
    labels: int
    others: int
    disagreements: int
    waiting: int
    outlook: ReviewOutlook | None


class ReviewQueue:
    """Draws cases for reviewers, and keeps what they say.

    All methods that read or write raise `MonitorError` where a file cannot be used.

    Args:
        folder: the storage folder.
        scales: of the configured evaluators, by name.
        versions: the present version of each evaluator, by name: only its results are drawn.
        runtime: lends clock, events and metrics.
        retention: seconds for which results are kept.
        texts_retention: seconds for which texts are kept; None: as long as the results.
        blind: hide what the judge said of a case until the reviewer has labelled it.
        gauges: show what labels say; None: nothing does.
    """

    def __init__(
        self,
        folder: Path,
        scales: Mapping[str, Scale],
        versions: Mapping[str, str],
        runtime: Runtime,
        *,
        retention: float,
        texts_retention: float | None = None,
        blind: bool = True,
        gauges: CalibrationGauges | None = None,
    ) -> None:
        report = reporter("labels", runtime.events, runtime.metrics)
        self.labels = LabelStore(folder / files.LABELS, runtime.clock, report)
        self._history = folder / files.HISTORY
        self._judged = JudgedReader(self._history)
        self._scales = scales
        self._versions = versions
        self._clock = runtime.clock
        self._retention = retention
        self._texts_retention = texts_retention
        self._blind = blind
        self._gauges = gauges
        self._events = runtime.events
        self._failing = False
        self._as_good = runtime.metrics.judge_as_good
        self._one = anyio.Lock()
        self._frames: dict[tuple[str, str, str], tuple[float, list[ReviewableResult]]] = {}
        self._shown: dict[str, tuple[str, float]] = {}

    async def next(
        self, app: str, evaluator: str, reviewer: str, order: ReviewOrder = ReviewOrder.MEASURE
    ) -> ReviewCase | None:
        """Return the next case for a reviewer, without the judge's verdict; None where there is none.

        The same case comes again until the reviewer has labelled it. Raises `InvalidData` for an evaluator that is not
        configured.
        """
        self._version(evaluator)
        async with self._one:
            for result_id in await anyio.to_thread.run_sync(self._candidates, app, evaluator, reviewer, order):
                found = await anyio.to_thread.run_sync(self._case, result_id, reviewer)
                if found is not None:
                    self._show(result_id, reviewer)
                    return found
        return None

    async def case(self, result_id: str, reviewer: str) -> ReviewCase | None:
        """Return a case as this reviewer may see it; None where the result is not kept any more.

        Only after the reviewer's own label are the labels of others in it, and in a blind review the judge's verdict.
        """
        return await anyio.to_thread.run_sync(self._case, result_id, reviewer)

    async def record(
        self, result_id: str, reviewer: str, verdict: LabelVerdict, *, level: str | None = None, comment: str = ""
    ) -> ReviewCase | None:
        """Keep what a reviewer says, in place of what they had said; return the case with the judge's verdict.

        None, and nothing is kept, where the case is not kept any more: it may have been forgotten since it was shown.
        Raises `InvalidData` for a level that the evaluator does not have, and for what `LabelStore.put` refuses.
        """
        async with self._one:
            label = await anyio.to_thread.run_sync(self._record, result_id, reviewer, verdict, level, comment)
            self._shown.pop(result_id, None)
        if label is None:
            return None
        await self._take_effect(label.evaluator)
        return await self.case(result_id, reviewer)

    async def withdraw(self, result_id: str, reviewer: str) -> bool:
        """Delete the label that a reviewer gave a result; return whether there was one."""
        async with self._one:
            own = await anyio.to_thread.run_sync(self.labels.of_result, result_id)
            done = await anyio.to_thread.run_sync(self.labels.delete, result_id, reviewer)
        for one in own:
            if done and one.reviewer == reviewer:
                await self._take_effect(one.evaluator)
        return done

    async def status(self, app: str, evaluator: str) -> ReviewStatus:
        """Return how far the review has come. Raises `InvalidData` for an evaluator that is not configured."""
        self._version(evaluator)
        return await anyio.to_thread.run_sync(self._status, app, evaluator)

    async def disagreements(self, app: str, evaluator: str) -> list[list[Label]]:
        """Return the labels of each result on which people disagree, the newest first."""
        known = await anyio.to_thread.run_sync(self._by_result, app, evaluator, self._version(evaluator))
        return [labels for labels in reversed(known.values()) if _disagree(labels)]

    async def measured(self, evaluator: str) -> JudgeMeasure:
        """Measure the present version of an evaluator by all its labels. Raises `InvalidData` as `next` does."""
        version = self._version(evaluator)

        def look() -> JudgeMeasure:
            known = by_result(self.labels.find(evaluator=evaluator, version=version))
            return measure(self._calibration(evaluator, known), known)

        return await anyio.to_thread.run_sync(look)

    async def run(self) -> None:
        """Show what labels say, those of other processes too, and tidy up now and then; until cancelled."""
        tidied = float("-inf")
        try:
            while True:
                now = self._clock.monotonic()
                try:
                    for evaluator in self._versions:
                        await self._take_effect(evaluator)
                    if now - tidied >= _TIDY_EVERY:
                        await anyio.to_thread.run_sync(self.tidy)
                        tidied = now
                    self._failing = False
                except MonitorError as error:
                    if not self._failing:
                        self._events.error(Event.STATE_FAILED, "labels cannot be read or written", error=str(error))
                    self._failing = True
                await anyio.sleep(_LOOK_EVERY)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.labels.close)

    async def _take_effect(self, evaluator: str) -> None:
        """Show in the gauges what the labels of an evaluator say now."""
        version = self._versions[evaluator]

        def look() -> tuple[JudgeCalibration, float]:
            known = by_result(self.labels.find(evaluator=evaluator, version=version))
            return self._calibration(evaluator, known), chance_of_lately(known, self._clock.now())

        found, chance = await anyio.to_thread.run_sync(look)
        if found.cells:
            self._as_good.labels(evaluator, version).set(chance)
        if self._gauges is not None:
            self._gauges.show_reviewed([found])

    def _calibration(self, evaluator: str, known: Mapping[str, Sequence[Label]]) -> JudgeCalibration:
        version = self._versions[evaluator]
        return calibration(evaluator, version, known, lambda app: self._frame(app, evaluator, version))

    def tidy(self) -> None:
        """Drop draws whose results are gone and comments that are older than texts. Blocks; raises `MonitorError`."""
        now = self._clock.now()
        if not self.labels.exists():
            return
        self.labels.drop_draws(now - self._retention)
        if self._texts_retention is not None:
            self.labels.blank_comments(now - self._texts_retention)

    # -- in a thread

    def _candidates(self, app: str, evaluator: str, reviewer: str, order: ReviewOrder) -> Sequence[str]:
        """Return results in the order in which to try them: some may be gone."""
        version = self._version(evaluator)
        known = self._by_result(app, evaluator, version)
        mine = {name for name, labels in known.items() if any(one.reviewer == reviewer for one in labels)}
        if order is ReviewOrder.DISAGREED:
            return [name for name in reversed(known) if name not in mine and _disagree(known[name])]
        frame = self._frame(app, evaluator, version)
        if order is not ReviewOrder.MEASURE:
            wanted = (one for one in frame if one.has_texts and (order is ReviewOrder.NEWEST or one.doubtful))
            return [one.result_id for one in wanted if one.result_id not in mine]
        return self._to_measure(frame, known, mine, reviewer, (app, evaluator, version))

    def _to_measure(
        self,
        frame: Sequence[ReviewableResult],
        known: Mapping[str, Sequence[Label]],
        mine: set[str],
        reviewer: str,
        place: tuple[str, str, str],
    ) -> Sequence[str]:
        app, evaluator, version = place
        drawn = self.labels.draws(app, evaluator, version)
        kept = {one.result_id: one for one in frame if one.has_texts}
        now = self._clock.now()
        open_, second = [], []
        for number, one in enumerate(drawn):
            if one.result_id in mine or one.result_id not in kept:
                continue
            if one.result_id not in known:
                by, until = self._shown.get(one.result_id, (reviewer, 0.0))
                if by == reviewer or until < now:
                    open_.append(one.result_id)
            elif number % _SECOND_OPINION == 0 and len(known[one.result_id]) == 1:
                second.append(one.result_id)
        if open_ or second:
            return [*open_, *second]
        results, truths = testable(frame), truths_of(known)
        done = {one.result_id for one in drawn}
        number = len(drawn)
        while (found := draw(results, done, truths, number)) is not None:
            request = kept[found.key].request_id
            user = HistoryReader(self._history).user_of(request)
            self.labels.keep_draw(
                ReviewDraw(
                    result_id=found.key,
                    request_id=request,
                    app=app,
                    evaluator=evaluator,
                    version=version,
                    draw=found.draw,
                    probability=found.probability,
                    at=now,
                    user=user,
                )
            )
            if found.key not in known or (found.key not in mine and number % _SECOND_OPINION == 0):
                return [found.key]
            done.add(found.key)  # it was picked and labelled before: its labels measure from now on
            number += 1
        return []

    def _case(self, result_id: str, reviewer: str) -> ReviewCase | None:
        row = self._judged.by_id(result_id)
        if row is None:
            return None
        labels, draw_of = self.labels.of_result(result_id), self.labels.draw_of(result_id)
        own = next((one for one in labels if one.reviewer == reviewer), None)
        scale = self._scales.get(str(row.get("evaluator")))
        draw = draw_of.draw if draw_of else LabelDraw.PICKED
        return review_case(row, own, labels, draw, scale, blind=self._blind)

    def _record(
        self, result_id: str, reviewer: str, verdict: LabelVerdict, level: str | None, comment: str
    ) -> Label | None:
        row = self._judged.by_id(result_id)
        if row is None or row.get("outcome") != "score":
            return None
        scale = self._scales.get(str(row["evaluator"]))
        levels = [one.name for one in scale.levels] if scale is not None else []
        if level is not None and level not in levels:
            raise InvalidData(f"level: {level[:100]!r} is none of {', '.join(levels) or 'no levels'}")
        drawn = self.labels.draw_of(result_id)
        request = str(row["request_id"])
        label = Label(
            result_id=result_id,
            request_id=request,
            app=str(row["app"]),
            evaluator=str(row["evaluator"]),
            version=str(row["version"]),
            reviewer=reviewer,
            verdict=verdict,
            judged_defect=bool(row["defect"]),
            at=self._clock.now(),
            draw=drawn.draw if drawn else LabelDraw.PICKED,
            probability=drawn.probability if drawn else None,
            level=level,
            comment=comment,
            score=None if row["score"] is None else float(row["score"]),
            weight=float(row["weight"]),
            user=HistoryReader(self._history).user_of(request),
            answered_at=float(row["answered_at"] or row["evaluated_at"]),
        )
        return label if self.labels.put(label) else None

    def _status(self, app: str, evaluator: str) -> ReviewStatus:
        version = self._version(evaluator)
        known = self._by_result(app, evaluator, version)
        measuring = [labels for labels in known.values() if labels[-1].draw.measures and truth_of(labels) is not None]
        frame = self._frame(app, evaluator, version)
        return ReviewStatus(
            app=app,
            evaluator=evaluator,
            version=version,
            labels=len(measuring),
            others=len(known) - len(measuring),
            disagreements=sum(map(_disagree, known.values())),
            waiting=sum(one.has_texts and is_test(one.request_id) and one.result_id not in known for one in frame),
            outlook=outlook(
                Sums.total(Sums.of(one.weight, defect=one.defect) for one in frame),
                labelled_results(measuring),
                verdict_shares(testable(frame), truths_of(known)),
                more=MORE,
            ),
        )

    def _by_result(self, app: str, evaluator: str, version: str) -> dict[str, list[Label]]:
        return by_result(self.labels.find(app=app, evaluator=evaluator, version=version))

    def _frame(self, app: str, evaluator: str, version: str) -> list[ReviewableResult]:
        """Return the newest results, as they are now or were a minute ago."""
        place, now = (app, evaluator, version), self._clock.now()
        read, found = self._frames.pop(place, (float("-inf"), []))
        if not 0 <= now - read < _FRESH:
            read, found = now, self._judged.reviewable(*place, now - self._retention, NEWEST_AT_MOST)
        while len(self._frames) >= _KEPT:
            self._frames.pop(next(iter(self._frames)), None)
        self._frames[place] = read, found
        return found

    def _version(self, evaluator: str) -> str:
        if evaluator not in self._versions:
            raise InvalidData(f"evaluator: {evaluator[:100]!r} is none of {', '.join(sorted(self._versions))}")
        return self._versions[evaluator]

    def _show(self, result_id: str, reviewer: str) -> None:
        now = self._clock.now()
        self._shown = {name: (by, until) for name, (by, until) in self._shown.items() if until >= now}
        self._shown[result_id] = reviewer, now + _SHOWN_FOR


def testable(frame: Sequence[ReviewableResult]) -> list[JudgedResult]:
    """Return the results that may be drawn to measure the judge: of the half that measures, with something to read."""
    found = (one for one in frame if one.has_texts and is_test(one.request_id))
    return [JudgedResult(one.result_id, one.defect, one.score, one.weight, one.doubtful) for one in found]


def truths_of(known: Mapping[str, Sequence[Label]]) -> dict[str, bool]:
    """Return by result whether people call the answer a defect; without those of which they cannot tell."""
    return {name: truth for name, labels in known.items() if (truth := truth_of(labels)) is not None}


def _disagree(labels: Sequence[Label]) -> bool:
    said = {one.verdict for one in labels} - {LabelVerdict.CANNOT_TELL}
    return len(said) > 1
