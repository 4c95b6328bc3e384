"""Measures how far a response can be trusted by asking again: new answers, reflection, token probabilities."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, Literal

import anyio.to_thread
from pydantic import Field, JsonValue

from monitor.evaluators._asking import asked, together, trivial
from monitor.evaluators._explain import one_line
from monitor.evaluators._text import Word, words
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Prompt, Question, Verdict

_WEIGHTS: Final = {"agreement": 0.7, "reflection": 0.3, "probability": 0.25}
_SENDABLE: Final = frozenset({"system", "user", "assistant"})
_TOKENS, _MOST_TOKENS = 512, 4_096
_NOISE: Final = 1e-3  # how far above 0 rounding may push the logarithm of a probability
_VERDICTS: Final[Mapping[str, float]] = {"correct": 1.0, "unsure": 0.5, "incorrect": 0.0}
_CORRECT: Final = """\
The data block `prompt` holds what a system was asked, as a JSON list of messages; `response` holds what it answered. \
Is the answer correct, by what the messages hold and by what is generally known? Say what speaks for it and what \
against it, then your verdict: correct, incorrect, or unsure where you cannot tell."""
_RELIABLE: Final = """\
Somebody is about to rely on the text in the data block `response`, given in answer to the messages in `prompt`, \
a JSON list. Look for anything in it that is wrong, made up or beside the question: check its numbers, names and dates \
and whether it answers what was asked. The verdict is correct if you found nothing, incorrect if you found something \
that matters, and unsure if you cannot tell."""
_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "verdict": {"type": "string", "enum": list(_VERDICTS)}},
    "required": ["explanation", "verdict"],
}


class Trustworthiness(Evaluator):
    """How far the response can be trusted, 0 to 1: does the model repeat it, and does it confirm it when asked?

    The judge answers the service's own prompt again several times, and is asked in two ways whether the response is
    correct. The score is a weighted mean of agreement (.7), reflection (.3) and, if the provider sends them, the
    probabilities of the tokens (.25). It is meant for a judge that is the service's own model; see
    docs/evaluators/special.md.
    """

    name: ClassVar[str] = "trustworthiness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(untrustworthy=0.0, doubtful=0.4, fair=0.6, trustworthy=0.8)
    cost: ClassVar[Literal["local", "judge"]] = "judge"
    measures: ClassVar[Measures | None] = "grounding"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)
    definition: ClassVar[str] = (
        "Agreement, reflection and their weights after Chen and Mueller 2023, arXiv:2308.16175; the mean probability "
        "of tokens after Malinin and Gales 2021, arXiv:2002.07650; how agreement is measured is our own"
    )

    samples: int = Field(default=3, ge=1, le=10)
    """How many times the prompt is answered again. One evaluation makes this many calls, plus two."""

    temperature: float = Field(default=1.0, ge=0, le=2)
    """Sampling temperature of the new answers. At 0 they would all be the same."""

    probabilities: bool = True
    """Whether to ask the provider for token probabilities. Turn it off if the provider rejects such calls."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Ask again. Skipped if the service's prompt is unknown or cannot be sent again. Raises `JudgeError`."""
        if (worthless := trivial(case, self.scale)) is not None:
            return worthless
        # A tool message is valid only after the call that it answers, which is not in the trace.
        if not case.prompt or not all(one.role in _SENDABLE for one in case.prompt):
            return Skipped(SkippedReason.NO_PROMPT)
        model = asked(judge, self.name)
        asks: list[Prompt | Question] = [*self._again(case), *_reflections(case)]
        answers = await together([partial(model.ask, one) for one in asks])
        samples, opinions = answers[: self.samples], answers[self.samples :]
        said = await anyio.to_thread.run_sync(_agreements, case.response, [one.data["text"] for one in samples])
        parts = {
            "agreement": _mean(said),
            "reflection": _mean([_VERDICTS[one.data["verdict"]] for one in opinions]),
            "probability": _probability(samples),
        }
        given = {name: value for name, value in parts.items() if value is not None}
        value = sum(_WEIGHTS[name] * part for name, part in given.items()) / sum(_WEIGHTS[name] for name in given)
        value = min(max(value, 0.0), 1.0)  # rounding
        return Score(value, self._explanation(given, opinions), self.scale.level(value))

    def _again(self, case: Case) -> list[Prompt]:
        """Repeat the service's prompt. The number in the name keeps the cache from reusing one answer for another."""
        tokens = min(max(_TOKENS, len(case.response)), _MOST_TOKENS)
        return [
            Prompt(f"{self.name}_{number}", case.prompt, tokens, self.temperature, self.probabilities)
            for number in range(1, self.samples + 1)
        ]

    def _explanation(self, given: Mapping[str, float], opinions: Sequence[Verdict]) -> str:
        many = "answer" if self.samples == 1 else "answers"
        said = (
            f"Agreement with {self.samples} new {many} {given['agreement']:.2f}, reflection {given['reflection']:.2f}"
        )
        if "probability" in given:
            said += f", probability of the tokens {given['probability']:.2f}."
        else:
            said += "; without the probability of the tokens, which the provider did not send."
        return one_line(" ".join([said, *(str(one.data["explanation"]) for one in opinions)]))


