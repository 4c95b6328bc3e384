"""Parameters of an address: read, or refused with a message that helps."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.web.queries import ANSWERS, BadQueryError, answers, read, window, windows

NOW = 1_700_000_000.0
LEVELS = ("poor", "good")


def asked(query: str):
    return answers(read(query, ANSWERS), NOW, LEVELS)


def test_an_empty_query_asks_for_the_defects_of_the_last_day():
    found = asked("")
    assert (found.since, found.until, found.outcome, found.limit) == (NOW - 86400, None, "defect", 30)


def test_what_a_form_sends_empty_is_not_given():
    assert asked("app=&level=&evaluator=&since=") == asked("")


@pytest.mark.parametrize(
    "written", ["2023-11-14T21:13:20Z", "2023-11-14T21:13:20", "2023-11-14T22:13:20%2B01:00", "1h", "3600"]
)
def test_a_time_is_how_long_ago_or_a_moment(written):
    assert asked(f"since={written}").since == NOW - 3600


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "'colour' is not a parameter here. Parameters: app, evaluator,"),
        ("app=a&app=b", "app: given twice"),
        ("limit=0", "limit: '0' is not a whole number from 1 to 200"),
        ("limit=201", "limit: '201' is not"),
        ("limit=1e2", "limit: '1e2' is not"),
        ("limit=\u0663", "limit: '\u0663' is not"),
        ("outcome=bad", "outcome: 'bad' is not one of: defect, passed, score, unscored, skipped, any"),
        ("level=worst", "level: 'worst' is not one of: poor, good"),
        ("since=yesterday", "since: 'yesterday' is not a duration, such as `24h`"),
        ("since=1h&until=2h", "until: '2h' is not after since, '1h'"),
        ("since=99999d", "since: '99999d' is before 1970"),
        ("since=0001-01-01", "since: '0001-01-01' is before 1970"),
        (f"evaluator={'x' * 300}", "evaluator: 300 characters are too many, the limit is 256"),
        ("&".join(f"a{n}=1" for n in range(30)), "too many parameters"),
    ],
)
def test_what_is_wrong_is_named_with_its_value_and_what_is_allowed(query, said):
    with pytest.raises(BadQueryError) as refused:
        asked(query)
    assert said in str(refused.value)


@given(query=st.text(max_size=200))
def test_any_text_is_read_or_refused(query):
    with contextlib.suppress(BadQueryError):
        assert asked(query).limit


def test_a_window_can_be_asked_for_if_it_is_remembered():
    assert windows(86400) == ["10m", "1h", "6h", "24h"]
    assert window({"window": "7d"}, 604800) == "7d"
    with pytest.raises(BadQueryError, match="window: '7d' is not one of: 10m, 1h, 6h, 24h"):
        window({"window": "7d"}, 86400)


@pytest.mark.parametrize("written", ["a%20b", "a%C2%A0b", "%20a%E3%80%80%0Ab%20"])
def test_an_app_is_found_by_its_name_as_its_service_states_it(written):
    assert asked(f"app={written}").app == "a b"
    assert len(asked(f"app={'x' * 300}").app) == 128
