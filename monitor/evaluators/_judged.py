"""How a rubric scores a case: the rule for empty responses, the question to the judge, the reading of its verdict."""

from __future__ import annotations

import json
import re
from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import JsonValue

from monitor.errors import JudgeError
from monitor.evaluators._rubric_file import Evidenced, RubricFile
from monitor.evaluators._trivial import why_trivial
from monitor.model.case import Case
from monitor.model.outcome import Evidence, Outcome, Score, UnscoredReason
from monitor.stages import Evaluator, Judge, Question

_EXPLANATION, _NOTE = 2_000, 500  # characters kept of what a judge writes
_TOKENS, _MOST_TOKENS = 1_024, 4_096
_MATERIAL: Mapping[str, Callable[[Case], str]] = {
    "query": lambda case: case.request.query,
    "history": lambda case: _listed({"role": turn.role, "content": turn.content} for turn in case.request.history),
    "context": lambda case: _listed(
        {"document": number, "text": document.content} for number, document in enumerate(case.retrieved_context, 1)
    ),
    "reference": lambda case: case.expected_response or "",
    "response": lambda case: case.response,
}


class RubricEvaluator(Evaluator, ABC):
    """What all rubrics do; `rubric.from_file` makes the class of one."""

    cost: ClassVar[Literal["local", "judge"]] = "judge"
    rubric: ClassVar[RubricFile]

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Ask the judge, save for a response without content, whose score is a rule. Raises `JudgeError`."""
        rubric = self.rubric
        why = why_trivial(case.response)
        if why:
            explanation = f"By rule, without a judge: the response has no content; {why}."
            return Score(rubric.trivial_score, explanation, rubric.scale.level(rubric.trivial_score))
        if judge is None:
            raise JudgeError(UnscoredReason.ERROR, f"{rubric.name} needs a judge, and there is none")
        data = (await judge.ask(_question(rubric, case))).data
        value = float(data["score"])
        if not rubric.scale.holds(value):
            raise JudgeError(UnscoredReason.OUT_OF_RANGE, f"{value:g} is not on the scale of {rubric.name}")
        evidence = _evidence(data["claims"], case.response) if rubric.evidence == "claims" else ()
        explanation = _line(data["explanation"], _EXPLANATION) or "The judge gave no explanation."
        return Score(value, explanation, rubric.scale.level(value), evidence)


def _question(rubric: RubricFile, case: Case) -> Question:
    tokens = _TOKENS + (len(case.response) // 2 if rubric.evidence == "claims" else 0)  # claims quote the response
    return Question(
        name=rubric.name,
        instructions=rubric.instructions,
        material={name: _MATERIAL[name](case) for name in rubric.materials},
        schema=_schema(rubric),
        max_tokens=min(tokens, _MOST_TOKENS),
    )


def _schema(rubric: RubricFile) -> dict[str, JsonValue]:
    """Evidence before explanation before score: a model that writes its reasons first scores by them."""
    scale = rubric.scale
    score: dict[str, JsonValue] = {"type": "number", "minimum": scale.lowest, "maximum": scale.highest}
    if scale.whole:
        score = {"type": "integer", "minimum": int(scale.lowest), "maximum": int(scale.highest)}
    return _object({rubric.evidence: _EVIDENCE[rubric.evidence], "explanation": {"type": "string"}, "score": score})


def _object(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_CLAIM = _object(
    {
        "quote": {"type": "string"},
        "verdict": {"type": "string", "enum": ["supported", "contradicted", "absent"]},
        "note": {"type": "string"},
    }
)
_EVIDENCE: Mapping[Evidenced, JsonValue] = {
    "claims": {"type": "array", "items": _CLAIM},
    "observations": {"type": "array", "items": {"type": "string"}},
}


def _evidence(claims: list[dict[str, str]], response: str) -> tuple[Evidence, ...]:
    """The claims with their places in the response, looked for in order so that a repeated stretch is found twice."""
    found = []
    after = 0
    for claim in claims:
        start, end = _place(claim["quote"], response, after)
        after = max(after, end)
        quote = response[start:end] if end > 0 else _line(claim["quote"], _EXPLANATION)
        found.append(Evidence(quote, claim["verdict"], start, end, _line(claim["note"], _NOTE)))  # type: ignore[arg-type] # the schema's enum
    return tuple(found)


def _place(quote: str, response: str, after: int) -> tuple[int, int]:
    """Where the quote stands, at or behind `after` if it does, white space apart; -1, -1 where nowhere."""
    words = quote.strip().strip("\"'\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}").split()
    if not words:
        return -1, -1
    pattern = re.compile(r"\s+".join(re.escape(word) for word in words))
    match = pattern.search(response, after) or pattern.search(response)
    return match.span() if match else (-1, -1)


def _line(text: str, most: int) -> str:
    """On one line, without control characters, cut at `most` characters with a mark that it was."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= most else flat[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _listed(items: Any) -> str:
    """JSON: the border between two documents cannot be forged from within one."""
    return json.dumps(list(items), ensure_ascii=False, indent=1)
