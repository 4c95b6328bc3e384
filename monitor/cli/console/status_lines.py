"""The evaluators that are in trouble, a line each, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from monitor.evaluator_status import PRECEDENCE, EvaluatorStatus, State

_QUIET: Final = (State.OK, State.NEVER_RUN)


def troubled(standings: Mapping[str, EvaluatorStatus]) -> Iterator[str]:
    """The gravest first. What is well, and what has not run yet, is not among them."""
    for state in PRECEDENCE:
        for name, one in sorted(standings.items()):
            if one.state == state and state not in _QUIET:
                words = " ".join(text for text in (one.why, one.remedy) if text)
                yield f"{name} is {state.replace('_', ' ')}{f': {words}' if words else ''}"
