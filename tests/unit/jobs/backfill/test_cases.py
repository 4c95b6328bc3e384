"""A case that waits in the queue comes out as it went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData
from monitor.jobs.backfill.cases import BackfillOrigin, Item, dump, load
from monitor.model.case import DOCUMENT_KINDS, Case, ContextStatus, Document, Message, Request, Traffic, Usage

TEXT = st.text(st.characters(codec=None), max_size=20)  # half surrogate pairs among them
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
MESSAGES = st.lists(st.builds(Message, TEXT, TEXT), max_size=2).map(tuple)
DOCUMENTS = st.lists(
    st.builds(Document, TEXT, TEXT, TEXT, st.none() | NUMBER, st.sampled_from(DOCUMENT_KINDS)), max_size=2
).map(tuple)
TOKENS = st.none() | st.integers(0, 10**6)
FIELDS = dict(  # noqa: C408 - the fields by their names
    request_id=TEXT,
    request=st.builds(Request, TEXT, MESSAGES),
    retrieved_context=DOCUMENTS,
    context_source=st.sampled_from(["spans", "prompt", "row", "none"]),
    context_status=st.sampled_from(ContextStatus),
    prompt=MESSAGES,
    response=TEXT,
    model=TEXT,
    usage=st.builds(Usage, TOKENS, TOKENS, TOKENS),
    session_id=TEXT,
    user_id=TEXT,
    app=TEXT,
    source=TEXT,
    span_id=TEXT,
    convention=TEXT,
    attributes=st.dictionaries(TEXT, TEXT, max_size=2),
    expected_response=st.none() | TEXT,
    expected_retrieved_context=st.none() | DOCUMENTS,
    probability=st.floats(1e-9, 1),
    answered_at=NUMBER,
    seconds=st.none() | NUMBER,
    traffic=st.sampled_from(Traffic),
)
CASES = st.builds(Case, **FIELDS)
ITEMS = st.builds(
    Item,
    case=CASES,
    evaluator=TEXT,
    version=TEXT,
    origin=st.sampled_from(BackfillOrigin),
    probability=st.floats(1e-9, 1),
    target=st.floats(0, 1),
)


@given(ITEMS)
def test_an_item_survives_the_disk_without_loss(item: Item) -> None:
    assert load(dump(item)) == item


@given(st.binary(max_size=60))
def test_what_is_no_item_is_invalid_and_nothing_else(data: bytes) -> None:
    with pytest.raises(InvalidData):
        load(data)


def test_every_field_of_a_case_is_among_those_drawn_here() -> None:
    assert set(FIELDS) == set(Case.__dataclass_fields__)
