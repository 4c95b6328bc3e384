"""Marks on a text, whatever their offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.web.highlights import highlight, split, window

TEXTS = st.text(max_size=60)
MARKS = st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=8)


@given(text=TEXTS, marks=MARKS)
def test_every_character_is_there_once_and_covered_by_exactly_the_marks_that_cover_it(text, marks):
    parts = highlight(text, marks)
    assert "".join(part.text for part in parts) == text
    covered = [part.marks for part in parts for _ in part.text]
    for at, numbers in enumerate(covered):
        assert list(numbers) == [number for number, (start, end) in enumerate(marks) if start <= at < end]


@given(text=TEXTS, marks=MARKS)
def test_each_mark_that_lies_within_ends_once_and_with_its_last_character(text, marks):
    parts, at, ends = highlight(text, marks), 0, {}
    for part in parts:
        at += len(part.text)
        for number in part.ends:
            assert number not in ends
            ends[number] = at
    inside = {number: end for number, (start, end) in enumerate(marks) if max(start, 0) < min(end, len(text))}
    assert ends == {number: min(end, len(text)) for number, end in inside.items()}


@given(text=TEXTS, marks=MARKS, at=st.integers(0, 70))
def test_splitting_loses_neither_text_nor_marks(text, marks, at):
    parts = highlight(text, marks)
    head, tail = split(parts, at)
    assert "".join(part.text for part in head) == text[:at]
    assert "".join(part.text for part in tail) == text[at:]
    flat = [part.marks for part in [*head, *tail] for _ in part.text]
    assert flat == [part.marks for part in parts for _ in part.text]
    assert sorted(n for part in [*head, *tail] for n in part.ends) == sorted(n for part in parts for n in part.ends)


@given(length=st.integers(0, 3000), marks=MARKS, size=st.integers(1, 900))
def test_an_excerpt_lies_within_the_text_and_shows_where_the_first_mark_begins(length, marks, size):
    start, end = window(length, marks, size)
    assert 0 <= start <= end <= length
    assert end - start == min(length, size)
    first = min((one for one, last in marks if 0 <= one < min(last, length)), default=start)
    assert start <= first < max(end, 1)
