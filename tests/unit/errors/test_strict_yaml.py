"""YAML that people write: what it stands for is counted before anything is made of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import ConfigError
from monitor.errors.strict_yaml import KeyTwiceError, load_yaml

PLAIN: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_what_yaml_writes_is_read_as_it_was(value: Any) -> None:
    assert load_yaml(yaml.safe_dump(value)) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" + "a," * 20_000 + "]", "more than 20,000 values"),
        ("".join(f"k{number}: 1\n" for number in range(10_001)), "more than 20,000 values"),
        ("a: &a [" + "x," * 200 + "]\nb: [" + "*a," * 100 + "]", "more than 20,000 values"),
        ("[" * 51 + "]" * 51, "more than 50 levels"),
        ("[" * 100_000, "more than 50 levels"),
        ("\n".join(" " * depth + "a:" for depth in range(51)), "more than 50 levels"),
        ("&a [*a]", "more than 50 levels"),
    ],
    ids=["list", "mapping", "aliases", "nested", "open", "block", "itself"],
)
def test_more_than_a_configuration_needs_is_refused_while_it_is_read(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_yaml(text)


def test_as_much_as_is_allowed_is_read() -> None:
    assert load_yaml("[" * 49 + "a" + "]" * 49)
    assert len(load_yaml("[" + "a," * 19_999 + "]")) == 19_999


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "{a: 1, a: 1}"])
def test_a_key_that_occurs_twice_is_named_with_its_line(text: str) -> None:
    with pytest.raises(KeyTwiceError, match="the key 'a' occurs twice, first in line 1"):
        load_yaml(text)


def test_a_key_of_a_megabyte_is_named_in_short() -> None:
    key = "? |\n  " + "k" * 1_000_000 + "\n: 1\n"
    with pytest.raises(KeyTwiceError) as refused:
        load_yaml(key * 2)
    assert len(str(refused.value)) < 500


def test_merge_keys_take_over_what_is_not_written() -> None:
    text = "base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nboth: {<<: [*base, {c: 4, a: 5}], d: 6}"
    assert load_yaml(text) == {
        "base": {"a": 1, "b": 2},
        "other": {"a": 1, "b": 3},
        "both": {"a": 1, "b": 2, "c": 4, "d": 6},
    }


def test_a_mapping_that_was_merged_before_it_is_read_has_no_key_twice() -> None:
    assert load_yaml("a: {<<: &b {<<: {x: 1}, x: 2}}\nc: *b") == {"a": {"x": 2}, "c": {"x": 2}}


@pytest.mark.parametrize("text", ["a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}", "b: {<<: {y: 1, y: 2}}"])
def test_beside_and_within_a_merge_key_a_key_that_occurs_twice_is_refused(text: str) -> None:
    with pytest.raises(KeyTwiceError, match="the key 'y' occurs twice"):
        load_yaml(text)


def test_merge_keys_stand_for_no_more_than_is_allowed() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{number}: 1" for number in range(10)) + "}"]
    lines += [f"a{level}: &a{level} {{<<: [" + f"*a{level - 1}," * 10 + "]}" for level in range(1, 9)]
    with pytest.raises(ConfigError, match="more than 20,000 values"):
        load_yaml("\n".join(lines))
    with pytest.raises(ConfigError, match="more than 50 levels"):
        load_yaml("a: &a {<<: *a}")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2026-02-30", "a date"),
        ("2026-02-28T25:00:00Z", "a date"),
        ("!!timestamp soon", "a date"),
        ("0b_", "a whole number"),
        ("0x_", "a whole number"),
        ("9" * 5_000, "a whole number"),
        ("!!int many", "a whole number"),
        ("!!float much", "a number"),
        ("!!bool perhaps", "true or false"),
    ],
)
def test_a_value_that_is_not_what_it_looks_like_is_an_error_with_its_place(value: str, kind: str) -> None:
    with pytest.raises(yaml.YAMLError, match=f"this cannot be read as {kind}; put it in quotes") as caught:
        load_yaml(f"a: 1\nb: [x, {value}]")
    mark = caught.value.problem_mark  # type: ignore[attr-defined]
    assert (mark.line, mark.column) == (1, 7)
