"""Explanations of a trace or an evaluator: why there is a score, or none."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from monitor.pipeline.introspection.explain import Cause, Explanation
from monitor.web.context import PageContext
from monitor.web.queries import BadQueryError, WhyQuery
from monitor.web.views import ApiModel

CauseName: TypeAlias = Annotated[str, Field(json_schema_extra={"enum": [one.value for one in Cause]})]
"""The cause, as one word of a closed set."""


class WhyStepView(ApiModel):
    """One step of what happened to a trace or an evaluator."""

    what: str
    """The step in a word or two, such as `received`, `chosen`, `attempt 2`."""
    text: str
    """What happened in this step."""
    setting: str
    """The setting that would change this, with the value it would need; empty if there is none."""
    evaluator: str
    """Empty if the step is not about one evaluator."""
    cause: str | None
    """Set if the trace ends in this step: one of the causes of an explanation."""
    reason: str
    """The reason of a `skipped` or `unscored` result, if there is one."""


class WhyRequestView(ApiModel):
    """Why one of several requests in a trace has the scores it has, or none."""

    subject: str
    """The request."""
    cause: CauseName
    """The cause, as one word."""
    reason: str
    """The reason of a `skipped` or `unscored` result, if there is one."""
    conclusion: str
    """The cause, in one sentence."""
    setting: str
    """The one setting that would change it; empty if none would."""
    steps: list[WhyStepView]


class WhyView(ApiModel):
    """Why a trace, or an evaluator, has the scores it has, or none."""

    at: float
    subject: str
    """What is explained."""
    cause: CauseName
    """The cause, as one word."""
    reason: str
    """The reason of a `skipped` or `unscored` result, if there is one."""
    conclusion: str
    """The cause, in one sentence."""
    setting: str
    """The one setting that would change it; empty if none would."""
    steps: list[WhyStepView]
    requests: list[WhyRequestView]
    """The same for each request of a trace that contains several; else empty."""


async def explain(context: PageContext, query: WhyQuery) -> WhyView:
    """Explain a trace or an evaluator.

    Raises:
        BadQueryError: the query names neither a trace nor an evaluator.
        MonitorError: stored data cannot be read.
    """
    if query.trace:
        found = await context.explain_trace(query.trace, query.evaluator)
    elif query.evaluator:
        found = await context.explain_evaluator(query.evaluator, query.since, query.app)
    else:
        raise BadQueryError("trace or evaluator: one of them is required")
    return _view(found, context.runtime.clock.now())


def _view(found: Explanation, now: float) -> WhyView:
    return WhyView(
        at=now,
        subject=found.subject,
        cause=found.cause.value,
        reason=found.reason,
        conclusion=found.conclusion,
        setting=found.setting,
        steps=_steps(found),
        requests=[
            WhyRequestView(
                subject=one.subject,
                cause=one.cause.value,
                reason=one.reason,
                conclusion=one.conclusion,
                setting=one.setting,
                steps=_steps(one),
            )
            for one in found.requests
        ],
    )


def _steps(found: Explanation) -> list[WhyStepView]:
    return [
        WhyStepView(
            what=one.what,
            text=one.text,
            setting=one.setting,
            evaluator=one.evaluator,
            cause=one.cause.value if one.cause else None,
            reason=one.reason,
        )
        for one in found.steps
    ]
