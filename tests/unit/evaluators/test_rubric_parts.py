"""What a judge is shown is written as JSON, so that no text can pass for a border between two."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators._rubric_parts import listed

FLAT = st.dictionaries(st.text(min_size=1), st.text() | st.integers(), min_size=1)
NESTED = st.dictionaries(st.text(min_size=1), st.text() | st.lists(st.text()), min_size=1)


@given(st.lists(FLAT | NESTED))
def test_items_are_written_as_the_interpreter_writes_them(items: list[dict[str, str]]) -> None:
    assert listed(items) == json.dumps(items, ensure_ascii=False, indent=1)


@given(st.lists(FLAT))
def test_what_was_written_is_read_again_without_loss(items: list[dict[str, str]]) -> None:
    assert json.loads(listed(items)) == items
