"""What the pipeline does for people's privacy: drop what is to be forgotten, and mask before results go anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.model.case import Case, changed
from monitor.model.outcome import EvaluationResult, Score
from monitor.pipeline.live_evaluation import LiveEvaluation, LocalOutcomes
from monitor.pipeline.local_evaluation import LocalCase
from monitor.pipeline.scoring import scores_of, with_facts
from monitor.privacy.erasure import ErasureMarks
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import Redactor
from monitor.stages import Deliver


class LocalScores(NamedTuple):
    """What the local evaluators made of a case, and the case with the facts they found, as all others may see it."""

    case: Case
    scores: dict[str, Score]
    results: list[EvaluationResult]


class PrivacyFilter:
    """Drops and masks; by default nothing. `users` gives users the pseudonyms under which `forgotten` knows them."""

    def __init__(
        self, redactor: Redactor | None = None, users: UserKey | None = None, forgotten: ErasureMarks | None = None
    ) -> None:
        self._redactor = redactor if redactor is not None and redactor.enabled else None
        self._users = users
        self._forgotten = forgotten

    def forgets(self, case: Case, received_at: float) -> bool:
        """Return whether the erasure of this case, received at that wall-clock second, was requested."""
        if self._forgotten is None:
            return False
        user = self._users.of(case.user_id) if self._users is not None and case.user_id else case.user_id
        return self._forgotten.holds(case.request_id, user, received_at)

    def over(self, deliver: Deliver) -> Deliver:
        """Mask external scores on their way to a sink; other results are masked in `score_local`."""
        redactor = self._redactor
        if redactor is None:
            return deliver

        async def masked(results: Sequence[EvaluationResult]) -> None:
            await deliver([redactor.of_others(one) for one in results])

        return masked

    @property
    def redactor(self) -> Redactor | None:
        """The redactor, for what reads requests; None where nothing is masked."""
        return self._redactor

    async def score_local(
        self, evaluation: LiveEvaluation, case: Case, local: LocalCase, outcome: LocalOutcomes
    ) -> LocalScores:
        """Have the case scored by the local evaluators, which saw the original texts; everything else gets masked ones.

        `local` is the case as it was evaluated where it was read, `outcome` returns what an evaluator made of it.
        """
        if local.seen is None or local.masked is None:
            results = await evaluation.score_local(case, outcome)
        else:
            if self._redactor is not None:
                self._redactor.count(local.redacted)
            traffic, probability = case.traffic, case.probability  # as sorted since it was read
            seen = changed(local.seen, traffic=traffic, probability=probability)
            case = changed(local.masked, traffic=traffic, probability=probability)
            scored = await evaluation.score_local(seen, outcome)
            results = [changed(one, case=changed(case, attributes=one.case.attributes)) for one in scored]
        scores = scores_of(results)
        return LocalScores(with_facts(case, scores), scores, results)
