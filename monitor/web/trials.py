"""What the page is given of tries: what it reads of one, and how it begins one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio

from monitor.judge.recording import Exchange
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import EvaluationResult


class Once(Protocol):
    """One time: the result, and the calls that were made for it."""

    @property
    def judged(self) -> EvaluationResult:
        """The result."""
        ...

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """In their order."""
        ...


class Tried(Protocol):
    """The times so far."""

    @property
    def times(self) -> Sequence[Once]:
        """In their order."""
        ...

    @property
    def settings(self) -> JudgeSettings | None:
        """Those of the judge; None where none is asked."""
        ...

    @property
    def together(self) -> Sequence[str]:
        """The evaluators that were asked in the same call."""
        ...

    @property
    def scored(self) -> Sequence[EvaluationResult]:
        """The results that are verdicts."""
        ...

    @property
    def flips(self) -> int:
        """How many verdicts are not the most frequent one."""
        ...

    @property
    def paid(self) -> float:
        """US dollars."""
        ...

    def temperature(self, exchange: Exchange) -> float | None:
        """The one that a call was made at; None where the provider's own was left."""
        ...


class Trial(Protocol):
    """One try, as far as it has come."""

    @property
    def name(self) -> str:
        """By which it is found again; nobody can guess it."""
        ...

    @property
    def times(self) -> int:
        """How often it is to ask."""
        ...

    @property
    def began(self) -> float:
        """Wall-clock seconds."""
        ...

    @property
    def tried(self) -> Tried | None:
        """None before the first time is over."""
        ...

    @property
    def fault(self) -> str:
        """Why there are not as many times as were asked for; empty where there are."""
        ...

    @property
    def over(self) -> anyio.Event:
        """Set at its end."""
        ...

    @property
    def evaluator(self) -> str:
        """The name of the one that is tried."""
        ...

    @property
    def trace_id(self) -> str:
        """Of the case."""
        ...


class Tries(Protocol):
    """Who tries."""

    @property
    def evaluators(self) -> Sequence[str]:
        """Those that can be tried, by name."""
        ...

    def begin(self, row: Mapping[str, Any], evaluator: str, times: int) -> Trial:
        """Begin one on the case of a result; it goes on by itself.

        Raises `Overloaded` where there is no room for another, `InvalidData` where the texts of the case are not kept,
        `ConfigError` where the evaluator cannot be tried.
        """
        ...

    def find(self, name: str) -> Trial | None:
        """One that began lately."""
        ...
