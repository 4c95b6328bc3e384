"""What every shape of row keeps. A new one is tested as soon as its entry is in the table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction import rows
from monitor.extraction.rows.fields import Said
from monitor.extraction.rows.shapes import SHAPES, Shape
from tests.support.rows import READ_TRACE

SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def test_every_shape_has_a_name_of_its_own() -> None:
    names = [shape.name for shape in SHAPES]
    assert len(names) == len(set(names))
    assert all(name.replace("_", "").isalnum() and name == name.lower() for name in names)


@SHAPE
def test_a_shape_is_known_by_fields_that_count_for_it(shape: Shape) -> None:
    assert shape.marks
    assert {name for mark in shape.marks for name in mark} <= shape.names


@SHAPE
@given(data=st.data())
def test_a_shape_reads_any_values_of_its_fields_and_never_raises(shape: Shape, data: st.DataObject) -> None:
    marks = {data.draw(st.sampled_from(mark)): VALUES for mark in shape.marks}
    others = {name: VALUES for name in sorted(shape.names - {"app"}) if name not in marks}
    row = data.draw(st.fixed_dictionaries(marks, optional=others))
    assert isinstance(shape.say(row), Said)
    taken = rows.take(json.dumps(row).encode(), app="shop")
    assert len(taken.rows) + len(taken.faults) == 1
    for one in taken.rows:
        assert rows.read(one, READ_TRACE, source="cases").last.case.app == "shop"
