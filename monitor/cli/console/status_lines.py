"""Evaluators in trouble, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from monitor.pipeline.introspection.evaluator_status import PRECEDENCE, EvaluatorStatus, State

_QUIET: Final = (State.OK, State.NEVER_RUN)


def trouble_lines(statuses: Mapping[str, EvaluatorStatus]) -> Iterator[str]:
    """Yield a line for each evaluator that needs attention, the gravest first."""
    for state in PRECEDENCE:
        for name, one in sorted(statuses.items()):
            if one.state == state and state not in _QUIET:
                words = " ".join(text for text in (one.why, one.remedy) if text)
                yield f"{name} is {state.replace('_', ' ')}{f': {words}' if words else ''}"
