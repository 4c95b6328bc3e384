"""A case without personal data, and the results of local evaluators that saw the original."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from monitor.model.case import Case, Document, Joined, Message, Request
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, Evidence, Outcome, Score, Unscored
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction.edits import Masked
from monitor.privacy.redaction.masking import Masking, RedactionSettings

if TYPE_CHECKING:
    from monitor.telemetry.metrics import Metrics


class Redactor:
    """Redaction as configured. `users` makes pseudonyms. If redaction is off, nothing is changed.

    Without `metrics` it counts nothing, and can be sent to another process.
    """

    def __init__(self, settings: RedactionSettings, users: UserKey, metrics: Metrics | None) -> None:
        self.enabled = settings.enabled
        self._settings = settings
        self._types = frozenset(settings.types)
        self._users = users
        counted = settings.types if settings.enabled and metrics is not None else ()
        self._counters = {kind.value: metrics.redacted.labels(kind.value) for kind in counted if metrics is not None}

    def uncounted(self) -> Redactor:
        """Return the same redactor without metrics."""
        return Redactor(self._settings, self._users, None)

    def redact(self, case: Case) -> Redacted:
        """Find and mask personal data. Takes a few milliseconds for a long case: call from a worker thread."""
        if not self.enabled:
            return Redacted.not_at_all(case)
        masking = Masking(self._types, _texts(case), [one.content for one in case.retrieved_context])
        if self._counters:
            self.count({kind.value: number for kind, number in masking.found.items()})
        attributes = {name: masking.mask(value).text for name, value in case.attributes.items()}
        user_id = self._users.of(case.user_id)
        session_id = masking.mask(case.session_id).text
        seen = replace(case, attributes=attributes, user_id=user_id, session_id=session_id)
        return Redacted(seen, _masked(seen, masking) if masking else seen, masking)

    def names(self, spans: Sequence[Joined]) -> tuple[Joined, ...]:
        """Mask the names of spans, such as those of routes with an address in them."""
        masking = Masking(self._types, [one.name for one in spans]) if self.enabled else None
        return tuple(one._replace(name=masking.mask(one.name).text) if masking else one for one in spans)

    def count(self, found: Mapping[str, int]) -> None:
        """Count the values found in a case, by type."""
        for kind, number in found.items():
            self._counters[kind].inc(number)

    def of_others(self, result: EvaluationResult) -> EvaluationResult:
        """Redact an external score with its reasons. Only the values in its own texts are masked."""
        if not self.enabled or result.score_source is ScoreSource.OWN:
            return result
        masking = Masking(self._types, (*_texts(result.case), *_reasons(result.outcome)))
        user_id = self._users.of(result.case.user_id)
        case = _masked(replace(result.case, user_id=user_id), masking) if masking else result.case
        attributes = {name: masking.mask(value).text for name, value in case.attributes.items()}
        case = replace(case, user_id=user_id, session_id=masking.mask(case.session_id).text, attributes=attributes)
        return replace(result, case=case, outcome=_told(result.outcome, masking, Masked(case.response), 0))


@dataclass(frozen=True, slots=True)
class Redacted:
    """`seen` is for local evaluators only, with the original texts. `case` is for everything else."""

    seen: Case
    case: Case
    masking: Masking | None

    @classmethod
    def not_at_all(cls, case: Case) -> Redacted:
        """Wrap a case that is not redacted."""
        return cls(case, case, None)

    async def score(self, score: Callable[[Case], Awaitable[Sequence[EvaluationResult]]]) -> list[EvaluationResult]:
        """Let `score` score `seen` and return its results as results on `case`.

        Explanations and attributes are masked; offsets refer to the masked response.
        """
        results = await score(self.seen)
        if self.masking is None or not self.masking:
            return list(results)  # their case is `seen`, which is then the same as `case`
        case = self.case
        return [
            replace(one, outcome=self.masked(one.outcome), case=replace(case, attributes=one.case.attributes))
            for one in results
        ]

    def masked(self, outcome: Outcome) -> Outcome:
        """Mask an evaluator's outcome on `seen`; offsets refer to the masked response."""
        if self.masking is None or not self.masking:
            return outcome
        response = self.masking.mask(self.seen.response)  # already cached
        return _told(outcome, self.masking, response, len(self.seen.response))

    @property
    def found(self) -> dict[str, int]:
        """The number of distinct values found, by type."""
        return {} if self.masking is None else {kind.value: number for kind, number in self.masking.found.items()}


def _reasons(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Unscored):
        yield outcome.detail
    elif isinstance(outcome, Score):
        yield from (outcome.label, outcome.explanation)
        for one in outcome.evidence:
            yield from (one.claim, one.note)


def _told(outcome: Outcome, masking: Masking, response: Masked, length: int) -> Outcome:
    """Mask an outcome. `length` is the length of the response in which its evidence was found."""
    mask = masking.loosely
    if isinstance(outcome, Unscored):
        return replace(outcome, detail=mask(outcome.detail))
    if not isinstance(outcome, Score):
        return outcome
    return replace(
        outcome,
        label=mask(outcome.label),
        explanation=mask(outcome.explanation),
        evidence=tuple(_evidence(one, response, masking, length) for one in outcome.evidence),
        facts={name: mask(value) for name, value in outcome.facts.items()},
    )


def _evidence(one: Evidence, response: Masked, masking: Masking, length: int) -> Evidence:
    note = masking.loosely(one.note)
    place = one.place
    if place is None or not 0 <= place[0] <= place[1] <= length:
        return replace(one, claim=masking.fragment(one.claim), note=note)
    start, end, changed = response.stretch(*place)
    claim = response.text[start:end] if changed else masking.fragment(one.claim)
    return replace(one, claim=claim, start=start, end=end, note=note)


def _texts(case: Case) -> Iterator[str]:
    """Yield all texts of the case, the short ones last."""
    yield case.request.query
    for turn in (*case.request.history, *case.prompt):
        yield turn.content
    for document in (*case.retrieved_context, *(case.expected_retrieved_context or ())):
        yield from (document.content, document.doc_uri, document.doc_id)
    yield case.response
    yield case.expected_response or ""
    yield case.session_id
    yield from case.attributes.values()


def _masked(case: Case, masking: Masking) -> Case:
    def text(given: str) -> str:
        return masking.mask(given).text

    def turns(given: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(replace(one, content=text(one.content)) for one in given)

    def documents(given: Sequence[Document]) -> tuple[Document, ...]:
        return tuple(
            replace(one, content=text(one.content), doc_uri=text(one.doc_uri), doc_id=text(one.doc_id)) for one in given
        )

    expected = case.expected_retrieved_context
    return replace(
        case,
        request=Request(text(case.request.query), turns(case.request.history)),
        retrieved_context=documents(case.retrieved_context),
        prompt=turns(case.prompt),
        response=text(case.response),
        expected_response=None if case.expected_response is None else text(case.expected_response),
        expected_retrieved_context=None if expected is None else documents(expected),
    )
