"""What the pipeline does for people's privacy: drop what is to be forgotten, and mask before results go anywhere."""

from __future__ import annotations

from typing import NamedTuple

import anyio.to_thread

from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score
from monitor.pipeline.live_evaluation import LiveEvaluation
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

        async def masked(result: EvaluationResult) -> None:
            await deliver(redactor.of_others(result))

        return masked

    async def score_local(self, evaluation: LiveEvaluation, case: Case) -> LocalScores:
        """Run the local evaluators on the original texts; everything else gets masked ones."""
        if self._redactor is None:
            results = await evaluation.score_local(case)
        else:
            redacted = await anyio.to_thread.run_sync(self._redactor.redact, case)
            case, results = redacted.case, await redacted.score(evaluation.score_local)
        scores = scores_of(results)
        return LocalScores(with_facts(case, scores), scores, results)
