"""Teaches human labels of judged answers to the learned order: at start, and soon after each new label."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from monitor.errors import MonitorError
from monitor.model.label import Label, LabelVerdict
from monitor.pipeline.learned import LearnedOrder
from monitor.storage import files
from monitor.storage.history.judged import JudgedReader
from monitor.storage.history.rows import past_result
from monitor.storage.labels import LabelReader

_EVERY: Final = 5.0  # seconds
_AT_ONCE: Final = 2_000
"""Labels read at once; at start, the newest."""
_REMEMBERED: Final = 20_000


class _Lesson(NamedTuple):
    app: str
    inputs: Sequence[float]
    defect: bool


class LabelLessons:
    """Teaches `order` the labels of results of its teacher in this `version`, each result once, by its first label.

    Only labels of cases drawn at random for review teach: a case that a person picked says more about the person. A
    case that is drawn later teaches then. The inputs are those of the judged result, so a label teaches only while its
    result is in the history of `folder`. A label that is changed or deleted keeps its first value until the next start.
    """

    def __init__(self, order: LearnedOrder, folder: Path, version: str) -> None:
        self._order = order
        path = folder / files.LABELS
        self._labels = LabelReader(path)
        self._paths = str(path), f"{path}-wal"
        self._results = JudgedReader(folder / files.HISTORY)
        self._version = version
        self._done: OrderedDict[str, None] = OrderedDict()  # results that have taught, or never can
        self._states: deque[object] = deque(maxlen=2)

    async def run(self) -> None:
        """Look for new labels every five seconds, until cancelled. A file that cannot be read is tried again."""
        while True:
            with suppress(MonitorError):  # the review reports it
                await self.look()
            await anyio.sleep(_EVERY)

    async def look(self) -> None:
        """Teach the labels that have come since the last look. Raises `MonitorError`."""
        for lesson in await anyio.to_thread.run_sync(self._new):
            self._order.label(lesson.app, lesson.inputs, defect=lesson.defect)

    def _new(self) -> list[_Lesson]:
        # A label's time does not say when it arrived: an import adds old labels, and a draw makes old ones teach.
        state = tuple(map(files.stamp_of, self._paths))
        if list(self._states) == [state, state]:  # looked at twice: a clock may be too coarse to tell the last write
            return []
        found: dict[str, _Lesson | None] = {}
        for label in self._labels.find(evaluator=self._order.teacher, version=self._version, limit=_AT_ONCE):
            if label.result_id in self._done:
                self._done.move_to_end(label.result_id)
            elif label.result_id not in found and _may_teach(label):
                found[label.result_id] = self._lesson(label)
        # Only now: if a file could not be read, all of it is read again.
        self._done.update(dict.fromkeys(found))
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        self._states.append(state)
        return [one for one in found.values() if one is not None]

    def _lesson(self, label: Label) -> _Lesson | None:
        row = self._results.by_id(label.result_id)
        past = past_result(row) if row is not None else None
        if past is None or past.defect is None or not past.inputs:
            return None
        return _Lesson(past.app, past.inputs, label.verdict is LabelVerdict.DEFECT)


def _may_teach(label: Label) -> bool:
    """Return whether a label is of an answer drawn at random, and gives a verdict."""
    return label.draw.measures and label.verdict is not LabelVerdict.CANNOT_TELL
