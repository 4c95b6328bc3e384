"""Incidents: the list, the page of one incident with everything stored about it, and notes by form or POST."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple

from monitor.errors import InvalidData, MonitorError
from monitor.jobs.incidents import IncidentKeeper
from monitor.model.incident import IncidentRecord, as_object
from monitor.telemetry.site import WebResponse
from monitor.web.context import PageContext
from monitor.web.post_guard import NoteRequest, PostGuard, RefusedError
from monitor.web.responses import HEADERS, html_response, json_response
from monitor.web.settings import UiSettings
from monitor.web.texts import whole
from monitor.web.view_audit import ViewAudit
from monitor.web.views import ApiModel, ErrorView

_API: Final = "/api/v1/"
_SILENT_AFTER: Final = 180.0


class FiredAlertView(ApiModel):
    """An alert that fired in an incident."""

    name: str
    severity: str
    threshold: float | None


class RatePeakView(ApiModel):
    """The highest rate at which an alert fired, with the limits of its window."""

    at: float
    rate: float
    lower: float
    upper: float
    judged: int
    defects: int
    window: float


class IncidentStepView(ApiModel):
    """Something that happened, in one sentence."""

    at: float
    text: str


class IncidentOnsetView(ApiModel):
    """When the rate rose: the best guess, and a 90 % interval."""

    at: float
    earliest: float
    latest: float


class IncidentImpactView(ApiModel):
    """The answers from the onset to the end, or until now.

    If the onset is not known, `since` is the beginning of the window in which the rate was first too high.

    `answers` and `bad_answers` are estimates for all answers, not only the scored ones, with 95 % limits.
    """

    since: float
    until: float
    judged: int
    defects: int
    answers: float
    bad_answers: float
    bad_lower: float
    bad_upper: float


class IncidentView(ApiModel):
    """A period in which one rate of a service was too high."""

    id: str
    app: str
    evaluator: str
    defect_rule: str
    """The name of the defect rule, if it is defined in the alert; else empty."""
    version: str
    severity: str
    """The highest severity that is firing, or that fired last."""
    worst: str
    """The highest severity reached."""
    began: float
    """When the rate rose, or when the alert fired if that is not known."""
    fired: float
    window: float
    """Seconds over which the rate was too high when it fired."""
    checked: float
    """When one of its alerts was last seen firing."""
    ended: float | None
    """Null while it is open."""
    end: str
    """What ended it: `fell_back`, `too_little_traffic`, `threshold_changed`, `alert_removed`, `evaluator_changed`,
    `monitor_stopped`; empty while it is open."""
    end_text: str
    alerts: list[FiredAlertView]
    peak: RatePeakView | None
    onset: IncidentOnsetView | None
    impact: IncidentImpactView | None
    changes: list[IncidentStepView]
    """Versions of the service, the evaluator or the judge that came into use around the onset or later."""
    steps: list[IncidentStepView]


class IncidentsView(ApiModel):
    """The newest incidents, newest first."""

    at: float
    incidents: list[IncidentView]


class IncidentDiagnosisView(ApiModel):
    """What the bad answers had in common."""

    moment: Literal["height", "end"]
    lines: list[str]


class IncidentAnswerView(ApiModel):
    """One of the worst answers. Texts are excerpts, null if they are not stored."""

    request_id: str
    at: float
    score: float
    level: str
    question: str | None
    response: str | None
    explanation: str


class IncidentNoteView(ApiModel):
    """A person's note."""

    at: float
    who: str
    text: str


class IncidentReportView(ApiModel):
    """An incident with everything stored about it."""

    at: float
    incident: IncidentView
    diagnoses: list[IncidentDiagnosisView]
    answers: list[IncidentAnswerView]
    notes: list[IncidentNoteView]


class NoteForm(NamedTuple):
    """The form for a note; the token proves that this process rendered it."""

    token: str


