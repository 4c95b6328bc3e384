"""The section `digest`: when it is due, on all clocks, and who may get it."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import config
from monitor.config.digest import DigestSettings, DueTimes
from monitor.errors import ConfigError

HOOK = {"type": "slack", "url": "https://hooks.example/x"}


def times(every: str, timezone: str = "UTC") -> DueTimes:
    made = DigestSettings(every=every, to=("slack",), timezone=timezone).schedule
    assert made is not None
    return made


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def refusal(**section: object) -> str:
    with pytest.raises(ConfigError) as raised:
        config.parse({"notify": [HOOK], "digest": section})
    return str(raised.value)


def test_a_weekly_digest_is_due_once_a_week() -> None:
    monday = times("monday 09:00")
    assert monday.latest(at("2026-03-11T08:00+00:00")) == at("2026-03-09T09:00+00:00")
    assert monday.following(at("2026-03-11T08:00+00:00")) == at("2026-03-16T09:00+00:00")


def test_it_is_due_at_its_second_and_not_before() -> None:
    daily, due = times("Daily  9:05"), at("2026-03-11T09:05+00:00")
    assert daily.latest(due) == due
    assert daily.latest(due - 0.1) == due - 86_400
    assert daily.following(due) == due + 86_400


def test_it_follows_the_clocks_of_its_time_zone_through_summer_time() -> None:
    berlin = times("monday 09:00", "Europe/Berlin")
    before, after = at("2026-03-23T08:00+00:00"), at("2026-03-30T07:00+00:00")  # the clocks change on the 29th
    assert berlin.following(before) == after
    assert berlin.latest(after - 1) == before
    assert berlin.following(at("2026-10-19T07:00+00:00")) == at("2026-10-26T08:00+00:00")


def test_a_time_that_summer_time_leaves_out_is_due_an_hour_later() -> None:
    assert times("daily 02:30", "Europe/Berlin").latest(at("2026-03-29T10:00+00:00")) == at("2026-03-29T01:30+00:00")


def test_a_time_that_occurs_twice_is_due_once() -> None:
    berlin, first = times("daily 02:30", "Europe/Berlin"), at("2026-10-25T00:30+00:00")
    assert berlin.latest(first + 3600) == first
    assert berlin.following(first) == at("2026-10-26T01:30+00:00")


@given(
    st.floats(0, 4e9),
    st.sampled_from(["daily", "monday", "sunday"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_due_times_follow_each_other_without_gap_or_repeat(now: float, day: str, hour: int, minute: int, zone: str):
    due = times(f"{day} {hour:02d}:{minute:02d}", zone)
    last, following = due.latest(now), due.following(now)
    assert last <= now < following
    assert due.following(last) == following
    assert due.latest(following) == following
    assert due.latest(following - 1) == last
    days = 1 if day == "daily" else 7
    assert abs(following - last - days * 86_400) <= 7200
    if day != "daily":
        assert f"{datetime.fromtimestamp(last, ZoneInfo(zone) if zone != 'UTC' else UTC):%A}".lower() == day


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"every": "moonday 09:00", "to": ["slack"]}, "did you mean 'monday'"),
        ({"every": "monday", "to": ["slack"]}, "00:00 to 23:59"),
        ({"every": "monday 24:00", "to": ["slack"]}, "00:00 to 23:59"),
        ({"every": "monday 9:5", "to": ["slack"]}, "00:00 to 23:59"),
        ({"every": "monday \u0660\u0669:\u0660\u0660", "to": ["slack"]}, "00:00 to 23:59"),
        ({"every": "monday 09:00"}, "needs `to`"),
        ({"to": ["slack"]}, "needs `every`"),
        (
            {"every": "monday 09:00", "to": ["slack"], "timezone": "Mars/Olympus"},
            "not a time zone that this machine knows",
        ),
        (
            {"every": "monday 09:00", "to": ["slack"], "timezone": "../etc/passwd"},
            "not a time zone that this machine knows",
        ),
        ({"every": "monday 09:00", "to": ["slak"]}, "did you mean 'slack'"),
        ({"every": "monday 09:00", "to": ["slack", "slack"]}, "listed twice"),
        ({"every": "monday 09:00", "to": ["log"]}, "takes alerts only"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(section: dict[str, object], words: str) -> None:
    said = refusal(**section)
    assert "digest" in said
    assert words in said


def test_receivers_of_one_type_are_told_apart_by_name() -> None:
    two = [HOOK, {**HOOK, "url": "https://hooks.example/y"}]
    with pytest.raises(ConfigError, match="give each its own `name`"):
        config.parse({"notify": two, "digest": {"every": "daily 09:00", "to": ["slack"]}})
    named = [HOOK, {**HOOK, "url": "https://hooks.example/y", "name": "quality"}]
    made = config.parse({"notify": named, "digest": {"every": "daily 09:00", "to": ["quality", "slack"]}})
    assert [one.url for one in made.digest.receivers(made.notify).values()] == ["https://hooks.example/y", HOOK["url"]]  # type: ignore[attr-defined]
