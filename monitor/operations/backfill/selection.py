"""Selects past evaluations: sampled by the same hash as in production, without those already scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from monitor.clock import Clock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.store import batched
from monitor.model.case import Case
from monitor.model.outcome import result_id
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.local_evaluation import skip_reason
from monitor.pipeline.sampling import CaseSampler, score_local
from monitor.pipeline.scoring import Scorer, scores_of, versions, with_facts
from monitor.privacy import pseudonyms
from monitor.privacy.erasure import ErasureMarks
from monitor.privacy.redaction import Redactor
from monitor.stages import FixedSampler, Runtime, probability_of
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """Which past answers are to be evaluated, and by which evaluators.

    Args:
        source: where the cases come from. `MISSED`: evaluations that were due while a judge was paused.
        paths: with `FILE`: captures and rows, see `offline.files.CaseFiles`.
        evaluators: names. Required, except with `MISSED`, where an empty tuple means all.
        app: only this service. None: any.
        share: sample this share, 0 to 1. None: the share of the evaluator's own sampler; with `MISSED`, all.
        since: the earliest time of an answer, in wall-clock seconds. Required with `KAFKA`.
        until: the latest time of an answer.
    """

    source: BackfillOrigin
    paths: tuple[Path, ...] = ()
    evaluators: tuple[str, ...] = ()
    app: str | None = None
    share: float | None = None
    since: float = 0.0
    until: float = float("inf")

    def matches(self, case: Case) -> bool:
        """Return whether a case matches time and app; a case without a time matches only if no time is given."""
        timed = self.since > 0 or self.until != float("inf")
        in_time = self.since <= case.answered_at <= self.until and case.answered_at > 0 if timed else True
        return in_time and self.app in (None, case.app)


@dataclass(slots=True)
class SelectionCounts:
    """How many cases were read, how many match time and app, and the evaluations by evaluator.

    `selected` evaluations go into the queue; `left_out` ones were not sampled or do not apply; `scored` ones already
    have a score, and are also counted as selected. `unreadable` counts deliveries, files and rows.
    """

    read: int = 0
    matching: int = 0
    scored: int = 0
    unreadable: int = 0
    selected: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


class EvaluationSelector:
    """Selects the evaluations that are due. `counts` has the numbers.

    Raises `ConfigError` if the request asks for something that the configuration cannot do.
    """

    def __init__(self, config: Config, request: BackfillRequest, clock: Clock) -> None:
        working = [one for one in config.configured_evaluators if config.works(one)]
        self.counts = SelectionCounts()
        self.versions = versions(working, {name: one.model or "" for name, one in config.all_judges.items()})
        """The versions of all evaluators that can work, by name."""
        self._request = request
        self._evaluators = _named(request, working)
        self._local = [one for one in working if one.evaluator.cost == "local"]
        self._salt = config.sampling.salt
        self._redaction = config.redaction
        self._folder = config.storage.path
        self._clock = clock
        history = self._folder / files.HISTORY
        self._history = HistoryReader(history) if history.exists() else None

    def of_missed(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield missed evaluations, with their original probability times the requested share."""
        for part in batched(self._missed(items), _AT_ONCE):
            yield from self._without_scored(part)

    def _missed(self, items: Iterable[Item]) -> Iterator[Item]:
        share = self._request.share if self._request.share is not None else 1.0
        for item in items:
            self.counts.read += 1
            if item.evaluator not in self.versions or not self._request.matches(item.case):
                continue
            self.counts.matching += 1
            if not consistent_sampling.chosen(item.case.request_id, self._salt, item.probability * share):
                self.counts.left_out[item.evaluator] += 1
                continue
            self.counts.selected[item.evaluator] += 1
            yield replace(item, probability=item.probability * share, target=item.target * share)

    async def of_cases(self, cases: Iterable[Case]) -> list[Item]:
        """Return the evaluations due for cases, which are redacted as in production; each request once."""
        runtime = Runtime.standalone()
        scorer = Scorer(self._local, runtime=runtime)
        case_sampler = CaseSampler(
            scorer.evaluators, versions=scorer.versions, draws=None, runtime=runtime, salt=self._salt
        )
        users = pseudonyms.at_hand(self._folder)
        redactor = Redactor(self._redaction, users, runtime.metrics)
        forgotten = ErasureMarks(self._folder, self._clock)
        found: list[Item] = []
        seen: set[str] = set()
        for case in cases:
            self.counts.read += 1
            if not self._request.matches(case) or case.request_id in seen:
                continue
            if forgotten.holds(case.request_id, users.of(case.user_id), case.answered_at):
                continue
            seen.add(case.request_id)
            self.counts.matching += 1
            redacted = redactor.redact(case)
            results = await redacted.score(partial(score_local, scorer, case_sampler))
            found += self._due(with_facts(redacted.case, scores_of(results)))
        return [item for part in batched(found, _AT_ONCE) for item in self._without_scored(part)]

    def _due(self, case: Case) -> Iterator[Item]:
        for one in self._evaluators:
            name = one.evaluator.name
            share = self._request.share
            if share is None and isinstance(one.sampler, FixedSampler):
                share, _ = probability_of(one.sampler, case)
            applies = skip_reason(one.evaluator, case) is None
            if share is None or not applies or not consistent_sampling.chosen(case.request_id, self._salt, share):
                self.counts.left_out[name] += 1
                continue
            self.counts.selected[name] += 1
            yield Item(
                case=case,
                evaluator=name,
                version=self.versions[name],
                origin=self._request.source,
                probability=share,
                target=share,
            )

    def _without_scored(self, items: Sequence[Item]) -> list[Item]:
        """Leave out the items that the current version of their evaluator has scored."""
        ids = [result_id(one.case.request_id, one.evaluator, self.versions[one.evaluator]) for one in items]
        known = self._history.scored_ids(ids) if self._history is not None else set()
        left = [one for one, id_ in zip(items, ids, strict=True) if id_ not in known]
        self.counts.scored += len(items) - len(left)
        return left


def _named(request: BackfillRequest, working: Sequence[ConfiguredEvaluator]) -> list[ConfiguredEvaluator]:
    by_name = {one.evaluator.name: one for one in working}
    if not request.evaluators and request.source is not BackfillOrigin.MISSED:
        raise ConfigError("evaluators: name at least one evaluator")
    for name in request.evaluators:
        if name not in by_name:
            known = ", ".join(sorted(by_name)) or "none"
            raise ConfigError(f"evaluators: {name!r} is not active in this configuration; active are: {known}")
    found = [by_name[name] for name in request.evaluators]
    for one in found:
        if (
            request.share is None
            and not isinstance(one.sampler, FixedSampler)
            and request.source is not BackfillOrigin.MISSED
        ):
            raise ConfigError(
                f"sample: required for {one.evaluator.name}, because its own `sample` follows a budget and the traffic"
            )
    return found
