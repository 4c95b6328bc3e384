"""Scoring a case, and asking a language model about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from pydantic import JsonValue

from monitor.model.case import Case, Message
from monitor.model.outcome import Attempt, DefectRule, Outcome, Scale
from monitor.stages.component import Component


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a judge: instructions, the material to look at, and the shape of the reply.

    `material` maps names to untrusted texts. The model gets them as data between random fences, in this order, before
    the instructions. `schema` is the JSON Schema of the reply: an object; only its required keys are read. `max_tokens`
    limits the reply. A different `repeat` number asks the same question again, bypassing the cache.
    """

    name: str
    instructions: str
    material: Mapping[str, str]
    schema: Mapping[str, JsonValue]
    max_tokens: int = 1024
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in the format that a model was trained on. It is sent unchanged, and the evaluator parses the reply.

    Nothing is fenced: use it for models that can only judge, and to repeat a service's own prompt. The verdict's data
    has `text` and, with `logprobs`, `tokens`: a list of `text` and `logprob` (natural logarithm), empty if the provider
    returns none. If `temperature` is None, the configured one is used. A classifier takes a prompt of two messages, in
    the roles `premise` and `hypothesis`; its text is a JSON list of labels with scores.
    """

    name: str
    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float | None = None
    logprobs: bool = False
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's reply: `data` matches the schema of the question. Prices are in US dollars, durations in seconds.

    `tries` are the calls made to get it, in order. `cached` replies cost nothing.
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
    """A language model behind retries, budget, circuit breaker and cache.

    `max_characters` limits the material of one question. A longer one raises `JudgeError` with `too_large`.
    """

    model: str
    max_characters: int

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Answer one question within the configured limits. Raises `JudgeError` with a reason, and nothing else."""
        ...


Needs = Literal["context", "history", "reference", "response"]

Measures = Literal["grounding", "answering", "retrieval", "harm", "form"]
"""The subject of an evaluator: whether the response is supported by the context (`grounding`) or answers the question
(`answering`), whether the search found what is needed (`retrieval`), whether someone is harmed or attacked (`harm`), or
the `form` of the response."""


class Evaluator(Component, ABC):
    """Scores one case. Stateless: it is called concurrently, for many cases, in any order.

    Class fields declare what the evaluator is; pydantic fields are its options.
    """

    name: ClassVar[str]
    """Its name in metrics, alerts and configuration."""

    version: ClassVar[str]
    """Change it whenever the same case could get a different score. Results of two versions are never averaged."""

    scale: ClassVar[Scale]
    """The scale of its scores: both ends, which end is good, and the named levels."""

    needs: ClassVar[frozenset[Needs]] = frozenset({"response"})
    """Parts that a case must have. If one is missing the outcome is `Skipped`, and the evaluator is not called."""

    measures: ClassVar[Measures | None] = None
    """Its subject: decides how its judge's explanations are read and what a boosted sample assumes. None: neither."""

    cost: ClassVar[Literal["local", "judge"]] = "local"
    """`local`: takes milliseconds and scores every kept case. `judge`: calls a language model and is sampled."""

    asks: ClassVar[Literal["model", "classifier"]] = "model"
    """Whom a judged evaluator asks: a language model, or a classifier of pairs of texts."""

    quotes: ClassVar[bool] = False
    """Whether its judge quotes the response, so that its results can have `claims_not_found`."""

    rescores: ClassVar[str] = ""
    """The local evaluator, which must be configured too, whose scores the monitor turns into this evaluator's scores,
    by what it has learned from verdicts. `evaluate` returns the same outcome as that evaluator."""

    default_defect: ClassVar[DefectRule]
    """The rule that decides what is a defect, unless the configuration sets a different one. `DefectRule("never")`: the
    evaluator only ranks answers, and no other rule can be set."""

    definition: ClassVar[str] = ""
    """The source of its definition: a link or a reference."""

    examples_at_most: ClassVar[int] = 0
    """How many examples, answers judged by people, can be shown to its judge. 0: it takes no examples."""

    def with_examples(self, examples: Sequence[Mapping[str, JsonValue]]) -> str:
        """Return the text of a file that describes this evaluator with these examples, for `type: rubric`.

        An example has `query`, `context` (texts), `response`, `verdict` (`good` or `defect`), and may have `level` and
        `reason`. Raises `ValueError` for an evaluator that takes none.
        """
        raise ValueError(f"{self.name} takes no examples; {len(examples)} were given")

    @abstractmethod
    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Score `case`. A local evaluator gets no judge, may compute for some milliseconds, and must never wait.

        A `JudgeError` becomes `Unscored` with its reason; any other exception becomes `Unscored` with `error`.
        """
