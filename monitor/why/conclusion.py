"""The verdict on all steps together, in one sentence, with the one setting."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.why.values import Answer, Cause, Step


def conclude(subject: str, steps: Sequence[Step], ends: Sequence[Step]) -> Answer:
    """The verdict on the whole; `ends` is where it ended with each evaluator."""
    judged = [one.evaluator for one in ends if one.cause in (Cause.EVALUATED, Cause.LATE, Cause.NON_PRODUCTION)]
    others = [one for one in ends if one.evaluator not in judged]
    if not ends:
        return Answer(subject, Cause.NOT_ASKED, "Not judged: no evaluator is configured.", "evaluators", steps=steps)
    if not others:
        counting = next((one for one in ends if one.cause is not Cause.EVALUATED), ends[0])
        words = f"Judged by {', '.join(judged)}"
        apart = f", but in no live rate: {counting.text}" if counting.cause is not Cause.EVALUATED else ""
        return Answer(subject, counting.cause or Cause.EVALUATED, f"{words}{apart}.", counting.setting, steps=steps)
    first = next((one for one in others if one.setting), others[0])
    more = f"; nor by {', '.join(one.evaluator for one in others if one is not first)}" if len(others) > 1 else ""
    so_far = f"Judged by {', '.join(judged)}. " if judged else ""
    text = f"{so_far}Not by {first.evaluator}: {first.text}{more}."
    return Answer(subject, first.cause or Cause.UNSCORED, text, first.setting, first.reason, steps)
