"""Scoring a case, and asking a language model about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from pydantic import JsonValue

from monitor.model.case import Case, Message
from monitor.model.outcome import Attempt, DefectRule, Outcome, Scale
from monitor.stages.component import Component


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a judge: instructions of ours, material that is not, and the shape of the answer.

    `material` is untrusted text by name, shown to the model as data between random fences, in this order, before the
    instructions. `schema` is the JSON Schema of the answer, an object whose required keys are all that is read of it.
    Another number of `repeat` asks the same anew, past the cache.
    """

    name: str
    instructions: str
    material: Mapping[str, str]
    schema: Mapping[str, JsonValue]
    max_tokens: int = 1024
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in the form that a family of models was trained on, sent as it stands; who asks reads the answer.

    Its material stands between no fences: for models that only judge, and for repeating a service's own prompt. The
    verdict's data is `text` and, with `logprobs`, `tokens`: a list of `text` and `logprob` (natural logarithm), empty
    where the provider gives none. `temperature` None is that of the judge's configuration. A classifier takes one of
    two messages, in the roles `premise` and `hypothesis`, and its text is a JSON list of labels with their scores.
    """

    name: str
    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float | None = None
    logprobs: bool = False
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer: `data` holds to the question's schema. Prices in US dollars, durations in seconds.

    `tries` are the calls that it took, in their order.
    """

    data: Mapping[str, Any]
    model: str
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    tries: tuple[Attempt, ...] = ()


class Judge(Protocol):
    """A language model behind retries, budget, breaker and cache.

    `max_characters` is the longest material of one question: what is longer is refused with `too_large`.
    """

    model: str
    max_characters: int

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Answer one question within the configured limits. Raises `JudgeError` with the reason, nothing else."""
        ...


Needs = Literal["context", "history", "reference", "response"]

Measures = Literal["grounding", "answering", "retrieval", "harm", "form"]
"""What an evaluator is about: whether the response rests on the context, whether it answers what was asked, whether the
search found what is needed, whether somebody is harmed or attacked, or the form of the response."""


class Evaluator(Component, ABC):
    """Scores one case. Stateless: called concurrently, for many cases, in any order.

    Class fields declare what it is; pydantic fields are its options.
    """

    name: ClassVar[str]
    """Its name in metrics, alerts and configuration."""

    version: ClassVar[str]
    """Changes whenever the same case could get another score: results of two versions are never averaged."""

    scale: ClassVar[Scale]
    """The scale of its values: both ends, which end is good, the levels by name."""

    needs: ClassVar[frozenset[Needs]] = frozenset({"response"})
    """What a case must have; without it the outcome is `Skipped` and the evaluator is not called."""

    measures: ClassVar[Measures | None] = None
    """What it is about. Decides how its judge's explanations are read and what a boosted sample assumes; None: nothing
    is assumed."""

    cost: ClassVar[Literal["local", "judge"]] = "local"
    """`local`: milliseconds of processor, scores every kept case. `judge`: calls a language model, is sampled."""

    asks: ClassVar[Literal["model", "classifier"]] = "model"
    """Whom a judged evaluator asks: a language model, or a classifier of pairs of texts."""

    default_defect: ClassVar[DefectRule]
    """What counts as a defect unless the configuration says otherwise."""

    definition: ClassVar[str] = ""
    """Where the definition comes from: a link or a reference."""

    @abstractmethod
    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Score `case`. A local evaluator gets no judge; it may compute for some milliseconds and must never wait.

        May raise `JudgeError` (becomes `Unscored` with its reason); any other exception becomes `Unscored(error)`.
        """
