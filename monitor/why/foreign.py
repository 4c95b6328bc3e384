"""An evaluator that is not ours: whose word it is, and how many verdicts of it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from monitor.model.foreign import USER_FEEDBACK, Via
from monitor.why.values import Answer, Cause, Step, clock_time, several

_WHOSE: Final[Mapping[str, str]] = {
    Via.FEEDBACK: "what users say: POST /v1/feedback, and events and attributes in traces",
    Via.OPENINFERENCE: "what another tool, or a person, says in annotations on spans (OpenInference)",
    Via.GEN_AI_EVENTS: "what another tool says in events gen_ai.evaluation.result (OpenTelemetry)",
}
_OTHERS: Final = "what somebody else says"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Verdicts of somebody else's that came in a span of time, as far as the history has them.

    `via` is one of `Via`, empty where it is not known. `numbers` has those that are `defect`, `passed` and `unscored`,
    `newest` the wall-clock second at which the last came at all, None where none is kept.
    """

    via: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    newest: float | None = None


def expected_via(name: str) -> str:
    """How verdicts of `name` would come, of which none has."""
    return Via.FEEDBACK if name.startswith(USER_FEEDBACK) else ""


def of_foreign(subject: str, name: str, found: Foreign) -> Answer:
    """What it is, and what came of it."""
    whose = _WHOSE.get(found.via, _OTHERS)
    steps = [Step("whose", f"it is not an evaluator of this monitor: it is {whose} (docs/feedback.md)")]
    defects, passed, unread = (found.numbers.get(one, 0) for one in ("defect", "passed", "unscored"))
    scored = defects + passed
    setting = ""
    if scored:
        steps.append(Step("verdicts", f"{scored:,} came: {defects:,} are defects, {passed:,} are not"))
    if unread:
        setting = f"feedback.evaluators.{name}: its scale, and which labels are bad"
        steps.append(Step("no verdict", f"{unread:,} came that cannot be read as good or bad", setting))
    if scored or unread:
        more = f"; {unread:,} more cannot be read as good or bad" if unread else ""
        text = f"It is not ours, but {whose}. {several(scored, 'verdict')} came, {defects:,} of them defects{more}"
        return Answer(subject, Cause.EVALUATED if scored else Cause.UNSCORED, f"{text}.", setting, steps=steps)
    last = f"; the last came {clock_time(found.newest)}" if found.newest is not None else ""
    steps.append(Step("verdicts", f"none came in that time{last}"))
    return Answer(subject, Cause.NOT_ASKED, f"None came: it is not ours, but {whose}{last}.", steps=steps)


def not_on_this(subject: str, name: str) -> Answer:
    """There is no verdict of it on one request."""
    text = f"{name} is not ours, but {_WHOSE.get(expected_via(name), _OTHERS)}, and none is kept on this request"
    return Answer(subject, Cause.NOT_ASKED, f"Not judged: {text}.")