class IncidentPages:
    """Shows incidents and takes notes."""

    def __init__(self, context: PageContext, settings: UiSettings, audit: ViewAudit) -> None:
        self._context = context
        self._keeper: IncidentKeeper = context.incidents
        self._audit = audit
        self._guard = PostGuard(settings.names)

    async def all(self) -> IncidentsView:
        """Return the newest incidents. Raises `MonitorError`."""
        found = await self._keeper.newest()
        return IncidentsView(at=self._context.runtime.clock.now(), incidents=[_view(one) for one in found])

    async def one(self, name: str, path: str) -> IncidentReportView | None:
        """Return the incident to show at `path`; None if there is none. Raises `MonitorError`."""
        found = await self._keeper.find(name)
        if found is None:
            return None
        view = _report(found, self._context.runtime.clock.now())
        texts = [one.request_id for one in view.answers if one.question or one.response or one.explanation]
        await self._audit.texts_shown(path, texts)
        return view

    async def list_page(self) -> WebResponse:
        """Return the page of the list."""
        view = await self.all()
        return await html_response("incidents", now=view.at, up="", view=view)

    async def page(self, name: str) -> WebResponse | None:
        """Return the page of an incident; None if there is no such incident."""
        view = await self.one(name, "/incidents")
        if view is None:
            return None
        silent = view.incident.ended is None and view.at - view.incident.checked > _SILENT_AFTER
        form = NoteForm(self._guard.token)
        timeline = sorted(_timeline(view), key=lambda step: step.at)
        return await html_response(
            "incident",
            now=view.at,
            up="../",
            view=view,
            timeline=timeline,
            silent=silent,
            form=form,
            labelled=self._context.review is not None,
        )

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> WebResponse:
        """Add a note. A form is redirected to the incident; JSON gets the incident. Never raises for bad input."""
        as_json = path.startswith(_API)
        try:
            asked = self._guard.admit(headers, body, NoteRequest, json=as_json)
            known = await self._keeper.note(asked.incident, asked.text)
        except RefusedError as error:
            return await self._refuse(error.status, str(error), as_json=as_json)
        except InvalidData as error:
            return await self._refuse(HTTPStatus.BAD_REQUEST, str(error), as_json=as_json)
        except MonitorError as error:
            message = f"The note cannot be written now: {error}"
            return await self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, message, as_json=as_json)
        if not known:
            return await self._refuse(HTTPStatus.NOT_FOUND, "there is no incident with this id", as_json=as_json)
        if not as_json:
            where = f"incidents/{asked.incident}"
            return WebResponse(HTTPStatus.SEE_OTHER, "text/plain", b"", {**HEADERS, "location": where})
        view = await self.one(asked.incident, f"{_API}notes")
        gone = ErrorView(error="the incident has been deleted in the meantime")
        return await json_response(view) if view is not None else await json_response(gone, HTTPStatus.NOT_FOUND)

    async def _refuse(self, status: HTTPStatus, message: str, *, as_json: bool) -> WebResponse:
        if as_json:
            return await json_response(ErrorView(error=message), status)
        now = self._context.runtime.clock.now()
        return await html_response("error", status, now=now, up="", title=status.phrase, message=message, why="")


def _view(record: IncidentRecord) -> IncidentView:
    one = record.incident
    row: dict[str, Any] = {
        **as_object(one),
        "began": record.began,
        "end": one.end.value if one.end is not None else "",
        "end_text": one.end.words if one.end is not None else "",
        "onset": as_object(record.onset),
        "impact": as_object(record.impact),
        "changes": as_object(list(record.changes)),
    }
    return IncidentView.model_validate(_whole(row))


def _report(record: IncidentRecord, now: float) -> IncidentReportView:
    diagnoses = [
        {"moment": moment, "lines": [str(line) for line in lines]}
        for moment in ("height", "end")
        if isinstance(lines := record.diagnoses.get(moment, {}).get("lines"), list)
    ]
    row = {
        "at": now,
        "diagnoses": diagnoses,
        "answers": as_object(list(record.answers)),
        "notes": as_object(list(record.notes)),
    }
    return IncidentReportView.model_validate({**_whole(row), "incident": _view(record)})


def _whole(value: Any) -> Any:
    """Replace unpaired surrogates in all texts of a value in plain JSON types."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _timeline(view: IncidentReportView) -> list[IncidentStepView]:
    one, found = view.incident, list(view.incident.steps)
    if one.onset is not None:
        found.append(IncidentStepView(at=one.onset.at, text="The rate rises (best guess)."))
    if one.peak is not None:
        found.append(IncidentStepView(at=one.peak.at, text="The rate is at its highest."))
    found += [IncidentStepView(at=change.at, text=f"Changed: {change.text}.") for change in one.changes]
    return found
