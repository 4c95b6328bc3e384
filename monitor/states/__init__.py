"""One state for each evaluator, for the page, the API, the metric and the terminal alike."""

from __future__ import annotations

from monitor.states.book import Known, States
from monitor.states.state import PRECEDENCE, Facts, Standing, State, state_of

__all__ = ["PRECEDENCE", "Facts", "Known", "Standing", "State", "States", "state_of"]
