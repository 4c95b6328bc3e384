"""Names of external evaluators: unique, distinct from our own, and limited in number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from monitor.extraction.feedback import FeedbackSettings
from monitor.extraction.feedback.rules import Ruling, label_name, ruling
from monitor.model.external import USER_FEEDBACK, ScoreSource
from monitor.model.outcome import DefectRule, Scale
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.telemetry.metrics import OVERFLOW, printable

_NOT_NAMED: Final = (OVERFLOW, "")


@dataclass(frozen=True, slots=True)
class ExternalEvaluator:
    """An external evaluator: its name in metrics and results, its source, and how its scores are read.

    `alert_rules` are the defect rules that alerts on it bring themselves.
    """

    name: str
    source: ScoreSource
    ruling: Ruling
    alert_rules: tuple[DefectRule, ...] = ()
    cost: str = "none"
    asks: str = ""
    needs: frozenset[str] = frozenset()
    quotes: bool = False

    @property
    def scale(self) -> Scale:
        """The scale of its scores."""
        return self.ruling.scale


class ExternalEvaluators:
    """The external evaluators. The first score of one registers it.

    `own` are the names of our evaluators; `expected` those names, as given, with series that begin with the app.
    `alert_rules` are the defect rules that alerts bring themselves, by the evaluator's name in metrics.
    """

    def __init__(
        self,
        settings: FeedbackSettings,
        counting: ResultMetrics,
        own: Collection[str],
        expected: Iterable[str],
        alert_rules: Mapping[str, tuple[DefectRule, ...]] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._alert_rules = alert_rules
        self._counting = counting
        self._own = frozenset(own)
        self._expected = frozenset(expected)
        self._known: dict[tuple[str, ScoreSource], ExternalEvaluator | None] = {}
        self._taken: dict[str, ScoreSource] = {}
        self._others = 0
        if USER_FEEDBACK in self._expected:
            self._make(USER_FEEDBACK, ScoreSource.FEEDBACK)

    def of(self, given_name: str, source: ScoreSource) -> ExternalEvaluator | None:
        """Return the evaluator that calls itself `given_name`; None if there are too many."""
        key = (given_name, source)
        if key in self._known:
            return self._known[key]
        if given_name not in self._settings.evaluators and given_name != USER_FEEDBACK:
            if self._others >= self._settings.max_names:
                return None
            self._others += 1
        return self._make(given_name, source)

    def _make(self, given_name: str, source: ScoreSource) -> ExternalEvaluator | None:
        name = printable(label_name(given_name, self._own))
        if self._taken.setdefault(name, source) is not source:
            name = printable(f"{name[:100]}_{source.value}")  # the same name in another's mouth is another instrument
        if name in _NOT_NAMED or self._taken.setdefault(name, source) is not source:
            return None
        rules = self._alert_rules.get(name, ())
        made = ExternalEvaluator(name, source, ruling(given_name, self._settings), rules)
        self._known[given_name, source] = made
        self._counting.declare(
            made,
            None,
            source.value,
            source=source,
            shown=str(made.ruling),
            prepared=given_name in self._expected,
            alert_rules=rules,
        )
        return made
