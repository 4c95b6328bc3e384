"""Trials: run an evaluator on one case, from a form or by POST, and show what was sent and what came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final, Literal, NamedTuple

import anyio
import anyio.to_thread
from pydantic import Field

from monitor.errors import ConfigError, InvalidData, MonitorError, Overloaded
from monitor.jobs.trial.queue import Trial, TrialQueue
from monitor.jobs.trial.run import TrialResult, TrialRun
from monitor.judge.provider import Exchange
from monitor.model.outcome import Evidence, Score
from monitor.telemetry.site import WebResponse
from monitor.web.context import PageContext
from monitor.web.post_guard import PostGuard, RefusedError, TrialRequest
from monitor.web.responses import HEADERS, html_response, json_response
from monitor.web.settings import UiSettings
from monitor.web.texts import whole
from monitor.web.view_audit import ViewAudit
from monitor.web.views import ApiModel, CaseView, ErrorView, EvidenceView, MessageView

TEXT: Final = 200_000
"""Maximum characters of one text."""

_API: Final = "/api/v1/try"

_PATIENCE: Final = 1.5
"""Seconds to wait for the result before a browser is shown the progress instead."""


class JudgeReplyView(ApiModel):
    """What the model replied, unchanged. Token counts are null if the provider sent none."""

    text: str | None
    finish: str
    """Why the reply ended, in the provider's own term."""
    refused: bool
    model: str
    input_tokens: int | None
    output_tokens: int | None


class JudgeCallView(ApiModel):
    """One call of the judge."""

    messages: list[MessageView]
    max_tokens: int
    temperature: float | None
    """Null if the provider's default applies."""
    response_format: str
    """The requested response format; empty if none was requested."""
    reply: JudgeReplyView | None
    """Null if the call failed."""
    error: str
    """Why the call failed; else empty."""


class TrialRunView(ApiModel):
    """One evaluation of a trial."""

    outcome: Literal["score", "skipped", "unscored"]
    reason: str
    """Why there is no score; else empty."""
    detail: str
    score: float | None
    label: str
    level: str
    defect: bool
    explanation: str
    evidence: list[EvidenceView]
    dollars: float
    seconds: float
    calls: list[JudgeCallView]


class TrialView(ApiModel):
    """A trial: one evaluator on one case, several times, with no effect on anything live."""

    at: float
    trace_id: str
    evaluator: str
    version: str
    """The version of the evaluator, including its options and judge; empty until the first evaluation has ended."""
    model: str
    """The judge's model; empty if the evaluator uses none."""
    together_with: list[str]
    """Evaluators that share the call, as in production."""
    started_at: float
    requested: int = Field(ge=1)
    """How many evaluations were requested."""
    finished: bool
    error: str
    """Why there are fewer evaluations than requested; else empty."""
    times: list[TrialRunView]
    """One entry for each evaluation."""
    scored: int
    """Evaluations that produced a score."""
    defects: int
    """Scores that are defects."""
    flips: int
    """Scores that disagree with the majority on whether it is a defect."""
    dollars: float
    """Total cost; 0 if the price is unknown."""
    cut: list[str]
    """Texts that are cut off here, with their full length."""


class TrialForm(NamedTuple):
    """The form that starts a trial on a case; the token proves that this process rendered it."""

    evaluators: list[str]
    chosen: str
    times: int
    token: str


