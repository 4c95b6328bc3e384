from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.quantities import (
    dollars,
    format_duration,
    format_size,
    human_duration,
    human_number,
    number_of,
    parse_duration,
    parse_rate,
    parse_size,
    percent,
    precise_percent,
    timing,
)


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


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0, "0 %"),
        (0.0004, "0.04 %"),
        (0.024, "2.4 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (0.314, "31 %"),
        (1, "100 %"),
    ],
)
def test_a_share_has_digits_where_they_matter(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(("share", "text"), [(0.00125, "0.125 %"), (0.042, "4.2 %"), (0.15, "15 %"), (0.125, "12.5 %")])
def test_a_threshold_is_written_with_three_digits(share, text):
    assert precise_percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (59.6, "1 min"),
        (0.02, "20 ms"),
        (0.4, "0.4 s"),
        (1.54, "1.5 s"),
        (45, "45 s"),
        (60, "1 min"),
        (90, "90 s"),
        (200, "3 min"),
        (3600, "1 h"),
        (7100, "118 min"),
        (604800, "7 d"),
    ],
)
def test_a_duration_for_people_is_rounded(seconds, text):
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.04, "0.04"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1,000"),
        (20_000.0, "20,000"),
        (3e9, "3,000,000,000"),
    ],
)
def test_a_number_for_people_has_no_exponent(value: float, text: str) -> None:
    assert human_number(value) == text


def test_a_number_of_things_is_written_with_its_plural():
    assert [number_of(one, "span") for one in (0, 1, 2, 1234)] == ["0 spans", "1 span", "2 spans", "1,234 spans"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00041, "0.41 ms"), (0.0123, "12.3 ms"), (0.5, "500 ms"), (1.25, "1.25 s"), (42.0, "42.0 s")],
)
def test_a_measured_time_has_three_digits(seconds, text):
    assert timing(seconds) == text


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "-"), (0.000042, "$4.2e-05"), (0.00042, "$0.00042"), (0.132, "$0.13"), (12.6, "$12.60")]
)
def test_an_amount_shows_the_price_of_a_single_evaluation(amount, shown):
    assert dollars(amount) == shown


@pytest.mark.parametrize(("parse", "unit"), [(parse_duration, "d"), (parse_size, "GiB"), (parse_rate, "%")])
@pytest.mark.parametrize("how", ["a text", "a text with its unit", "a whole number"])
def test_a_number_too_large_to_be_held_is_refused_like_any_other(parse, unit, how):
    number = "9" * 400
    given = {"a text": number, "a text with its unit": number + unit, "a whole number": int(number)}[how]
    with pytest.raises(ValueError, match=r"is not a (duration|size|rate)"):
        parse(given)
