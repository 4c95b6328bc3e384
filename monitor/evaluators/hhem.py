"""Scores the probability that the response agrees with its context, with a classifier such as HHEM."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, Final, Literal

import anyio.to_thread

from monitor.errors import JudgeError
from monitor.evaluators._asking import NOTHING_TO_SUPPORT, asked, context_of, malformed, trivial
from monitor.evaluators._claims import claims_of
from monitor.evaluators._refusals import is_pure_refusal
from monitor.model.case import Case, Message
from monitor.model.outcome import DefectRule, Outcome, Scale, Score, Skipped, SkippedReason, UnscoredReason
from monitor.stages import Evaluator, Judge, Measures, Needs, Prompt

_AGREES: Final = ("consistent", "entailment", "supported")
_COMPLEMENTS: Final = {"hallucinated": "consistent", "not_entailment": "entailment", "unsupported": "supported"}


class Hhem(Evaluator):
    """The probability, 0 to 1, that the response agrees with question and context, from a classifier of text pairs.

    It asks no language model: its judge must have a model named `classifier/NAME`; see docs/evaluators/special.md. The
    premise is the context and the question, the hypothesis is the whole response.
    """

    name: ClassVar[str] = "hhem"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(inconsistent=0.0, consistent=0.5)
    needs: ClassVar[frozenset[Needs]] = frozenset({"context", "response"})
    cost: ClassVar[Literal["local", "judge"]] = "judge"
    asks: ClassVar[Literal["model", "classifier"]] = "classifier"
    measures: ClassVar[Measures | None] = "grounding"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)
    definition: ClassVar[str] = "https://huggingface.co/vectara/hallucination_evaluation_model"

    label: str = ""
    """The class whose probability is the score, as the classifier names it. Empty: whichever of `consistent`,
    `entailment` and `supported` it has, in upper or lower case."""

    question: bool = True
    """Whether the premise includes the question, after the context."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Score the pair. Skipped if the response only refuses. Raises `JudgeError`."""
        if (worthless := trivial(case, self.scale)) is not None:
            return worthless
        if await anyio.to_thread.run_sync(is_pure_refusal, case):
            return Skipped(SkippedReason.REFUSAL)
        context = context_of(case)
        if not context:
            if not await anyio.to_thread.run_sync(claims_of, case.response):
                return Skipped(SkippedReason.NO_CLAIMS)
            return Score(0.0, NOTHING_TO_SUPPORT, self.scale.level(0.0))
        query = case.request.query.strip() if self.question else ""
        premise = Message("premise", f"{context}\n\n{query}" if query else context)
        prompt = Prompt(self.name, (premise, Message("hypothesis", case.response.strip())))
        label, value = read_scores((await asked(judge, self.name).ask(prompt)).data["text"], self.label)
        return Score(value, f"The classifier gives `{label}` a probability of {value:.3f}.", self.scale.level(value))


def read_scores(reply: str, label: str = "") -> tuple[str, float]:
    """Return the label that means agreement, and its probability, from the JSON of a text-classification server.

    The JSON is a list of objects with `label` and `score`, or a list of one such list. If a server sends only the best
    class, that class must have a single opposite, as `hallucinated` has. Raises `JudgeError`: `out_of_range` for a
    score that is not a probability, else `malformed`.
    """
    scores = _scores(reply)
    wanted = (label,) if label else _AGREES
    named = [name for name in scores if (name if label else name.lower()) in wanted]
    if len(named) == 1:
        return named[0], scores[named[0]]
    if len(named) > 1:
        raise malformed("the classifier has several classes that may mean agreement; set the option label")
    only = next(iter(scores)) if len(scores) == 1 else ""
    opposite = _COMPLEMENTS.get(only.lower(), "")
    if opposite and (not label or label.lower() == opposite):
        return opposite, 1.0 - scores[only]
    raise malformed("the classifier scores no class that means agreement; see the option label")


def _scores(reply: str) -> dict[str, float]:
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        raise malformed("the classifier's reply is not JSON") from None
    while isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    if not isinstance(found, list) or not found or not all(_is_score(one) for one in found):
        raise malformed("the classifier's reply is not one list of labels with their scores")
    scores = {one["label"]: float(one["score"]) for one in found}
    if len(scores) != len(found):
        raise malformed("the classifier gives a label twice")
    if not all(0 <= score <= 1 for score in scores.values()):
        raise JudgeError(UnscoredReason.OUT_OF_RANGE, "a score of the classifier is not a probability")
    return scores


def _is_score(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("label"), str):
        return False
    score = one.get("score")
    return isinstance(score, (int, float)) and not isinstance(score, bool) and not math.isnan(score)
