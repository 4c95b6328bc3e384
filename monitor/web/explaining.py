"""Why there is a verdict or none, as a view."""

from __future__ import annotations

from monitor.pipeline.introspection.explain import Explanation
from monitor.web import views
from monitor.web.facts import Asked
from monitor.web.queries import BadQueryError, WhyQuery


async def why(asked: Asked, query: WhyQuery, now: float) -> views.Why:
    """The explanation that was asked for. Raises `BadQueryError`, and `MonitorError` where nothing can be read."""
    if query.trace:
        return _view(await asked.live_trace(query.trace, query.evaluator), now)
    if query.evaluator:
        return _view(await asked.live_evaluator(query.evaluator, query.since, query.app), now)
    raise BadQueryError("trace or evaluator: one of both is needed")


def _view(answer: Explanation, now: float) -> views.Why:
    return views.Why(
        at=now,
        subject=answer.subject,
        cause=answer.cause.value,
        reason=answer.reason,
        conclusion=answer.conclusion,
        setting=answer.setting,
        steps=[
            views.WhyStep(
                what=one.what,
                text=one.text,
                setting=one.setting,
                evaluator=one.evaluator,
                cause=one.cause.value if one.cause else None,
                reason=one.reason,
            )
            for one in answer.steps
        ],
    )
