"""Decides which answer comes next: drawn at random to measure the judge, or in an order that a person asks for.

Only draws have known chances. A case from any other order is `picked`: its labels are kept, but measure nothing unless
the same answer is drawn later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from monitor.clock import Clock
from monitor.errors import InvalidData
from monitor.jobs.topics import TOPIC, read_topics, topic_factors
from monitor.model.incident import Incident
from monitor.model.label import Label, LabelVerdict, ReviewDraw, is_test
from monitor.statistics.review import truth_of
from monitor.statistics.review_draws import JudgedResult, draw
from monitor.statistics.topics import topic_words
from monitor.storage import files
from monitor.storage.history.answers import AnswerReader
from monitor.storage.history.features import CaseFeatures
from monitor.storage.history.judged import JudgedReader, ReviewableResult
from monitor.storage.history.reader import HistoryReader
from monitor.storage.incidents import IncidentReader
from monitor.storage.labels import LabelStore

NEWEST_AT_MOST: Final = 5_000
"""The most results of an app and evaluator from which cases are drawn: the newest."""
CHOICES_AT_MOST: Final = 10
"""Incidents that are offered. All topics are."""
_FRESH: Final = 60.0
_KEPT: Final = 16
_SHOWN_FOR: Final = 600.0
"""Seconds for which a case that one reviewer has open is not given to others."""
_SECOND_OPINION: Final = 10
"""One case in this many is given to a second reviewer."""


class ReviewOrder(StrEnum):
    """Which case comes next. Only `measure` draws at random, so only its labels measure the judge."""

    MEASURE = "measure"
    CONTRADICTIONS = "contradictions"  # the judge's explanation says the opposite of its score
    FLIPS = "flips"  # the judge said the opposite when it was asked again
    USERS = "users"  # the user's feedback says the opposite of the judge
    NEWEST = "newest"
    DISAGREED = "disagreed"  # two people disagree, and this reviewer has not labelled it
    INCIDENT = "incident"  # the answers of one incident: defects and good ones in turn
    TOPIC = "topic"  # the questions of one topic


class WantedOrder(NamedTuple):
    """An order that a person asks for. `value`: the id of the incident, the name of the topic, or empty."""

    order: ReviewOrder
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> WantedOrder:
        """Read `newest` or `incident:20260301-1a2b3c4d`; empty means `measure`. Raises `InvalidData`."""
        name, _, value = text.partition(":")
        try:
            found = cls(ReviewOrder(name or ReviewOrder.MEASURE), value)
        except ValueError:
            found = None
        if found is None or bool(value) != (found.order in _OF_ONE):
            allowed = ", ".join(f"{one}:..." if one in _OF_ONE else one for one in ReviewOrder)
            raise InvalidData(f"by: {text[:80]!r} is not one of: {allowed}")
        return found

    @property
    def name(self) -> str:
        """The form that `parse` reads."""
        return f"{self.order}:{self.value}" if self.value else self.order.value


_OF_ONE: Final = (ReviewOrder.INCIDENT, ReviewOrder.TOPIC)


class QueuePlace(NamedTuple):
    """The queue of one app, evaluator and version."""

    app: str
    evaluator: str
    version: str


class OrderChoices(NamedTuple):
    """The incidents of a queue, newest first, and the names of its topics."""

    incidents: Sequence[Incident]
    topics: Sequence[str]


class CaseOrders:
    """Finds the cases of each order. Its methods block and raise `MonitorError` if a file cannot be used.

    Args:
        folder: the storage folder.
        labels: where draws are recorded before they are returned.
        clock: for the current time.
        own: the names of the configured evaluators.
        retention: seconds for which results are kept.
    """

    def __init__(self, folder: Path, labels: LabelStore, clock: Clock, own: Iterable[str], retention: float) -> None:
        self._history = folder / files.HISTORY
        self._state = folder / files.STATE
        self._judged = JudgedReader(self._history)
        self._answers = AnswerReader(self._history)
        self._incidents = IncidentReader(folder / files.INCIDENTS)
        self._labels = labels
        self._clock = clock
        self._own = tuple(own)
        self._retention = retention
        self._frames: dict[QueuePlace, tuple[float, list[ReviewableResult]]] = {}
        self._shown: dict[str, tuple[str, float]] = {}

    def frame(self, place: QueuePlace) -> list[ReviewableResult]:
        """Return the newest results, at most a minute old."""
        now = self._clock.now()
        read, found = self._frames.pop(place, (float("-inf"), []))
        if not 0 <= now - read < _FRESH:
            read, found = now, self._judged.reviewable(*place, now - self._retention, NEWEST_AT_MOST)
        while len(self._frames) >= _KEPT:
            self._frames.pop(next(iter(self._frames)), None)
        self._frames[place] = read, found
        return found

    def candidates(
        self, place: QueuePlace, wanted: WantedOrder, reviewer: str, known: Mapping[str, Sequence[Label]]
    ) -> Sequence[str]:
        """Return results in the order in which to try them, since some may be gone. `known`: all labels by result."""
        mine = {name for name, labels in known.items() if any(one.reviewer == reviewer for one in labels)}
        if wanted.order is ReviewOrder.MEASURE:
            return self._to_measure(place, known, mine, reviewer)
        if wanted.order is ReviewOrder.DISAGREED:
            return [name for name in reversed(list(known)) if name not in mine and disagree(known[name])]
        found = (one for one in self._picked(place, wanted) if one.has_texts)
        return [one.result_id for one in found if one.result_id not in mine]

    def show(self, result_id: str, reviewer: str) -> None:
        """Note that a reviewer has a case open."""
        now = self._clock.now()
        self._shown = {name: (by, until) for name, (by, until) in self._shown.items() if until >= now}
        self._shown[result_id] = reviewer, now + _SHOWN_FOR

    def close(self, result_id: str) -> None:
        """Note that a case is no longer open."""
        self._shown.pop(result_id, None)

    def choices(self, place: QueuePlace) -> OrderChoices:
        """Return the incidents and topics that a reviewer can ask for."""
        since = self._clock.now() - self._retention
        incidents = [one.incident for one in self._incidents.newest(since=since, app=place.app)]
        own = [one for one in incidents if one.evaluator == place.evaluator]
        topics = {topic_words(one.name) for one in read_topics(self._state, place.app)}
        return OrderChoices(own[:CHOICES_AT_MOST], sorted(topics))

    def _picked(self, place: QueuePlace, wanted: WantedOrder) -> Iterable[ReviewableResult]:
        """Return the results of an order that a person asks for."""
        if wanted.order is ReviewOrder.INCIDENT:
            return self._of_incident(place, wanted.value)
        frame = self.frame(place)
        match wanted.order:
            case ReviewOrder.CONTRADICTIONS:
                return (one for one in frame if one.contradicts)
            case ReviewOrder.FLIPS:
                return (one for one in frame if one.flips)
            case ReviewOrder.USERS:
                votes = self._judged.votes((one.request_id for one in frame), self._own)
                return (one for one in frame if votes.get(one.request_id, one.defect) != one.defect)
            case ReviewOrder.TOPIC:
                return self._of_topic(place, wanted.value, frame)
            case _:
                return frame

    def _of_incident(self, place: QueuePlace, incident: str) -> Iterable[ReviewableResult]:
        """Return the answers from its beginning to its end, alternating defects and good ones, to give nothing away.

        Until the onset is known, they begin one window before it fired.
        """
        record = self._incidents.find(incident)
        if record is None or (record.incident.app, record.incident.evaluator) != (place.app, place.evaluator):
            return ()
        one, now = record.incident, self._clock.now()
        since = record.onset.earliest if record.onset is not None else one.fired - one.window
        until = one.ended if one.ended is not None else now
        found = self._judged.reviewable(*place, max(since, now - self._retention), NEWEST_AT_MOST, until=until)
        by_verdict = ([each for each in found if each.defect == defect] for defect in (True, False))
        pairs = (sorted((a, b), key=_by_id) for a, b in zip_longest(*by_verdict))
        return (each for each in chain.from_iterable(pairs) if each is not None)

    def _of_topic(self, place: QueuePlace, name: str, frame: Sequence[ReviewableResult]) -> Iterable[ReviewableResult]:
        if not frame:
            return ()
        topics = read_topics(self._state, place.app)
        answers = self._answers.answers_of(place.app, place.evaluator, [one.request_id for one in frame])

        def topic(one: CaseFeatures) -> str:
            named = [factor.value for factor in topic_factors(topics, one)]
            return named[0] if named else one.slices.get(TOPIC, "")

        wanted = {one.request_id for one in answers if topic(one.features) == name}
        return (one for one in frame if one.request_id in wanted)

    def _to_measure(
        self, place: QueuePlace, known: Mapping[str, Sequence[Label]], mine: set[str], reviewer: str
    ) -> Sequence[str]:
        drawn, frame, now = self._labels.draws(*place), self.frame(place), self._clock.now()
        kept = {one.result_id: one for one in frame if one.has_texts}
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
            self._labels.keep_draw(
                ReviewDraw(
                    result_id=found.key,
                    request_id=request,
                    app=place.app,
                    evaluator=place.evaluator,
                    version=place.version,
                    draw=found.draw,
                    probability=found.probability,
                    at=now,
                    user=HistoryReader(self._history).user_of(request),
                )
            )
            if found.key not in known or (found.key not in mine and number % _SECOND_OPINION == 0):
                return [found.key]
            done.add(found.key)  # it was picked and labelled before: its labels measure from now on
            number += 1
        return []


def _by_id(one: ReviewableResult | None) -> str:
    return one.result_id if one is not None else ""


def testable(frame: Sequence[ReviewableResult]) -> list[JudgedResult]:
    """Return the results that may be drawn to measure the judge: in the half that measures, and with texts."""
    found = (one for one in frame if one.has_texts and is_test(one.request_id))
    return [JudgedResult(one.result_id, one.defect, one.score, one.weight, one.doubtful) for one in found]


def truths_of(known: Mapping[str, Sequence[Label]]) -> dict[str, bool]:
    """Return, by result, whether people call the answer a defect, without results on which they cannot decide."""
    return {name: truth for name, labels in known.items() if (truth := truth_of(labels)) is not None}


def disagree(labels: Sequence[Label]) -> bool:
    """Return whether some call an answer good and some a defect."""
    said = {one.verdict for one in labels} - {LabelVerdict.CANNOT_TELL}
    return len(said) > 1
