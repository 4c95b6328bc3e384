from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.quantities import format_duration, format_size, parse_duration, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("7d", 604800), (12, 12), ("250ms", 0.25), ("1.5h", 5400), ("2", 2)],
)
def test_a_duration_reads_as_people_write_it(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("500MB", 500_000_000), (64, 64), ("1kB", 1000), ("1KiB", 1024), ("64 MiB", 2**26)],
)
def test_a_size_reads_as_people_write_it(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "rate"), [("10%", 0.1), (0.1, 0.1), ("100%", 1), ("0.5%", 0.005), (1, 1), ("0", 0)])
def test_a_rate_reads_as_people_write_it(text, rate):
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize("parse", [parse_duration, parse_size, parse_rate])
@pytest.mark.parametrize("bad", [True, None, "", "soon", "-1", -1, math.nan, math.inf, "10 parsecs", [], "1s1"])
def test_anything_else_is_an_error_that_shows_the_value(parse, bad):
    with pytest.raises(ValueError, match=r"is not a (duration|size|rate)"):
        parse(bad)


@pytest.mark.parametrize("bad", ["101%", 1.01, 10])
def test_a_rate_beyond_one_is_an_error(bad):
    with pytest.raises(ValueError, match="from 0 to 1"):
        parse_rate(bad)


@given(st.integers(0, 10**7))
def test_a_formatted_duration_reads_back(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 2**45))
def test_a_formatted_size_reads_back(size):
    assert parse_size(format_size(size)) == size