class TrialPages:
    """Starts trials and shows them."""

    def __init__(self, context: PageContext, trials: TrialQueue, settings: UiSettings, audit: ViewAudit) -> None:
        self._context = context
        self._trials = trials
        self._audit = audit
        self._guard = PostGuard(settings.names)

    def form(self, case: CaseView) -> TrialForm:
        """Return the form for a case; it preselects an evaluator that asked a judge about the case."""
        names = list(self._trials.evaluators)
        judged = [one.evaluator for one in case.results if one.evaluator in names and one.model]
        known = [one.evaluator for one in case.results if one.evaluator in names]
        return TrialForm(names, next(iter([*judged, *known, *names]), ""), 1, self._guard.token)

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> WebResponse:
        """Start a trial. A form is redirected to its page, JSON waits for the result. Never raises for bad input."""
        as_json = path == _API
        try:
            trial = await self._start(self._guard.admit(headers, body, TrialRequest, json=as_json))
        except RefusedError as error:
            return await self._refuse(error.status, str(error), as_json=as_json)
        except Overloaded as error:
            retry = {"retry-after": f"{error.retry_after:.0f}"}
            return await self._refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error), retry, as_json=as_json)
        except (ConfigError, InvalidData) as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, ConfigError) else HTTPStatus.CONFLICT
            return await self._refuse(status, str(error), as_json=as_json)
        except MonitorError as error:
            message = f"Results cannot be read now: {error}"
            return await self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, message, as_json=as_json)
        if as_json:
            await trial.finished.wait()
            return await json_response(await self._view(trial))
        with anyio.move_on_after(_PATIENCE):
            await trial.finished.wait()
        return WebResponse(HTTPStatus.SEE_OTHER, "text/plain", b"", {**HEADERS, "location": f"tried/{trial.name}"})

    async def page(self, name: str) -> WebResponse | None:
        """Return the page of the trial of this name; None if there is no such trial or its case is no longer stored."""
        trial = self._trials.find(name)
        row = await self._row(trial.trace_id) if trial is not None else None
        if trial is None or row is None or "response" not in row:
            return None
        view = await self._view(trial)
        await self._audit.texts_shown("/tried", [view.trace_id])
        form = TrialForm(list(self._trials.evaluators), trial.evaluator, trial.times, self._guard.token)
        return await html_response("tried", now=view.at, up="../", view=view, trying=form)

    async def _start(self, request: TrialRequest) -> Trial:
        row = await self._row(request.trace_id)
        if row is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "no result of this trace is stored")
        trial = self._trials.start(row, request.evaluator, request.times)
        await self._audit.trial_started(request.trace_id, request.evaluator, request.times)
        return trial

    async def _row(self, trace_id: str) -> Mapping[str, object] | None:
        """Return a result of the trace that has the texts, or else its first result. Raises `MonitorError`."""
        rows = await self._context.history.by_trace(trace_id)
        return next((one for one in rows if "response" in one), rows[0] if rows else None)

    async def _view(self, trial: Trial) -> TrialView:
        return await anyio.to_thread.run_sync(trial_view, trial, self._context.runtime.clock.now())

    async def _refuse(
        self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None, *, as_json: bool
    ) -> WebResponse:
        if as_json:
            found = await json_response(ErrorView(error=message), status)
        else:
            now = self._context.runtime.clock.now()
            found = await html_response("error", status, now=now, up="", title=status.phrase, message=message, why="")
        return replace(found, headers={**found.headers, **(headers or {})})


def trial_view(trial: Trial, now: float) -> TrialView:
    """Return `trial` in its current state."""
    found, cut = trial.result, list[str]()
    scored = found.scored if found is not None else []
    return TrialView(
        at=now,
        trace_id=whole(trial.trace_id),
        evaluator=trial.evaluator,
        version=found.runs[0].result.version if found is not None and found.runs else "",
        model=(found.settings.model or "") if found is not None and found.settings is not None else "",
        together_with=list(found.together) if found is not None else [],
        started_at=trial.started_at,
        requested=trial.times,
        finished=trial.finished.is_set(),
        error=trial.error,
        times=[_run(found, one, number, cut) for number, one in enumerate(found.runs, 1)] if found else [],
        scored=len(scored),
        defects=sum(one.defect for one in scored),
        flips=found.flips if found is not None else 0,
        dollars=found.dollars if found is not None else 0.0,
        cut=cut,
    )


def _run(tried: TrialResult, one: TrialRun, number: int, cut: list[str]) -> TrialRunView:
    result, outcome = one.result, one.result.outcome
    score = outcome if isinstance(outcome, Score) else None
    return TrialRunView.model_validate(
        {
            "outcome": outcome.kind,
            "reason": "" if isinstance(outcome, Score) else str(outcome.reason),
            "detail": whole(getattr(outcome, "detail", ""))[:TEXT],
            "score": score.value if score else None,
            "label": whole(score.label or "") if score else "",
            "level": result.level if score else "",
            "defect": result.defect if score else False,
            "explanation": whole(score.explanation)[:TEXT] if score else "",
            "evidence": [_evidence(one) for one in score.evidence] if score else [],
            "dollars": result.cost.dollars,
            "seconds": result.cost.seconds,
            "calls": [
                _call(tried, call, f"evaluation {number}, call {place}", cut)
                for place, call in enumerate(one.exchanges, 1)
            ],
        }
    )


def _evidence(one: Evidence) -> EvidenceView:
    claim, note = whole(one.claim)[:TEXT], whole(one.note)[:TEXT]
    return EvidenceView(claim=claim, verdict=one.verdict, start=one.start, end=one.end, note=note)


def _call(tried: TrialResult, exchange: Exchange, where: str, cut: list[str]) -> JudgeCallView:
    text, sent, reply = partial(_shortened, cut=cut), exchange.call, exchange.reply
    return JudgeCallView(
        messages=[
            MessageView(role=whole(one["role"]), content=text(f"{where}: message {number}", one["content"]))
            for number, one in enumerate(sent.messages, 1)
        ],
        max_tokens=sent.max_tokens,
        temperature=tried.temperature(exchange),
        response_format=str(sent.response_format.get("type", "requested")) if sent.response_format else "",
        reply=JudgeReplyView(
            text=text(f"{where}: reply", reply.text) if reply.text is not None else None,
            finish=whole(reply.finish),
            refused=reply.refused,
            model=whole(reply.model),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
        )
        if reply is not None
        else None,
        error=whole(exchange.fault),
    )


def _shortened(name: str, given: str, *, cut: list[str]) -> str:
    text = whole(given)
    if len(text) > TEXT:
        cut.append(f"{name}: the first {TEXT:,} of {len(text):,} characters")
    return text[:TEXT]
