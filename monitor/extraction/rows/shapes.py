"""Define every shape of row that is read: its name, the fields that identify it, and how its fields are read.

A row may fit several shapes. The shape with the most of its fields present and not null wins; on a tie, the one listed
first here. Field names: MLflow and Databricks Agent Evaluation (`evaluation set`), Azure AI Evaluation (`query`,
`response`, `context`, `ground_truth`; conversations), Spring AI (`EvaluationRequest`), Ragas (`SingleTurnSample`,
`MultiTurnSample`; before 0.2 `question`, `contexts`, `answer`), DeepEval (`LLMTestCase`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.extraction import messages, values
from monitor.extraction.rows import fields, mlflow_trace
from monitor.extraction.rows.fields import Fields, Said
from monitor.model.case import ContextStatus, Document, Message, ReadingStatus, Request, Usage
from monitor.model.span import Value

_AGENT_MARKS: Final = ("request", "trace", "retrieved_context", "expected_retrieved_context", "expected_facts")
_AGENT_ALSO: Final = ("response", "expected_response")
_DEEPEVAL_ANSWER: Final = ("actual_output", "actualOutput")
_DEEPEVAL_CONTEXT: Final = ("retrieval_context", "retrievalContext")
_DEEPEVAL_REFERENCE: Final = ("expected_output", "expectedOutput")
_SOURCES = ("spans", "prompt", "row")
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


class Shape(NamedTuple):
    """One shape: a row has it if one field of each of `marks` is there, null or not, and `proves` does not object.

    `names` are the fields counted to choose between several shapes that fit.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    say: Callable[[Fields], Said]
    names: frozenset[str]
    proves: Callable[[Fields], bool] = lambda _: True

    def score(self, row: Fields) -> int:
        """Return the number of the shape's fields that the row has; -1 where it does not have this shape."""
        if not all(any(name in row for name in mark) for mark in self.marks) or not self.proves(row):
            return -1
        return sum(row.get(name) is not None for name in self.names)

    def __str__(self) -> str:
        """Return the shape with its marks: `spring_ai (userText + responseContent|dataList)`."""
        return f"{self.name} ({' + '.join('|'.join(mark) for mark in self.marks)})"


def _chat(given: Value) -> Said:
    """Read a list of messages: the last user turn is the question, the turns before it are the history.

    The last assistant turn after it is the answer; the context is the one that this turn carries.
    """
    unfolded = values.unfold(given)
    if isinstance(unfolded, Mapping):
        unfolded = values.unfold(unfolded.get("messages"))
    listed = unfolded[-values.MAX_ITEMS :] if isinstance(unfolded, (list, tuple)) else ()
    turns = [(said, item) for item in listed if (said := messages.read_one(item)) is not None]
    chat = [said for said, _ in turns]
    at = messages.last_user(chat)
    if at < 0:
        return Said()
    request = Request(chat[at].content, messages.turns(chat[:at]))
    for said, item in reversed(turns[at + 1 :]):
        if said.role == "assistant" and said.content.strip():
            carried = item.get("context") if isinstance(item, Mapping) else None
            return Said(request=request, response=said.content, documents=fields.context(carried))
    return Said(request=request)


def _case(row: Fields) -> Said:
    """Read a row printed by `rag-monitor cases`, word for word: all fields of `Case.as_row` and `Reading.as_row`."""
    request, usage, response = row.get("request"), row.get("usage"), row.get("response")
    source = next((one for one in _SOURCES if one == row.get("context_source")), "none")
    counts = [values.count(usage.get(key)) for key in _COUNTS] if isinstance(usage, Mapping) else ()
    return Said(
        request=_own_request(request) if isinstance(request, Mapping) else None,
        response=response if isinstance(response, str) and response else None,
        documents=tuple(
            _document(one) for one in values.elements(row.get("retrieved_context")) or () if isinstance(one, Mapping)
        ),
        context_source=source,  # type: ignore[arg-type] # one of the literals: the line above says so
        context_status=next((one for one in ContextStatus if one == row.get("context_status")), None),
        expected_response=fields.reference(row.get("expected_response")),
        expected_documents=fields.context(row.get("expected_retrieved_context")),
        usage=Usage(*counts),
        verdict=_stated_status(row),
        convention=fields.label(row.get("convention")),
    )


def _own_request(given: Mapping[str, Value]) -> Request | None:
    query = given.get("query")
    listed = values.elements(given.get("history")) or ()
    turns = [one for one in listed if isinstance(one, Mapping) and one.get("role") in ("user", "assistant")]
    history = (Message(values.text(one.get("role")), values.text(one.get("content"))) for one in turns)
    return Request(query if isinstance(query, str) else "", tuple(history))


def _document(one: Mapping[str, Value]) -> Document:
    content, uri, doc_id = (values.text(one.get(key)) for key in ("content", "doc_uri", "doc_id"))
    return Document(content, uri, doc_id, values.number(one.get("score")))


def _stated_status(row: Fields) -> tuple[ReadingStatus, str] | None:
    """Return the status that the row claims, and its reason. A claim of `ready` is checked later against the texts."""
    stated = next((one for one in ReadingStatus if one == row.get("status")), None)
    return (stated, values.text(row.get("error"))) if stated is not None else None


def _trace(row: Fields) -> Said:
    return Said(traced=mlflow_trace.read(row))


def _agent_evaluation(row: Fields) -> Said:
    return Said(
        request=_request(row),
        response=fields.put_out(row.get("response")),
        documents=fields.context(row.get("retrieved_context")),
        expected_response=fields.reference(values.first(row, ("expected_response", "expected_facts"))),
        expected_documents=fields.context(row.get("expected_retrieved_context")),
        traced=mlflow_trace.read(row.get("trace")),
    )


def _request(row: Fields) -> Request | None:
    given = row.get("request")
    return (
        fields.request(given) if isinstance(values.unfold(given), dict | list) else fields.question(row, ("request",))
    )


def _azure_conversation(row: Fields) -> Said:
    said = _chat(values.first(row, ("conversation", "messages")))
    if said.documents is None:
        said = replace(said, documents=fields.context(row.get("context")))
    return replace(said, expected_response=fields.reference(row.get("ground_truth")))


def _ragas(row: Fields) -> Said:
    talk = _chat(row.get("user_input"))
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
    """Return the reader of a shape in which each field holds one thing, and all its field names."""

    def say(row: Fields) -> Said:
        return Said(
            request=fields.question(row, question),
            response=fields.answer(values.first(row, answer)),
            documents=fields.context(values.first(row, context)),
            expected_response=fields.reference(values.first(row, reference)),
            expected_documents=fields.context(values.first(row, reference_context)),
        )

    return say, frozenset((*question, *answer, *context, *reference, *reference_context))


SHAPES: Final = (
    Shape(
        "case",
        (("request_id",), ("status",), ("context_source",)),
        _case,
        frozenset(("request_id", "status", "context_source", "request", "response", "retrieved_context")),
    ),
    Shape(
        "mlflow_trace",
        (("info",), ("data",)),
        lambda row: Said(traced=mlflow_trace.read(row)),
        frozenset(("info", "data")),
        mlflow_trace.is_trace,
    ),
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


def known(names: Iterable[str]) -> bool:
    """Tell whether an object with fields of these names has one of the shapes."""
    row = dict.fromkeys(names)
    return any(shape.score(row) >= 0 for shape in SHAPES)
