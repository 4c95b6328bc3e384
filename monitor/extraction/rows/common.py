"""Fields that a row of any shape may have besides the fields of its shape: for each meaning, the names in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from monitor.extraction import messages, values
from monitor.extraction.rows import fields
from monitor.extraction.rows.fields import Fields, Said
from monitor.model.case import Message, Usage
from monitor.model.span import Value

T = TypeVar("T")


class Names(NamedTuple):
    """Names of fields by their meaning. If several are present, the first with a value is read."""

    question: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    expected_context: tuple[str, ...] = ()


NAMES: Final = Names(
    question=("request", "query", "question", "user_input", "input", "userText"),
    answer=("response", "answer", "actual_output", "actualOutput", "responseContent", "output"),
    context=(
        "retrieved_context",
        "retrieved_contexts",
        "retrieval_context",
        "retrievalContext",
        "contexts",
        "context",
        "dataList",
        "retrieved_documents",
        "retrieved_chunks",
        "source_documents",
        "documents",
        "chunks",
        "passages",
    ),
    reference=(
        "expected_response",
        "expected_output",
        "expectedOutput",
        "expected_answer",
        "expectedAnswer",
        "ground_truth",
        "groundTruth",
        "ground_truths",
        "reference",
        "reference_answer",
        "reference_response",
        "reference_output",
        "reference_outputs",
        "referenceOutputs",
        "golden_answer",
        "golden_response",
        "gold_answer",
        "correct_answer",
        "ideal",
        "target",
        "expected",
        "expected_facts",
    ),
    expected_context=(
        "expected_retrieved_context",
        "reference_contexts",
        "expected_context",
        "expected_contexts",
        "expected_documents",
        "expected_chunks",
        "ground_truth_context",
        "ground_truth_contexts",
        "golden_context",
        "golden_contexts",
        "relevant_documents",
    ),
)
"""Names that are read in a row of any shape, unless the shape uses them for something else."""

EXPECTATIONS: Final = "expectations"
"""The object of MLflow 3 that holds the references."""

_COUNTS: Final = (
    ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens"),
    ("output_tokens", "completion_tokens", "outputTokens", "completionTokens"),
    ("total_tokens", "totalTokens"),
)
_LISTS: Final = frozenset({"ground_truths", "expected_facts"})
_OTHERS: Final = frozenset(
    {
        *("request_id", "trace_id", "id", "app", "session_id", "user_id", "model", "attributes", "timestamp"),
        *("prompt", "usage", "label", "group", EXPECTATIONS, *fields.HISTORY),
        *(name for names in _COUNTS for name in names),
    }
)
_MOST_UNUSED: Final = 20
_LONGEST_NAME: Final = 40


def first(row: Fields, names: Sequence[str], read: Callable[[Value], T | None]) -> T | None:
    """Return what `read` finds in the first of `names` where it finds anything, or None."""
    for name in names:
        given = row.get(name)
        if given is not None and (found := read(given)) is not None:
            return found
    return None


def reference(row: Fields, names: Sequence[str]) -> str | None:
    """Return the expected answer in the first of `names` that has one. A list of facts may be JSON in a text."""
    unfolded = {name: values.unfold(row.get(name)) if name in _LISTS else row.get(name) for name in names}
    return first(unfolded, names, fields.reference)


def fill_in(row: Fields, said: Said, own: frozenset[str]) -> Said:
    """Return the row's statements, completed with fields outside its shape. `own` are the names that the shape uses."""
    others = _others(own)
    expectations = row.get(EXPECTATIONS)
    traced = said.traced.expectations if said.traced is not None else {}
    places = (row, expectations if isinstance(expectations, Mapping) else {}, traced)
    request, expected, context = said.request, said.expected_response, said.expected_documents
    if request is None:
        asked = (fields.question(row, (name,)) for name in others.question)
        request = next((one for one in asked if one is not None), None)
    for place in places:
        names = others if place is row else NAMES
        expected = expected if expected is not None else reference(place, names.reference)
        context = context if context is not None else first(place, names.expected_context, fields.expected_context)
    return replace(
        said,
        request=request,
        response=said.response if said.response is not None else first(row, others.answer, fields.answer),
        documents=said.documents if said.documents is not None else first(row, others.context, fields.context),
        expected_response=expected,
        expected_documents=context,
        usage=said.usage if said.usage != Usage() else usage(row),
        prompt=said.prompt or prompt(row.get("prompt") if "prompt" not in own else None),
    )


def usage(row: Fields) -> Usage:
    """Read the token counts: in `usage`, or in the row itself."""
    inner = values.unfold(row.get("usage"))
    places = (inner, row) if isinstance(inner, Mapping) else (row,)
    return Usage(
        *(
            next((found for place in places if (found := values.count(values.first(place, names))) is not None), None)
            for names in _COUNTS
        )
    )


def prompt(given: Value) -> tuple[Message, ...]:
    """Read the prompt that the service sent to the model: messages, or one text."""
    unfolded = values.unfold(given)
    if isinstance(unfolded, str):
        return (Message("user", unfolded),) if unfolded.strip() else ()
    return (messages.read(unfolded) or ()) if unfolded else ()


def unused(row: Fields, names: Names, own: frozenset[str]) -> tuple[str, ...]:
    """Return the names of fields that are not read, up to 20: fields without a meaning, and duplicates of a meaning.

    `names` are the fields of the row's shape by meaning, `own` all its fields.
    """
    return tuple(name[:_LONGEST_NAME] for name in islice(unread(row, names, own), _MOST_UNUSED))


def unread(row: Fields, names: Names, own: frozenset[str]) -> Iterator[str]:
    """Yield the same names, but all of them and in full length."""
    meanings = [(*mine, *others) for mine, others in zip(names, _others(own), strict=True)]
    second = set[str]()
    for meaning in meanings:
        there = [name for name in meaning if row.get(name) not in (None, "", [], {})]
        second.update(name for name in there[1:] if row[name] != row[there[0]])
    known = own | _OTHERS | _COMMON
    for name, value in row.items():
        if value is not None and (name not in known or name in second):
            yield name


@cache
def _others(own: frozenset[str]) -> Names:
    return Names(*(tuple(name for name in names if name not in own) for names in NAMES))


_COMMON: Final = frozenset(name for names in NAMES for name in names)
