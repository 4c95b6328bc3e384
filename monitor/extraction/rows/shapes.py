"""Define every shape of row that is read: its name, the fields that identify it, and how its fields are read.

A row may fit several shapes. The shape with the most of its fields present and not null wins; on a tie, the shape whose
question field is present, then the shape listed first here. Field names: MLflow and Databricks Agent Evaluation
(`evaluation set`), Azure AI Evaluation (`query`, `response`, `context`, `ground_truth`; conversations), Spring AI
(`EvaluationRequest`), Ragas (`SingleTurnSample`, `MultiTurnSample`; before 0.2 `question`, `contexts`, `answer`),
DeepEval (`LLMTestCase`), MLflow 3 and LangSmith (`inputs`, `outputs`, `reference_outputs`, `expectations`), Phoenix
(`input`, `output`, `reference`: the retrieved text), Galileo and TruLens (`input`, `output`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from monitor.extraction import messages, values
from monitor.extraction.rows import common, fields, mlflow_trace, printed
from monitor.extraction.rows.common import NAMES, Names
from monitor.extraction.rows.fields import Fields, Said
from monitor.model.case import Message, Request
from monitor.model.span import Value

_AGENT_MARKS: Final = ("request", "trace", "retrieved_context", "expected_retrieved_context", "expected_facts")
_DEEPEVAL_ANSWER: Final = ("actual_output", "actualOutput")
_DEEPEVAL_CONTEXT: Final = ("retrieval_context", "retrievalContext")
_DEEPEVAL_REFERENCE: Final = ("expected_output", "expectedOutput")
_TURN_REFERENCES: Final = ("ground_truth", "expected_response", "reference")
"""Fields of an assistant's turn that hold the expected answer."""


class Shape(NamedTuple):
    """A shape of row.

    A row has the shape if at least one field of each of `marks` is present, even as null, and `proves` agrees. `fields`
    are its fields by meaning, `more` are fields with other meanings: `score` counts both when a row fits several
    shapes. `whole`: a row of this shape has no other fields with a meaning.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    say: Callable[[Fields], Said]
    fields: Names
    more: frozenset[str] = frozenset()
    proves: Callable[[Fields], bool] = lambda _: True
    whole: bool = False

    @property
    def names(self) -> frozenset[str]:
        """All fields of the shape."""
        return _all_names(self.fields, self.more)

    def is_marked(self, names: Container[str]) -> bool:
        """Return whether fields of these names identify the shape."""
        return all(any(name in names for name in mark) for mark in self.marks)

    def score(self, row: Fields) -> int:
        """Count the fields of the shape in a row; -1 if the row does not have this shape."""
        if not self.is_marked(row) or not self.proves(row):
            return -1
        return sum(row.get(name) is not None for name in self.names)

    def asks(self, row: Fields) -> bool:
        """Return whether the row has the shape's own field for the question."""
        return any(row.get(name) is not None for name in self.fields.question)

    def read(self, row: Fields) -> Said:
        """Return what a row of this shape states, with the fields that a row of any shape may have."""
        said = self.say(row)
        return said if self.whole else common.fill_in(row, said, self.names)

    def unused(self, row: Fields) -> tuple[str, ...]:
        """Return the names of the first 20 fields of a row that are not read."""
        return common.unused(row, self.fields, self.names)

    def __str__(self) -> str:
        """Return the shape with its marks: `spring_ai (userText + responseContent|dataList)`."""
        return f"{self.name} ({' + '.join('|'.join(mark) for mark in self.marks)})"


@cache
def _all_names(fields: Names, more: frozenset[str]) -> frozenset[str]:
    return more.union(*fields)


def known(names: Container[str]) -> bool:
    """Return whether fields of these names identify a shape."""
    return any(shape.is_marked(names) for shape in SHAPES)


def _chat(given: Value) -> Said:
    """Read a list of messages: a request for each answered question. The last one is returned, with the others in it.

    The last assistant turn before the next question is the answer; the turns before the question are its history.
    Context and reference come from the assistant's turn. A last question without an answer is also a request.
    """
    unfolded = values.unfold(given)
    if isinstance(unfolded, Mapping):
        unfolded = values.unfold(unfolded.get("messages"))
    listed = unfolded if isinstance(unfolded, (list, tuple)) else ()
    read = ((messages.read_one(item), item) for item in listed)
    turns = [(said, item) for said, item in read if said is not None and said.content.strip()]
    skipped = _questions(said for said, _ in turns[: -values.MAX_ITEMS])
    found: list[Said] = []
    history: list[Message] = []
    asked: Request | None = None
    answers: list[tuple[Message, Value]] = []
    for said, item in [*turns[-values.MAX_ITEMS :], (None, None)]:
        if said is None or said.role == "user":
            if asked is not None and (answers or said is None):
                found.append(_turn(asked, answers[-1] if answers else None, skipped + len(found) + 1))
            history += [] if asked is None else [Message("user", asked.query), *(one for one, _ in answers)]
            asked, answers = Request(said.content, tuple(history)) if said is not None else None, []
        elif said.role == "assistant" and asked is not None:
            answers.append((said, item))
        elif said.role == "assistant":
            history.append(said)
    return replace(found[-1], earlier=tuple(found[:-1])) if found else Said()


def _questions(said: Iterable[Message]) -> int:
    """Count the questions that were answered."""
    roles = [one.role for one in said if one.role in ("user", "assistant")]
    return sum(pair == ("user", "assistant") for pair in pairwise(roles))


def _turn(asked: Request, answer: tuple[Message, Value] | None, number: int) -> Said:
    if answer is None:
        return Said(request=asked, turn=number)
    said, item = answer
    carried = item if isinstance(item, Mapping) else {}
    return Said(
        request=asked,
        response=said.content,
        documents=fields.context(carried.get("context")),
        expected_response=fields.reference(values.first(carried, _TURN_REFERENCES)),
        turn=number,
    )


