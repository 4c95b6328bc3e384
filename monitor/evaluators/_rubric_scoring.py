"""Scores a case by a rubric: the rule for empty responses, the question to the judge, reading its verdict."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, JsonValue, field_validator

from monitor.errors import JudgeError
from monitor.evaluators import _rubric_examples
from monitor.evaluators._explain import one_line
from monitor.evaluators._long_context import Shown, fitted
from monitor.evaluators._rubric_file import RubricFile
from monitor.evaluators._rubric_parts import COMPUTED, KINDS, MATERIALS, EvidenceSummary, Part, are, material
from monitor.extraction.content import why_trivial
from monitor.model.case import Case, ContextStatus
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason, Unscored, UnscoredReason, without_context
from monitor.stages import Evaluator, Judge, Question

_TOKENS, _MOST_TOKENS = 1_024, 4_096
_NOTHING_RETRIEVED: Final = """
A retrieval took place for this request and found nothing: the list of documents in the data block `context` is empty.
There are no other sources, so nothing that a response says of its subject is supported. A response that says no more
than that it found nothing, or that it does not know, makes no claim.
""".strip()
_OTHER_SOURCES: Final = """
Some entries of the data block `context` have a `kind`. A `tool result` is what a tool returned that the assistant
called, an `attachment` is the text of a file that the user attached. They are sources like the documents.
""".strip()
_WITHOUT_EXAMPLES: Final = "Judged without the examples of the rubric: there was no room for them."


class RubricEvaluator(Evaluator, ABC):
    """The base class of all rubrics. `rubric.from_file` makes the class of a particular rubric."""

    cost: ClassVar[Literal["local", "judge"]] = "judge"
    examples_at_most: ClassVar[int] = _rubric_examples.AT_MOST
    rubric: ClassVar[RubricFile]

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Ask the judge, unless the response has no content: then a rule decides. Raises `JudgeError`.

        A context that is too long for one question is read in pieces, at the cost of one more question per piece.
        """
        rubric = self.rubric
        lacking = _lacking(rubric, case)
        if lacking is not None:
            return Skipped(lacking)
        why = why_trivial(case) if "response" in rubric.needs else ""
        if why:
            return _by_rule(rubric, why)
        if rubric.nothing_retrieved is not None and case.context_status is ContextStatus.RETRIEVED_NOTHING:
            value = rubric.nothing_retrieved
            return Score(value, "By rule, without a judge: nothing was retrieved.", rubric.scale.level(value))
        if judge is None:
            raise JudgeError(UnscoredReason.ERROR, f"{rubric.name} needs a judge, but there is none")
        added = [name for name in self.added() if _HAS[name](case)]
        names = [name for name in MATERIALS if name in rubric.materials or name in added]
        shown = await fitted(material(case, names), case.retrieved_context, judge)
        examples = _examples(rubric, shown, judge.max_characters)
        question = _question(rubric, case, shown, [rubric.may_see[name] for name in added], examples)
        verdict = await judge.ask(question)
        outcome = _outcome(rubric, case, shown, verdict.data)
        if rubric.examples and not examples and isinstance(outcome, Score):
            return replace(outcome, explanation=f"{outcome.explanation} {_WITHOUT_EXAMPLES}")
        return outcome

    def with_examples(self, examples: Sequence[Mapping[str, JsonValue]]) -> str:
        """See `Evaluator`."""
        checked = [_rubric_examples.RubricExample.model_validate(one) for one in examples]
        return _rubric_examples.with_examples(self.rubric.source, checked)

    def added(self) -> Sequence[Part]:
        """Return the parts of a case that the judge sees beyond those that the rubric always shows."""
        return ()


class ExtensibleRubric(RubricEvaluator, ABC):
    """The base class of rubrics that can optionally show the judge further parts of a case."""

    sees: tuple[Part, ...] = Field(default=(), examples=[["context", "reference"]])
    """Further parts of a case that the judge sees and uses. A case without such a part is judged without it."""

    @field_validator("sees")
    @classmethod
    def _known(cls, given: tuple[Part, ...]) -> tuple[Part, ...]:
        if unknown := [name for name in given if name not in cls.rubric.may_see]:
            raise ValueError(
                f"{cls.rubric.name} cannot be shown {unknown[0]!r}; allowed: {', '.join(cls.rubric.may_see)}"
            )
        return tuple(name for name in cls.rubric.may_see if name in given)

    def added(self) -> Sequence[Part]:
        """See `RubricEvaluator`."""
        return self.sees


_HAS: Final[Mapping[Part, Callable[[Case], bool]]] = {
    "context": lambda case: without_context(case) is None,
    "history": lambda case: bool(case.request.history),
    "query": lambda case: bool(case.request.query),
    "reference": lambda case: bool((case.expected_response or "").strip()),
    "response": lambda case: bool(case.response),
}
"""Whether a case has a part."""


