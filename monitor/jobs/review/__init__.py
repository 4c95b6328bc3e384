"""The queue of answers that people review, beside the running monitor.

`ReviewQueue.next` gives a reviewer the next case without the judge's verdict; `ReviewQueue.record` keeps the reviewer's
label and returns the case with the verdict. Cases that measure the judge are drawn with known chances
(`monitor.statistics.review`) from the results of the half of requests that measures. A draw is recorded on disk before
it is shown: after a closed tab or a restart the same case is shown again, and nothing that a page sends decides what a
label stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from monitor.jobs.review.errors import find_errors
from monitor.jobs.review.orders import (
    CaseOrders,
    OrderChoices,
    QueuePlace,
    ReviewOrder,
    WantedOrder,
    disagree,
    testable,
    truths_of,
)
from monitor.model.label import Label, LabelDraw, LabelVerdict, is_test
from monitor.model.outcome import Scale
from monitor.stages import Runtime
from monitor.statistics.judge_errors import JudgeErrors
from monitor.statistics.rates import Sums
from monitor.statistics.review import ReviewOutlook, outlook, truth_of
from monitor.statistics.review_draws import verdict_shares
from monitor.storage import files
from monitor.storage.damage import reporter
from monitor.storage.history.judged import JudgedReader
from monitor.storage.history.reader import HistoryReader
from monitor.storage.labels import LabelStore
from monitor.telemetry.events import Event

__all__ = ["JudgeMeasure", "JudgeSays", "ReviewCase", "ReviewOrder", "ReviewQueue", "ReviewStatus"]

MORE: Final = 40
"""Further labels that the outlook of the queue assumes."""
_LOOK_EVERY: Final = 60.0
_TIDY_EVERY: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStatus:
    """How far the review of an app, evaluator and version has come.

    Attributes:
        app: of the results; `evaluator` and `version` say who judged them.
        evaluator: see `app`.
        version: see `app`.
        labels: labelled results that measure the judge, without those on which people cannot decide.
        others: labelled results that do not measure it: picked, imported, or undecided.
        disagreements: results on which people disagree.
        waiting: results that may be drawn and have no label yet.
        outlook: the corrected rate with its limits, and how `MORE` labels would change them; None without labels of
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
    """Draws cases for reviewers, and keeps their labels.

    All methods that read or write raise `MonitorError` if a file cannot be used.

    Args:
        folder: the storage folder.
        scales: the scales of the configured evaluators, by name.
        versions: the current version of each evaluator, by name: only its results are drawn.
        runtime: provides clock, events and metrics.
        retention: seconds for which results are kept.
        texts_retention: seconds for which texts are kept; None: as long as the results.
        blind: hide what the judge said about a case until the reviewer has labelled it.
        slices: the configured ones.
        gauges: export the labels; None: they are not exported.
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
        slices: Sequence[str] = (),
        gauges: CalibrationGauges | None = None,
    ) -> None:
        report = reporter("labels", runtime.events, runtime.metrics)
        self.labels = LabelStore(folder / files.LABELS, runtime.clock, report)
        self._folder = folder
        self._slices = tuple(slices)
        self._history = HistoryReader(folder / files.HISTORY)
        self._judged = JudgedReader(folder / files.HISTORY)
        self._orders = CaseOrders(folder, self.labels, runtime.clock, versions, retention)
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

    async def next(
        self, app: str, evaluator: str, reviewer: str, order: str = ReviewOrder.MEASURE
    ) -> ReviewCase | None:
        """Return the next case for a reviewer, without the judge's verdict, or None.

        The same case comes again until the reviewer has labelled it. `order`: as read by `WantedOrder.parse`. Raises
        `InvalidData` for any other order, and for an evaluator that is not configured.
        """
        wanted, place = WantedOrder.parse(order), self._place(app, evaluator)

        def look() -> Sequence[str]:
            return self._orders.candidates(place, wanted, reviewer, self._by_result(place))

        async with self._one:
            for result_id in await anyio.to_thread.run_sync(look):
                found = await anyio.to_thread.run_sync(self._case, result_id, reviewer)
                if found is not None:
                    self._orders.show(result_id, reviewer)
                    return found
        return None

    async def choices(self, app: str, evaluator: str) -> OrderChoices:
        """Return the incidents and topics whose answers `next` can be asked for. Raises `InvalidData` as it does."""
        return await anyio.to_thread.run_sync(self._orders.choices, self._place(app, evaluator))

    async def case(self, result_id: str, reviewer: str) -> ReviewCase | None:
        """Return a case as this reviewer may see it; None if the result is no longer kept.

        The labels of others and, in a blind review, the judge's verdict are included only after the reviewer's own
        label.
        """
        return await anyio.to_thread.run_sync(self._case, result_id, reviewer)

    async def record(
        self, result_id: str, reviewer: str, verdict: LabelVerdict, *, level: str | None = None, comment: str = ""
    ) -> ReviewCase | None:
        """Keep a reviewer's label in place of their earlier one; return the case with the judge's verdict.

        Returns None, and keeps nothing, if the case is no longer kept: it may have been forgotten since it was shown.
        Raises `InvalidData` for a level that the evaluator does not have, and for any that `LabelStore.put` refuses.
        """
        async with self._one:
            label = await anyio.to_thread.run_sync(self._record, result_id, reviewer, verdict, level, comment)
            self._orders.close(result_id)
        if label is None:
            return None
        await self._take_effect(label.evaluator)
        return await self.case(result_id, reviewer)

    async def withdraw(self, result_id: str, reviewer: str) -> bool:
        """Delete a reviewer's label of a result; return whether there was one."""
        async with self._one:
            own = await anyio.to_thread.run_sync(self.labels.of_result, result_id)
            done = await anyio.to_thread.run_sync(self.labels.delete, result_id, reviewer)
        for one in own:
            if done and one.reviewer == reviewer:
                await self._take_effect(one.evaluator)
        return done

    async def status(self, app: str, evaluator: str) -> ReviewStatus:
        """Return how far the review has come. Raises `InvalidData` for an evaluator that is not configured."""
        return await anyio.to_thread.run_sync(self._status, self._place(app, evaluator))

    async def disagreements(self, app: str, evaluator: str) -> list[list[Label]]:
        """Return the labels of each result on which people disagree, the newest first."""
        known = await anyio.to_thread.run_sync(self._by_result, self._place(app, evaluator))
        return [labels for labels in reversed(known.values()) if disagree(labels)]

    async def measured(self, evaluator: str, app: str | None = None) -> JudgeMeasure:
        """Measure the current version of an evaluator by the labels of one app, or of all. Raises as `next` does."""
        version = self._version(evaluator)

        def look() -> JudgeMeasure:
            known = by_result(self.labels.find(app=app, evaluator=evaluator, version=version))
            return measure(self._calibration(evaluator, known), known)

        return await anyio.to_thread.run_sync(look)

    async def errors(self, app: str, evaluator: str) -> JudgeErrors:
        """Find what the labelled errors of the current version have in common. Raises as `next` does."""
        place = self._place(app, evaluator)

        def look() -> JudgeErrors:
            return find_errors(self._folder, self._slices, app, evaluator, self._by_result(place))

        return await anyio.to_thread.run_sync(look)

    async def run(self) -> None:
        """Export the labels, including those of other processes, and tidy up periodically, until cancelled."""
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
        """Export the current labels of an evaluator in the gauges."""
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
        return calibration(
            evaluator, version, known, lambda app: self._orders.frame(QueuePlace(app, evaluator, version))
        )

    def tidy(self) -> None:
        """Drop draws without results, and comments beyond the retention of texts. Blocks; raises `MonitorError`."""
        now = self._clock.now()
        if not self.labels.exists():
            return
        self.labels.drop_draws(now - self._retention)
        if self._texts_retention is not None:
            self.labels.blank_comments(now - self._texts_retention)

    # -- in a thread

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
            raise InvalidData(f"level: {level[:100]!r} is not one of: {', '.join(levels) or 'no levels'}")
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
            user=self._history.user_of(request),
            answered_at=float(row["answered_at"] or row["evaluated_at"]),
        )
        return label if self.labels.put(label) else None

    def _status(self, place: QueuePlace) -> ReviewStatus:
        known = self._by_result(place)
        measuring = [labels for labels in known.values() if labels[-1].draw.measures and truth_of(labels) is not None]
        frame = self._orders.frame(place)
        return ReviewStatus(
            **place._asdict(),
            labels=len(measuring),
            others=len(known) - len(measuring),
            disagreements=sum(map(disagree, known.values())),
            waiting=sum(one.has_texts and is_test(one.request_id) and one.result_id not in known for one in frame),
            outlook=outlook(
                Sums.total(Sums.of(one.weight, defect=one.defect) for one in frame),
                labelled_results(measuring),
                verdict_shares(testable(frame), truths_of(known)),
                more=MORE,
            ),
        )

    def _by_result(self, place: QueuePlace) -> dict[str, list[Label]]:
        return by_result(self.labels.find(app=place.app, evaluator=place.evaluator, version=place.version))

    def _place(self, app: str, evaluator: str) -> QueuePlace:
        return QueuePlace(app, evaluator, self._version(evaluator))

    def _version(self, evaluator: str) -> str:
        if evaluator not in self._versions:
            raise InvalidData(f"evaluator: {evaluator[:100]!r} is not one of: {', '.join(sorted(self._versions))}")
        return self._versions[evaluator]
