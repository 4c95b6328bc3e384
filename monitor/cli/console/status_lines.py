"""The evaluators that are in trouble, a line each, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from monitor.states import PRECEDENCE, Standing, State

_QUIET: Final = (State.OK, State.NEVER_RUN)


def troubled(standings: Mapping[str, Standing]) -> Iterator[str]:
    """The gravest first. What is well, and what has not run yet, is not among them."""
    for state in PRECEDENCE:
        for name, one in sorted(standings.items()):
            if one.state == state and state not in _QUIET:
                words = " ".join(text for text in (one.why, one.remedy) if text)
                yield f"{name} is {state.replace('_', ' ')}{f': {words}' if words else ''}"


def told(states: Mapping[str, str], overview: Mapping[str, Mapping[str, str]]) -> dict[str, Standing]:
    """The states of a scrape, with the sentences of the page where there is one that says the same.

    A state that this version does not know is left out.
    """
    found = {}
    for name, state in states.items():
        if state in set(State):
            says = overview.get(name, {})
            same = says if says.get("state") == state else {}
            found[name] = Standing(State(state), same.get("why", ""), same.get("remedy", ""))
    return found
