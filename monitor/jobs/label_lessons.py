"""What people say of judged answers, taught to the learned order: at start, and soon after each new label."""

from __future__ import annotations

from collections import OrderedDict
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
"""Labels that are read at once: at start the newest."""
_REMEMBERED: Final = 20_000


class _Lesson(NamedTuple):
    app: str
    inputs: Sequence[float]
    defect: bool


class LabelLessons:
    """Teaches `order` the labels of results of its teacher in this `version`, each result once, by its first label.

    Only labels of cases that were drawn at random for review teach: a case that a person picked says more about the
    person. The inputs are those of the judged result, so a label teaches while that is in the history of `folder`. A
    label that is changed teaches again only after the next start.
    """

    def __init__(self, order: LearnedOrder, folder: Path, version: str) -> None:
        self._order = order
        self._labels = LabelReader(folder / files.LABELS)
        self._results = JudgedReader(folder / files.HISTORY)
        self._version = version
        self._taught: OrderedDict[str, None] = OrderedDict()
        self._since = 0.0

    async def run(self) -> None:
        """Look for new labels every five seconds, until cancelled. A file that cannot be read is tried again."""
        while True:
            with suppress(MonitorError):  # the review says so
                await self.look()
            await anyio.sleep(_EVERY)

    async def look(self) -> None:
        """Teach the labels that have come since the last look. Raises `MonitorError`."""
        for lesson in await anyio.to_thread.run_sync(self._new):
            self._order.label(lesson.app, lesson.inputs, defect=lesson.defect)

    def _new(self) -> list[_Lesson]:
        found = []
        teacher = {"evaluator": self._order.teacher, "version": self._version}
        for label in self._labels.find(**teacher, since=self._since, limit=_AT_ONCE):
            self._since = max(self._since, label.at)
            lesson = self._lesson(label) if label.result_id not in self._taught else None
            if lesson is not None:
                found.append(lesson)
                self._taught[label.result_id] = None
                if len(self._taught) > _REMEMBERED:
                    self._taught.popitem(last=False)
        return found

    def _lesson(self, label: Label) -> _Lesson | None:
        if not label.draw.measures or label.verdict is LabelVerdict.CANNOT_TELL:
            return None
        row = self._results.by_id(label.result_id)
        past = past_result(row) if row is not None else None
        if past is None or past.defect is None or not past.inputs:
            return None
        return _Lesson(past.app, past.inputs, label.verdict is LabelVerdict.DEFECT)
