"""The page about rows shows rows that are read, each as the shape it stands under."""

from __future__ import annotations

import json
import re

import pytest

from monitor.extraction.rows.shapes import SHAPES
from monitor.model.case import ReadingStatus
from tests.support.paths import DOCS
from tests.support.rows import reading

PAGE = (DOCS / "rows.md").read_text()
EXAMPLES = re.findall(r"^### (\w+)\n(?:(?!^#).)*?```json\n(.+?)```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("shape", "example"), EXAMPLES, ids=[shape for shape, _ in EXAMPLES])
def test_an_example_is_a_whole_row_of_its_shape(shape: str, example: str) -> None:
    found = reading(json.loads(example))
    assert (found.status, found.case.convention) == (ReadingStatus.READY, shape)
    assert found.case.retrieved_context


def test_every_shape_has_its_section_in_the_order_that_decides() -> None:
    assert set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == {shape.name for shape in SHAPES}
    order = PAGE.split("as many: ")[1].split(".")[0]
    assert [name.strip() for name in order.split(",")] == [shape.name for shape in SHAPES]
    assert len(EXAMPLES) >= 7
