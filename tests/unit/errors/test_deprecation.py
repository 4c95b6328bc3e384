"""Deprecated options are found wherever they are in a configuration, and only where they are set."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict

from monitor import config
from monitor.errors.deprecation import Deprecated, deprecated_options
from monitor.operations import reference

OLD = Deprecated(since="0.2.0", removed_in="0.4.0", instead="limit")
GONE = Deprecated(since="0.3.0", removed_in="1.0.0")


class Part(BaseModel):
    """A section within a section."""

    old: Annotated[int, OLD] = 1
    """How many."""

    limit: int = 1


class Whole(BaseModel):
    """Sections in all the places in which a configuration has them."""

    model_config = ConfigDict(frozen=True)
    part: Part = Part()
    named: dict[str, Part] = {}
    listed: tuple[Part, ...] = (Part(old=2),)
    gone: Annotated[bool, GONE] = False


def found(**given: object) -> list[str]:
    return list(deprecated_options(Whole.model_validate(given)))


def test_what_is_not_set_is_not_named_even_where_the_default_sets_it() -> None:
    assert found() == []
    assert found(part={"limit": 3}, listed=[{"limit": 3}]) == []


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"part": {"old": 1}}, "part.old"),
        ({"named": {"fast": {"old": 0}}}, "named.fast.old"),
        ({"listed": [{"limit": 1}, {"old": 3}]}, "listed[1].old"),
    ],
)
def test_an_option_is_named_by_its_place_with_what_to_use_instead(given: dict[str, object], place: str) -> None:
    assert found(**given) == [f"{place}: deprecated since 0.2.0, removed in 0.4.0; use `limit` instead"]


def test_an_option_without_a_successor_is_named_as_such() -> None:
    assert found(gone=True) == ["gone: deprecated since 0.3.0, removed in 1.0.0; nothing replaces it"]


def test_the_reference_says_so_beside_the_option() -> None:
    rows = list(reference._rows(Part, ""))
    assert (
        rows[0] == "| `old` | How many. *Option deprecated since 0.2.0, removed in 0.4.0; use `limit` instead.* | `1` |"
    )
    assert "deprecated" not in rows[1]


def test_nothing_is_deprecated_in_what_ships() -> None:
    given = {"evaluators": [{"type": "response_length", "longest": 9, "sample": "50%"}], "alerts": []}
    loaded = config.parse(given)
    assert list(deprecated_options(loaded)) == []
    assert {"evaluators", "alerts"} <= loaded.model_fields_set
