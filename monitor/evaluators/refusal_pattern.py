"""Recognises refusals by their wording, in 22 languages: declining, not knowing, or referring to a policy."""

from __future__ import annotations

from typing import ClassVar

from monitor.evaluators._explain import found
from monitor.evaluators._refusals import Clause, clauses_of
from monitor.extraction.content import why_trivial
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures

_TALK = 3.0  # how many times longer than a refusal by policy its reasons may be


class RefusalPattern(Evaluator):
    """Whether the response mainly refuses: 0 `answer`, 1 `refusal`. A refusal is not necessarily a bad answer.

    A refusal says that the assistant does not know, found nothing, must not or will not, in one of 22 languages (see
    docs/evaluators/local.md). It counts if the response begins with it (after apologies) and the rest contains no more
    answer than refusal. A refusal by policy may be followed by three times as much reasoning, unless "but" or "however"
    turns it into an answer. Offers of further help count as neither. Quoted text and code are not read.

    It sees only wording: it misses a refusal in other words or languages, and a polite evasion. It does not check
    whether a refusal was right: if the documents contain no answer, it is the best response.
    """

    name: ClassVar[str] = "refusal_pattern"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.points("answer", "refusal", better="lower")
    measures: ClassVar[Measures | None] = "form"
    default_defect: ClassVar[DefectRule] = DefectRule("label", label="refusal")
    definition: ClassVar[str] = "our own patterns"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped if the response has no content."""
        if why_trivial(case):
            return Skipped(SkippedReason.NO_RESPONSE)
        clauses = (clause for clause in clauses_of(case.response) if clause.kind != "beside")
        first = next(clauses, None)
        if first is None or first.kind == "answer":
            return Score(0.0, "It does not begin with a refusal.", "answer")
        telling = [first, *clauses]
        refusing = [clause for clause in telling if clause.kind != "answer"]
        refused = sum(clause.end - clause.start for clause in refusing)
        answered = sum(clause.end - clause.start for clause in telling) - refused
        allowed = _TALK if first.kind == "declined" and not any(map(_turns, telling)) else 1.0
        evidence = tuple(
            found(case.response[clause.start : clause.end], clause.kind, clause.start, clause.end)
            for clause in refusing
        )
        if answered > allowed * refused:
            said = f"It begins with a refusal and then answers: {refused} and {answered} characters."
            return Score(0.0, said, "answer", evidence)
        said = "It declines." if first.kind == "declined" else "It says that it does not know."
        return Score(1.0, said, "refusal", evidence)


def _turns(clause: Clause) -> bool:
    return clause.kind == "answer" and clause.folded.startswith(
        ("but ", "however", "that said", "nevertheless", "instead", "here ", "here's", "aber ", "mais ", "pero ", "但")
    )
