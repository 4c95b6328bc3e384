"""The one thing that the page does: an evaluator is tried on a case. Posted, carried out elsewhere, then looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from monitor.errors import ConfigError, InvalidData, MonitorError, Overloaded
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER, HttpResponse
from monitor.web import answering, tried, views
from monitor.web.facts import Facts
from monitor.web.posting import Door, RefusedError, Wanted
from monitor.web.sent import HEADERS
from monitor.web.settings import PageSettings
from monitor.web.trials import Trial, Tries
from monitor.web.viewed import Viewed

FORM: Final = "/try"
JSON: Final = "/api/v1/try"
PATHS: Final = frozenset({FORM, JSON})

_SOON: Final = 1.5
"""Seconds that a browser waits for the result before it is shown how far it has come."""


class Offered(NamedTuple):
    """The form of a case: whom it can try, and what shows that it is ours."""

    evaluators: list[str]
    chosen: str
    times: int
    token: str


class Trying:
    """Takes what is posted, and shows what came of it."""

    def __init__(self, facts: Facts, tries: Tries, settings: PageSettings, viewed: Viewed) -> None:
        self._facts = facts
        self._tries = tries
        self._viewed = viewed
        self._door = Door(settings.names)

    def offered(self, case: views.Case, chosen: str = "", times: int = 1) -> Offered:
        """The form for `case`; a judged evaluator that has judged it stands first."""
        names = list(self._tries.evaluators)
        judged = [one.evaluator for one in case.verdicts if one.evaluator in names and one.model]
        known = [one.evaluator for one in case.verdicts if one.evaluator in names]
        first = chosen if chosen in names else next(iter([*judged, *known, *names]), "")
        return Offered(names, first, times, self._door.token)

    async def take(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """What is answered to what is posted. Never raises for what a client has sent."""
        as_json = path == JSON
        try:
            wanted = self._door.admit(headers, body, json=as_json)
            trial = await self._begin(wanted)
        except RefusedError as error:
            return await self._refused(error.status, str(error), error.headers, as_json=as_json)
        except Overloaded as error:
            again = {"retry-after": f"{error.retry_after:.0f}"}
            return await self._refused(HTTPStatus.TOO_MANY_REQUESTS, str(error), again, as_json=as_json)
        except (ConfigError, InvalidData) as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, ConfigError) else HTTPStatus.CONFLICT
            return await self._refused(status, str(error), {}, as_json=as_json)
        except MonitorError as error:
            message = f"Results cannot be read now: {error}"
            return await self._refused(HTTPStatus.SERVICE_UNAVAILABLE, message, {}, as_json=as_json)
        if as_json:
            await trial.over.wait()
            return await answering.json(await self._view(trial))
        with anyio.move_on_after(_SOON):
            await trial.over.wait()
        return HttpResponse(HTTPStatus.SEE_OTHER, "text/plain", b"", {**HEADERS, "location": f"tried/{trial.name}"})

    async def page(self, name: str) -> HttpResponse | None:
        """What came of the one of this name, as long as its case is kept; None where there is none."""
        trial = self._tries.find(name)
        row = await self._row(trial.trace_id) if trial is not None else None
        if trial is None or row is None or "response" not in row:
            return None
        view = await self._view(trial)
        await self._viewed.shown("/tried", [view.trace_id])
        offered = Offered(list(self._tries.evaluators), trial.evaluator, trial.times, self._door.token)
        return await answering.html("tried", now=view.at, up="../", view=view, trying=offered)

    async def _begin(self, wanted: Wanted) -> Trial:
        row = await self._row(wanted.trace_id)
        if row is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "no result of this trace is kept")
        trial = self._tries.begin(row, wanted.evaluator, wanted.times)
        viewer = VIEWER.get()
        told: Callable[[], None] = partial(
            self._facts.runtime.events.info,
            Event.TEXTS_TRIED,
            "an evaluator is tried on a case",
            who=viewer.who,
            peer=viewer.peer,
            requests=[wanted.trace_id],
            evaluator=wanted.evaluator,
            times=wanted.times,
        )
        await anyio.to_thread.run_sync(told)  # it is written to a file, too
        return trial

    async def _row(self, trace_id: str) -> Mapping[str, object] | None:
        """The result of a trace that has the texts, or else its first. Raises `MonitorError`."""
        rows = await self._facts.results.by_trace(trace_id)
        return next((one for one in rows if "response" in one), rows[0] if rows else None)

    async def _view(self, trial: Trial) -> tried.TryResult:
        return await anyio.to_thread.run_sync(tried.view, trial, self._facts.runtime.clock.now())

    async def _refused(
        self, status: HTTPStatus, message: str, headers: Mapping[str, str], *, as_json: bool
    ) -> HttpResponse:
        if as_json:
            found = await answering.json(views.Fault(error=message), status)
        else:
            now = self._facts.runtime.clock.now()
            found = await answering.html("fault", status, now=now, up="", title=status.phrase, message=message, why="")
        return HttpResponse(found.status, found.kind, found.body, {**found.headers, **headers})
