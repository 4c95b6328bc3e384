"""The page about rows shows rows that are read, each as the shape it stands under."""

from __future__ import annotations

import json
import re

import pytest

from monitor.extraction.rows.common import NAMES, Names
from monitor.extraction.rows.shapes import SHAPES, Shape
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
    order = PAGE.split("otherwise the order is: ")[1].split(".")[0]
    assert [name.strip() for name in order.split(",")] == [shape.name for shape in SHAPES]
    assert len(EXAMPLES) >= 7


LINES = dict(re.findall(r"^\| `(\w+)`[^|]*\|(.*)\|$", PAGE, re.MULTILINE))
SERIALISED = {"actualOutput", "retrievalContext", "expectedOutput", "referenceOutputs", "reference_output"}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_table_names_the_fields_of_a_shape_by_meaning(shape: Shape) -> None:
    cells = dict(zip(Names._fields, LINES[shape.name].split("|")[1:], strict=True))
    for meaning, names in zip(Names._fields, shape.fields, strict=True):
        shown = set(re.findall(r"`(\w+)`", cells[meaning]))
        if not shown and cells[meaning].strip():
            continue  # the cell says it in words
        assert shown | SERIALISED >= set(names), meaning


@pytest.mark.parametrize(
    ("start", "names"),
    [
        ("reference", NAMES.reference),
        ("expected context", NAMES.expected_context),
        ("retrieved context", NAMES.context),
    ],
)
def test_the_table_names_the_fields_beside_a_shape_in_their_order(start: str, names: tuple[str, ...]) -> None:
    (line,) = re.findall(rf"^\| {start}[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert tuple(name for name in re.findall(r"`(\w+)`", line) if name != "expectations") == names
