"""One event for each view of what somebody asked or was answered, or of reasons that may quote it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio.to_thread

from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER
from monitor.web import views

_ONCE_IN: Final = 3600.0
"""Seconds: a page renews itself. The same answers, shown to the same viewer at the same place, are one view."""

_REMEMBERED: Final = 1_000


class Viewed:
    """Writes the events. Views that are no new ones are told from others as long as there are few viewers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: OrderedDict[tuple[str, ...], float] = OrderedDict()

    async def note(self, path: str, answers: Sequence[views.Case | views.Found]) -> None:
        """`answers` are about to be shown at `path`."""
        await self.shown(path, [one.trace_id for one in answers if _has_text(one)])

    async def shown(self, path: str, ids: Sequence[str]) -> None:
        """Texts of these requests are about to be shown at `path`."""
        if not ids:
            return
        viewer = VIEWER.get()
        now = self._runtime.clock.monotonic()
        key = (viewer.who, viewer.peer, path, *ids)
        if now - self._seen.get(key, float("-inf")) < _ONCE_IN:
            return
        self._seen[key] = now
        self._seen.move_to_end(key)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        told = partial(
            self._runtime.events.info,
            Event.TEXTS_VIEWED,
            "texts of answers are shown",
            who=viewer.who,
            peer=viewer.peer,
            path=path,
            requests=ids,
        )
        await anyio.to_thread.run_sync(told)  # it is written to a file, too


def _has_text(one: views.Case | views.Found) -> bool:
    said = [one.question, one.response]
    for verdict in one.verdicts:
        said += [verdict.explanation, verdict.detail, *(piece.claim for piece in verdict.evidence)]
    return any(said)
