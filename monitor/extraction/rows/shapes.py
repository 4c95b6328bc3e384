"""Every shape of row that is read, one entry each: its name, the fields it is known by, what its fields mean.

A row may fit several. The one stands of whose fields the most are there and not null; of two with as many the one that
comes first here. Field names: MLflow and Databricks Agent Evaluation (`evaluation set`), Azure AI Evaluation (`query`,
`response`, `context`, `ground_truth`; conversations), Spring AI (`EvaluationRequest`), Ragas (`SingleTurnSample`,
`MultiTurnSample`; before 0.2 `question`, `contexts`, `answer`), DeepEval (`LLMTestCase`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.extraction import values
from monitor.extraction.rows import chat, fields, mlflow_trace, own
from monitor.extraction.rows.fields import Fields, Said
from monitor.model.case import Request

_AGENT_MARKS: Final = ("request", "trace", "retrieved_context", "expected_retrieved_context", "expected_facts")
_AGENT_ALSO: Final = ("response", "expected_response")
_DEEPEVAL_ANSWER: Final = ("actual_output", "actualOutput")
_DEEPEVAL_CONTEXT: Final = ("retrieval_context", "retrievalContext")
_DEEPEVAL_REFERENCE: Final = ("expected_output", "expectedOutput")


class Shape(NamedTuple):
    """One shape: a row has it when of each of `marks` one field is there, null or not, and `proves` does not object.

    `names` are the fields that tell it from another shape which the row has as well.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    say: Callable[[Fields], Said]
    names: frozenset[str]
    proves: Callable[[Fields], bool] = lambda _: True

    def score(self, row: Fields) -> int:
        """How many of the shape's fields the row has; -1 where it has not this shape."""
        if not all(any(name in row for name in mark) for mark in self.marks) or not self.proves(row):
            return -1
        return sum(row.get(name) is not None for name in self.names)

    def __str__(self) -> str:
        """The shape by its marks: `spring_ai (userText + responseContent|dataList)`."""
        return f"{self.name} ({' + '.join('|'.join(mark) for mark in self.marks)})"


def _trace(row: Fields) -> Said:
    return Said(traced=mlflow_trace.read(row))


def _agent_evaluation(row: Fields) -> Said:
    return Said(
        request=_request(row),
        response=fields.put_out(row.get("response")),
        documents=fields.context(row.get("retrieved_context")),
        expected_response=fields.reference(fields.first(row, ("expected_response", "expected_facts"))),
        expected_documents=fields.context(row.get("expected_retrieved_context")),
        traced=mlflow_trace.read(row.get("trace")),
    )


def _request(row: Fields) -> Request | None:
    given = row.get("request")
    return (
        fields.request(given) if isinstance(values.unfold(given), dict | list) else fields.question(row, ("request",))
    )


def _azure_conversation(row: Fields) -> Said:
    said = chat.read(fields.first(row, ("conversation", "messages")))
    if said.documents is None:
        said = replace(said, documents=fields.context(row.get("context")))
    return replace(said, expected_response=fields.reference(row.get("ground_truth")))


def _ragas(row: Fields) -> Said:
    talk = chat.read(row.get("user_input"))
    return Said(
        request=talk.request or fields.question(row, ("user_input",)),
        response=fields.answer(row.get("response")) or talk.response,
        documents=fields.context(row.get("retrieved_contexts")),
        expected_response=fields.reference(row.get("reference")),
        expected_documents=fields.context(row.get("reference_contexts")),
    )


def _plain(
    question: Sequence[str],
    answer: Sequence[str],
    context: Sequence[str],
    reference: Sequence[str] = (),
    reference_context: Sequence[str] = (),
) -> tuple[Callable[[Fields], Said], frozenset[str]]:
    """A shape whose every field is one thing: the names under which each is looked for."""

    def say(row: Fields) -> Said:
        return Said(
            request=fields.question(row, question),
            response=fields.answer(fields.first(row, answer)),
            documents=fields.context(fields.first(row, context)),
            expected_response=fields.reference(fields.first(row, reference)),
            expected_documents=fields.context(fields.first(row, reference_context)),
        )

    return say, frozenset((*question, *answer, *context, *reference, *reference_context))


SHAPES: Final = (
    Shape(
        "case",
        (("request_id",), ("status",), ("context_source",)),
        own.say,
        frozenset(("request_id", "status", "context_source", "request", "response", "retrieved_context")),
    ),
    Shape("mlflow_trace", (("info",), ("data",)), _trace, frozenset(("info", "data")), mlflow_trace.is_trace),
    Shape("agent_evaluation", (_AGENT_MARKS,), _agent_evaluation, frozenset((*_AGENT_MARKS, *_AGENT_ALSO))),
    Shape(
        "spring_ai",
        (("userText",), ("responseContent", "dataList")),
        *_plain(("userText",), ("responseContent",), ("dataList",)),
    ),
    Shape(
        "ragas",
        (("user_input",),),
        _ragas,
        frozenset(("user_input", "response", "retrieved_contexts", "reference", "reference_contexts")),
    ),
    Shape(
        "ragas_0_1",
        (("question",), ("contexts",)),
        *_plain(("question",), ("answer", "response"), ("contexts",), ("ground_truth", "ground_truths")),
    ),
    Shape(
        "deepeval",
        (("input",), (*_DEEPEVAL_ANSWER, *_DEEPEVAL_CONTEXT, *_DEEPEVAL_REFERENCE)),
        *_plain(("input",), _DEEPEVAL_ANSWER, _DEEPEVAL_CONTEXT, _DEEPEVAL_REFERENCE, ("context",)),
    ),
    Shape(
        "azure_conversation",
        (("conversation", "messages"),),
        _azure_conversation,
        frozenset(("conversation", "messages", "context", "ground_truth")),
    ),
    Shape(
        "azure_ai_evaluation",
        (("query", "question"), ("response", "answer", "context")),
        *_plain(("query", "question"), ("response", "answer"), ("context",), ("ground_truth",)),
    ),
)