def _reflections(case: Case) -> list[Question]:
    prompt = json.dumps(
        [{"role": one.role, "content": one.content} for one in case.prompt], ensure_ascii=False, indent=1
    )
    return [
        Question(
            name=f"reflection_{number}",
            instructions=instructions,
            material={"prompt": prompt, "response": case.response},
            schema=_SCHEMA,
        )
        for number, instructions in enumerate((_CORRECT, _RELIABLE), 1)
    ]


def _agreements(response: str, samples: Sequence[str]) -> list[float]:
    return [agreement(response, sample) for sample in samples]


def _probability(samples: Sequence[Verdict]) -> float | None:
    """Return the geometric mean of token probabilities, averaged over the new answers; None if any has none."""
    found = []
    for sample in samples:
        logarithms = [token["logprob"] for token in sample.data["tokens"]]
        if not logarithms or not all(math.isfinite(one) and one <= _NOISE for one in logarithms):
            return None
        found.append(math.exp(min(_mean(logarithms), 0.0)))
    return _mean(found)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_READ: Final = 24_576  # characters of an answer
_SIMILAR, _SAME = 0.8, 0.2
# Function words that reverse the meaning of a sentence.
_NEGATIONS: Final = frozenset(
    """
    no not never none neither nor cannot without yes doesn' don't isn't aren't wasn't weren't won't can't didn't hasn't
    haven't shouldn't wouldn't couldn't nicht kein keine nein nie ohne non pas jamais sans ne nunca sin não nem нет не
    """.split()  # noqa: SIM905
)


def agreement(one: str, other: str) -> float:
    """Return the agreement of two answers, from 0 (nothing in common) to 1 (the same words).

    It is 0.8 times the similarity of the words, plus 0.2 if both have the same words in the same order. These weights
    are from Chen and Mueller (arXiv:2308.16175, section 3.1), who measure similarity with an inference model. Here it
    is the F1 of content words and negations; if an answer has numbers or names, it is the mean of that and the F1 of
    numbers and names alone, since answers differ in these. A paraphrase counts as disagreement.
    """
    here, there = words(one[:_READ]), words(other[:_READ])
    same = [word.key for word in here] == [word.key for word in there]
    telling = (_telling(one, here), _telling(other, there))
    similar = _f1(*telling) if any(telling) else float(same)
    marked = (_keys(here), _keys(there))
    if any(marked):
        similar = (similar + _f1(*marked)) / 2
    return _SIMILAR * similar + _SAME * same


def _telling(text: str, found: Sequence[Word]) -> list[str]:
    return [word.key for word in found if word.content or text[word.start : word.end].lower() in _NEGATIONS]


def _keys(found: Sequence[Word]) -> list[str]:
    return [word.key for word in found if word.marked]


def _f1(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the F1 of two bags of words; 0 if one is empty."""
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other)) if shared else 0.0
