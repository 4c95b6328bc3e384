"""Names of external evaluators: unique, distinct from our own, and limited in number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

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

    `alert_rules` are the own defect rules of alerts on it.
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


class PastScores(NamedTuple):
    """One external evaluator in the history: its name in metrics, and the source of its scores.

    `last` is the wall-clock second of the newest score; `recent` of the `number` scores are in the longest window.
    """

    name: str
    source: ScoreSource
    last: float
    recent: int
    number: int


class ExternalEvaluators:
    """The external evaluators. Each is registered by its first score, or by `restore` after a restart.

    `own` are the names of our evaluators; `expected` are the given names whose series start with the app.
    `alert_rules` are the alerts' own defect rules, by the evaluator's name in metrics.
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
        self._configured = frozenset({USER_FEEDBACK, *settings.evaluators})
        self._known: dict[tuple[str, ScoreSource], ExternalEvaluator | None] = {}
        self._taken: dict[str, ScoreSource] = {}
        self._restored: dict[str, ScoreSource] = {}
        self._others = 0
        if USER_FEEDBACK in self._expected:
            self.of(USER_FEEDBACK, ScoreSource.FEEDBACK)

    def of(self, given_name: str, source: ScoreSource) -> ExternalEvaluator | None:
        """Return the evaluator that calls itself `given_name`; None if there are too many."""
        key = (given_name, source)
        if key in self._known:
            return self._known[key]
        name = self._free_name(given_name, source)
        if given_name not in self._configured and name not in self._restored:
            if self._others >= self._settings.max_names:
                return None
            self._others += 1
        if name:
            self._taken[name] = source
        self._known[key] = self._declare(name, given_name, source) if name else None
        return self._known[key]

    def restore(self, past: Iterable[PastScores]) -> dict[str, str]:
        """Reserve the names in the history for the sources that use them there, and declare the evaluators.

        If several sources used a name, the last one keeps it. Names that are not configured count towards `max_names`,
        those with the highest number of recent scores first. Returns the source by name.
        """
        owners: dict[str, PastScores] = {}
        for one in sorted(past, key=lambda one: (one.last, one.number, one.source)):
            if self._may_have(one.name, one.source):
                owners[one.name] = one
        configured = self._configured_names()
        for one in sorted(owners.values(), key=lambda one: (-one.recent, -one.number, one.name)):
            given_name = configured.get((one.name, one.source))
            if given_name is None:
                if self._others >= self._settings.max_names:
                    continue
                self._others += 1
            self._restored[one.name] = one.source
            self._declare(one.name, given_name or one.name, one.source)
        return {name: source.value for name, source in self._restored.items()}

    def prepare(self, app: str, name: str) -> None:
        """Create the series of a restored evaluator for `app`, at 0; do nothing for any other `name`."""
        if name in self._restored:
            self._counting.prepare_one(app, name)

    def _free_name(self, given_name: str, source: ScoreSource) -> str:
        """Return the name for the scores of `source` under `given_name`; empty if another evaluator has it."""
        name, with_source = self._names(given_name, source)
        if name in _NOT_NAMED:
            return ""
        had_second = self._restored.get(with_source) is source and self._restored.get(name) is not source
        for one in (with_source, name) if had_second else (name, with_source):
            if one not in self._taken and self._may_have(one, source):
                return one
        return ""

    def _may_have(self, name: str, source: ScoreSource) -> bool:
        """Return whether scores of `source` may use `name`: it is neither ours nor taken by another source."""
        if name in self._own or name in _NOT_NAMED or name != printable(name):
            return False
        return self._taken.get(name, source) is source and self._restored.get(name, source) is source

    def _names(self, given_name: str, source: ScoreSource) -> tuple[str, str]:
        """Return the name for scores under `given_name`, and the name to use if another source has taken it."""
        name = printable(label_name(given_name, self._own))
        return name, printable(f"{name[:100]}_{source.value}")

    def _configured_names(self) -> dict[tuple[str, ScoreSource], str]:
        """Return the names in the configuration, as given, by the names that their scores may have."""
        given = [(self._names(one, source), source, one) for one in sorted(self._configured) for source in ScoreSource]
        second = {(names[1], source): one for names, source, one in given}
        return {**second, **{(names[0], source): one for names, source, one in given}}

    def _declare(self, name: str, given_name: str, source: ScoreSource) -> ExternalEvaluator:
        rules = self._alert_rules.get(name, ())
        made = ExternalEvaluator(name, source, ruling(given_name, self._settings), rules)
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
