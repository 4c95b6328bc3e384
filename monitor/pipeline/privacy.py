"""Privacy in the pipeline: drop requests that must be forgotten, and mask personal data before results go anywhere."""

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
    """The local scores and results of a case, and the case, masked and with the facts that local evaluators found."""

    case: Case
    scores: dict[str, Score]
    results: list[EvaluationResult]


class PrivacyFilter:
    """Drops and masks; by default nothing. `users` maps users to the pseudonyms that `forgotten` stores."""

    def __init__(
        self, redactor: Redactor | None = None, users: UserKey | None = None, forgotten: ErasureMarks | None = None
    ) -> None:
        self._redactor = redactor if redactor is not None and redactor.enabled else None
        self._users = users
        self._forgotten = forgotten

    def forgets(self, case: Case, received_at: float) -> bool:
        """Return whether the erasure of this case, received at the wall-clock second `received_at`, was requested."""
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
        """The redactor, for the code that reads requests; None if nothing is masked."""
        return self._redactor

    async def score_local(
        self, evaluation: LiveEvaluation, case: Case, local: LocalCase, outcome: LocalOutcomes
    ) -> LocalScores:
        """Have the local evaluators score the case on its original texts; everything else gets masked texts.

        `local` is the case as evaluated where it was read; `outcome` returns the outcome of an evaluator.
        """
        if local.seen is None or local.masked is None:
            results = await evaluation.score_local(case, outcome)
        else:
            if self._redactor is not None:
                self._redactor.count(local.redacted)
            traffic, probability = case.traffic, case.probability  # set by the traffic rules since it was read
            seen = changed(local.seen, traffic=traffic, probability=probability)
            case = changed(local.masked, traffic=traffic, probability=probability)
            scored = await evaluation.score_local(seen, outcome)
            results = [changed(one, case=changed(case, attributes=one.case.attributes)) for one in scored]
        scores = scores_of(results)
        return LocalScores(with_facts(case, scores), scores, results)
