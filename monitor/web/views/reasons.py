"""Why there is a verdict or none, and why there is no page."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from monitor.pipeline.introspection.explain import Cause
from monitor.web.view import View

CauseName: TypeAlias = Annotated[str, Field(json_schema_extra={"enum": [one.value for one in Cause]})]
"""Why there is a verdict or none, as one word of a closed set."""


class WhyStep(View):
    """One step of the way of a trace or an evaluator."""

    what: str
    """The step in a word or two, such as `received`, `chosen`, `attempt 2`."""
    text: str
    """What happened there, in words."""
    setting: str
    """The setting that would change it, with what it would have to be; empty where none would."""
    evaluator: str
    """Empty where it is not about one."""
    cause: str | None
    """Where the way ends here, why: one of the causes of the answer."""
    reason: str
    """The reason of a `skipped` or `unscored`, where there is one."""


class Why(View):
    """Why a trace, or an evaluator, has the verdicts it has, or none."""

    at: float
    subject: str
    """What was asked about, in words."""
    cause: CauseName
    """Why, as one word."""
    reason: str
    """The reason of a `skipped` or `unscored`, where there is one."""
    conclusion: str
    """Why, in one sentence."""
    setting: str
    """The one setting that would change it; empty where none would."""
    steps: list[WhyStep]


class Fault(View):
    """Why there is no answer: a wrong parameter, something that is not there."""

    error: str