def _lacking(rubric: RubricFile, case: Case) -> SkippedReason | None:
    """Return why the rubric does not apply, beyond what the pipeline checks; None if it does."""
    if "reference" in rubric.needs and not (case.expected_response or "").strip():
        return SkippedReason.NO_REFERENCE  # the pipeline accepts a case that has only expected documents
    if rubric.evidence in ("intents", "documents") and rubric.nothing_retrieved is None and not case.retrieved_context:
        return without_context(case) or SkippedReason.NO_DOCUMENTS
    if "query" in rubric.materials and "response" not in rubric.materials and not case.request.query.strip():
        return SkippedReason.NO_REQUEST
    return None


def _by_rule(rubric: RubricFile, why: str) -> Outcome:
    if rubric.trivial_score is None:
        return Skipped(SkippedReason.NO_RESPONSE)
    explanation = f"By rule, without a judge: the response has no content; {why}."
    return Score(rubric.trivial_score, explanation, rubric.scale.level(rubric.trivial_score))


def _examples(rubric: RubricFile, shown: Shown, room: int) -> str:
    """Return the block of examples; empty if there are none, or if the case leaves no room for them."""
    if not rubric.examples:
        return ""
    block = _rubric_examples.block(rubric.examples, tuple(shown.material))
    return block if sum(map(len, shown.material.values())) + len(block) <= room else ""


def _question(rubric: RubricFile, case: Case, shown: Shown, added: Sequence[str], examples: str) -> Question:
    tokens = _TOKENS + KINDS[rubric.evidence].tokens(case)
    parts = [rubric.instructions, *added, shown.instructions]
    if examples:
        parts.append(_rubric_examples.INSTRUCTIONS)
    if "context" in shown.material and case.context_status is ContextStatus.RETRIEVED_NOTHING:
        parts.append(_NOTHING_RETRIEVED)
    if "context" in shown.material and any(one.kind != "document" for one in case.retrieved_context):
        parts.append(_OTHER_SOURCES)
    return Question(
        name=rubric.name,
        instructions="\n\n".join(filter(None, parts)),
        material={_rubric_examples.BLOCK: examples, **shown.material} if examples else shown.material,
        schema=_schema(rubric, case),
        max_tokens=min(tokens, _MOST_TOKENS),
    )


def _schema(rubric: RubricFile, case: Case) -> dict[str, JsonValue]:
    """Return the schema: evidence, then explanation, then score, so that the model gives its reasons first."""
    scale = rubric.scale
    properties: dict[str, JsonValue] = {
        rubric.evidence: KINDS[rubric.evidence].schema(case),
        "explanation": {"type": "string"},
    }
    if rubric.score == "judged" and scale.whole:
        properties["score"] = {"type": "integer", "minimum": int(scale.lowest), "maximum": int(scale.highest)}
    elif rubric.score == "judged":
        properties["score"] = {"type": "number", "minimum": scale.lowest, "maximum": scale.highest}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _outcome(rubric: RubricFile, case: Case, shown: Shown, data: Mapping[str, Any]) -> Outcome:
    found = KINDS[rubric.evidence].read(data, case)
    if found.not_found and not found.total:
        detail = f"{are(found.not_found, 'quoted claim')} not in the response, and there are no others"
        return Unscored(UnscoredReason.MALFORMED, detail, claims_not_found=found.not_found)
    explained = one_line(data["explanation"])
    if rubric.score == "judged":
        value = float(data["score"])
        if not rubric.scale.holds(value):
            raise JudgeError(UnscoredReason.OUT_OF_RANGE, f"{value:g} is not on the scale of {rubric.name}")
        explained = explained or "The judge gave no explanation."
    elif found.total:
        value = _computed(rubric, found)
        explained = f"{found.said} {explained}".strip()
    else:
        return Skipped(_NOTHING[rubric.evidence])
    left_out = f"{are(found.not_found, 'quoted claim')} not in the response and left out." if found.not_found else ""
    explanation = " ".join(filter(None, (explained, left_out, shown.said())))
    label = rubric.scale.level(value)
    return Score(value, explanation, label, found.evidence, claims_not_found=found.not_found)


_NOTHING: Mapping[str, SkippedReason] = {
    "claims": SkippedReason.NO_CLAIMS,
    "intents": SkippedReason.NO_REQUEST,
    "documents": SkippedReason.NO_DOCUMENTS,
}
"""Why a case without such evidence is skipped: a share of nothing is neither good nor bad."""


def _computed(rubric: RubricFile, found: EvidenceSummary) -> float:
    part = COMPUTED[rubric.score].of_share(found.good / found.total)
    return rubric.scale.lowest + part * (rubric.scale.highest - rubric.scale.lowest)
