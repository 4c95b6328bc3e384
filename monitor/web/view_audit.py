"""Audit events: who viewed texts of the traffic, and who ran a trial on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import anyio.to_thread

from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER
from monitor.web.views import AnswerView, CaseView

_ONE_VIEW: Final = 3600.0
"""Seconds within which the same answers shown to the same viewer at the same path count as one view: pages refresh."""

_MAX_REMEMBERED: Final = 1_000


class ViewAudit:
    """Writes the events. A repeated view is recognised only among the latest thousand."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: OrderedDict[tuple[str, ...], float] = OrderedDict()

    async def answers_shown(self, path: str, answers: Sequence[CaseView | AnswerView]) -> None:
        """Record that these answers are about to be shown at `path`; those without any text do not count."""
        await self.texts_shown(path, [one.request_id for one in answers if _has_text(one)])

    async def texts_shown(self, path: str, ids: Sequence[str]) -> None:
        """Record that texts of these requests are about to be shown at `path`."""
        if not ids:
            return
        viewer = VIEWER.get()
        now = self._runtime.clock.monotonic()
        key = (viewer.who, viewer.peer, path, *ids)
        if now - self._seen.get(key, float("-inf")) < _ONE_VIEW:
            return
        self._seen[key] = now
        self._seen.move_to_end(key)
        while len(self._seen) > _MAX_REMEMBERED:
            self._seen.popitem(last=False)
        await self._record(Event.TEXTS_VIEWED, "texts of answers are shown", path=path, requests=ids)

    async def trial_started(self, trace_id: str, evaluator: str, times: int) -> None:
        """Record that a trial has started on the case of this trace."""
        message = "a trial has started: an evaluator is run on a case"
        await self._record(Event.TEXTS_TRIED, message, requests=[trace_id], evaluator=evaluator, times=times)

    async def _record(self, event: Event, message: str, **fields: Any) -> None:
        viewer = VIEWER.get()
        record = partial(self._runtime.events.info, event, message, who=viewer.who, peer=viewer.peer, **fields)
        await anyio.to_thread.run_sync(record)  # it is written to a file, too


def _has_text(one: CaseView | AnswerView) -> bool:
    texts = [one.question, one.response]
    for result in one.results:
        texts += [result.explanation, result.detail, *(piece.claim for piece in result.evidence)]
    return any(texts)