def _agent_evaluation(row: Fields) -> Said:
    return Said(
        request=_request(row),
        response=fields.put_out(row.get("response")),
        documents=fields.context(row.get("retrieved_context")),
        expected_response=common.reference(row, _AGENT.reference),
        expected_documents=fields.expected_context(row.get("expected_retrieved_context")),
        traced=mlflow_trace.read(row.get("trace")),
    )


def _request(row: Fields) -> Request | None:
    given = row.get("request")
    return (
        fields.request(given) if isinstance(values.unfold(given), dict | list) else fields.question(row, ("request",))
    )


def _azure_conversation(row: Fields) -> Said:
    said = _chat(values.first(row, _AZURE_CONVERSATION.question))
    if said.documents is None:
        said = replace(said, documents=fields.context(row.get("context")))
    expected = common.reference(row, _AZURE_CONVERSATION.reference)
    return replace(said, expected_response=expected) if expected is not None else said


def _ragas(row: Fields) -> Said:
    talk = _chat(row.get("user_input"))
    response = fields.answer(row.get("response"))
    return replace(
        talk,
        request=talk.request or fields.question(row, ("user_input",)),
        response=response or talk.response,
        documents=fields.context(row.get("retrieved_contexts")),
        expected_response=common.reference(row, _RAGAS.reference),
        expected_documents=fields.expected_context(row.get("reference_contexts")),
        earlier=() if response else talk.earlier,
    )


def _inputs_outputs(row: Fields) -> Said:
    inputs, outputs = (values.unfold(row.get(name)) for name in ("inputs", "outputs"))
    held = [one for one in (outputs, inputs) if isinstance(one, Mapping)]
    return Said(
        request=fields.request(inputs),
        response=fields.put_out(outputs),
        documents=next(
            (found for one in held if (found := common.first(one, NAMES.context, fields.context)) is not None), None
        ),
        expected_response=common.reference(row, _INPUTS_OUTPUTS.reference),
        traced=mlflow_trace.read(row.get("trace")),
    )


def _has_others(row: Fields, names: Sequence[str], *, but: str) -> bool:
    """Return whether any of these fields has a value, not counting the one called `but`."""
    return any(row.get(name) not in (None, "", [], {}) for name in names if name != but)


def _plain(
    question: Sequence[str],
    answer: Sequence[str],
    context: Sequence[str],
    reference: Sequence[str] = (),
    reference_context: Sequence[str] = (),
) -> tuple[Callable[[Fields], Said], Names]:
    """Return the reader and the fields of a shape in which every field has one meaning."""
    names = Names(*map(tuple, (question, answer, context, reference, reference_context)))

    def say(row: Fields) -> Said:
        return Said(
            request=fields.question(row, question),
            response=fields.answer(values.first(row, answer)),
            documents=fields.context(values.first(row, context)),
            expected_response=common.reference(row, reference),
            expected_documents=common.first(row, reference_context, fields.expected_context),
        )

    return say, names


_AGENT: Final = Names(
    ("request",),
    ("response",),
    ("retrieved_context",),
    ("expected_response", "expected_facts"),
    ("expected_retrieved_context",),
)
_PHOENIX: Final = (("input",), ("output",), ("reference",))
_RAGAS: Final = Names(("user_input",), ("response",), ("retrieved_contexts",), ("reference",), ("reference_contexts",))
_AZURE_CONVERSATION: Final = Names(("conversation", "messages"), (), ("context",), ("ground_truth",))
_INPUTS_OUTPUTS: Final = Names(
    ("inputs",), ("outputs",), reference=("reference_outputs", "referenceOutputs", "reference_output")
)

SHAPES: Final = (
    Shape(
        "case",
        (("request_id",), ("status",), ("context_source",)),
        lambda row: Said(printed=printed.read(row)),
        Names(("request",), ("response",), ("retrieved_context",)),
        printed.FIELDS | printed.RESULT_FIELDS,
        whole=True,
    ),
    Shape(
        "mlflow_trace",
        (("info",), ("data",)),
        lambda row: Said(traced=mlflow_trace.read(row)),
        Names(),
        frozenset(("info", "data")),
        mlflow_trace.is_trace,
    ),
    Shape("agent_evaluation", (_AGENT_MARKS,), _agent_evaluation, _AGENT, frozenset(("trace",))),
    Shape(
        "spring_ai",
        (("userText",), ("responseContent", "dataList")),
        *_plain(("userText",), ("responseContent",), ("dataList",)),
    ),
    Shape(
        "ragas",
        (("user_input",),),
        _ragas,
        _RAGAS,
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
        _AZURE_CONVERSATION,
    ),
    Shape(
        "azure_ai_evaluation",
        (("query", "question"), ("response", "answer", "context")),
        *_plain(("query", "question"), ("response", "answer"), ("context",), ("ground_truth",)),
    ),
    Shape(
        "inputs_outputs",
        (("inputs",), ("outputs", *_INPUTS_OUTPUTS.reference, common.EXPECTATIONS)),
        _inputs_outputs,
        _INPUTS_OUTPUTS,
        frozenset(("trace", common.EXPECTATIONS)),
    ),
    Shape(
        "phoenix",
        _PHOENIX,
        *_plain(*_PHOENIX),
        proves=lambda row: not _has_others(row, (*NAMES.context, *NAMES.reference), but="reference"),
    ),
    Shape(
        "input_output",
        (("input",), ("output",)),
        *_plain(("input",), ("output",), ("retrieved_context", "retrieved_contexts", "contexts", "context")),
    ),
)
