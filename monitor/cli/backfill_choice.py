"""Which cases are judged afterwards, and by whom: drawn by the hash of production, save what has a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from monitor.backfill.cases import Item, Origin
from monitor.backfill.store import batched
from monitor.clock import SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.model.outcome import result_id
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.drawing import Drawing, score_local
from monitor.pipeline.scoring import Scorer, scores_of, skip_reason, versions, with_facts
from monitor.privacy import pseudonyms
from monitor.privacy.erasure import Forgotten
from monitor.privacy.redaction import Redactor
from monitor.stages import FixedSampler, Runtime
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.storage.history.reader import Reader

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. Times are wall-clock seconds of the answer, both ends included; `share` 0 to 1."""

    evaluators: tuple[Assignment, ...]
    app: str | None = None
    share: float | None = None
    since: float = 0.0
    until: float = float("inf")

    def holds(self, case: Case) -> bool:
        """Whether the case is of that app and time; one that does not say its time is where no time is asked for."""
        timed = self.since > 0 or self.until != float("inf")
        in_time = self.since <= case.answered_at <= self.until and case.answered_at > 0 if timed else True
        return in_time and self.app in (None, case.app)


@dataclass(slots=True)
class Chosen:
    """How it went: cases that were looked at, that are of the wanted app and time, and judgements by evaluator."""

    read: int = 0
    wanted: int = 0
    known: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """In words."""
        yield f"{self.read} cases were read, {self.wanted} are of that time and app"
        for name in sorted({*self.drawn, *self.left}):
            yield f"  {name}: {self.drawn[name]} chosen, {self.left[name]} not in its sample or nothing it applies to"


class Choice:
    """Makes items. `done` tells how it went."""

    def __init__(self, config: Config, wish: Wish) -> None:
        self._config = config
        self._wish = wish
        self.done = Chosen()
        self._working = [one for one in config.assignments if config.works(one)]
        models = {name: settings.model or "" for name, settings in config.all_judges.items()}
        self.versions = versions(self._working, models)
        self._salt = config.sampling.salt
        path = config.storage.path / files.HISTORY
        self._history = Reader(path) if path.exists() else None
        for one in wish.evaluators:
            if wish.share is None and not isinstance(one.sampler, FixedSampler):
                raise ConfigError(
                    f"--sample: is needed for {one.evaluator.name}, whose own sample follows a budget and the traffic"
                )

    def of_missed(self, items: Iterable[Item]) -> Iterator[Item]:
        """What was missed, with the probability that it had; of it `share`, where one is given."""
        for part in batched(self._missed(items), _AT_ONCE):
            yield from self._without_known(part)

    def _missed(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            self.done.read += 1
            if item.evaluator not in self.versions or not self._wish.holds(item.case):
                continue
            self.done.wanted += 1
            share = self._wish.share if self._wish.share is not None else 1.0
            if not consistent_sampling.chosen(item.case.request_id, self._salt, item.probability * share):
                self.done.left[item.evaluator] += 1
                continue
            self.done.drawn[item.evaluator] += 1
            yield replace(item, probability=item.probability * share, target=item.target * share)

    async def of_cases(self, cases: Iterable[Case], origin: Origin) -> list[Item]:
        """The judgements that are due of `cases`, which are redacted as in production, and once of each request."""
        runtime = Runtime.standalone()
        scorer = Scorer([one for one in self._working if one.evaluator.cost == "local"], runtime=runtime)
        drawing = Drawing(scorer.evaluators, versions=scorer.versions, draws=None, runtime=runtime, salt=self._salt)
        users = pseudonyms.at_hand(self._config.storage.path)
        redactor = Redactor(self._config.redaction, users, runtime.metrics)
        forgotten = Forgotten(self._config.storage.path, SystemClock())
        found: list[Item] = []
        seen: set[str] = set()
        for case in cases:
            self.done.read += 1
            if not self._wish.holds(case) or case.request_id in seen:
                continue
            if forgotten.holds(case.request_id, users.of(case.user_id), case.answered_at):
                continue
            seen.add(case.request_id)
            self.done.wanted += 1
            redacted = redactor.redact(case)
            results = await redacted.score(partial(score_local, scorer, drawing))
            found += self._due(with_facts(redacted.case, scores_of(results)), origin)
        return [item for part in batched(found, _AT_ONCE) for item in self._without_known(part)]

    def _due(self, case: Case, origin: Origin) -> Iterator[Item]:
        for one in self._wish.evaluators:
            name = one.evaluator.name
            share = self._wish.share
            if share is None and isinstance(one.sampler, FixedSampler):
                share = one.sampler.probability(case)
            applies = skip_reason(one.evaluator, case) is None
            if share is None or not applies or not consistent_sampling.chosen(case.request_id, self._salt, share):
                self.done.left[name] += 1
                continue
            self.done.drawn[name] += 1
            yield Item(
                case=case,
                evaluator=name,
                version=self.versions[name],
                origin=origin,
                probability=share,
                target=share,
            )

    def _without_known(self, items: Sequence[Item]) -> list[Item]:
        """Those that have no verdict of the present version of their evaluator."""
        ids = [result_id(one.case.request_id, one.evaluator, self.versions[one.evaluator]) for one in items]
        known = self._history.verdicts(ids) if self._history is not None else set()
        left = [one for one, id_ in zip(items, ids, strict=True) if id_ not in known]
        self.done.known += len(items) - len(left)
        return left
