"""Topics of the running monitor: made from its history, kept over a restart, read beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.jobs.topics import TopicKeeper, kept_names, read_topics, topic_factors
from monitor.model.case import Case, Request
from monitor.privacy import pseudonyms
from monitor.stages.kept_state import KeptState
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.topics import OTHER, QuestionTopic, topic_words
from monitor.storage.history.features import CaseFeatures
from monitor.storage.state_file import kept_value, open_state
from tests.support.rise import NOW, in_acme, kept, results
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


async def renewed(folder: Path, clock: ManualClock) -> tuple[QuestionTopic, ...]:
    """A process that looks at the questions once."""
    there = runtime(clock)
    state = open_state(folder / "state.db", clock=clock, metrics=there.metrics, events=there.events)
    async with state as values:
        keeper = TopicKeeper(folder / "data" / "history.db", values, clock)
        await keeper.renew()
        return keeper.of("shop")


async def test_topics_are_kept_for_the_next_process_and_for_commands(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    await kept(tmp_path, results(in_acme), texts="all")
    topics = await renewed(tmp_path, clock)
    assert {one.name for one in topics} == {f"product{number}" for number in range(40)}
    assert read_topics(tmp_path / "state.db", "shop") == topics
    assert read_topics(tmp_path / "state.db", "other") == ()
    assert await renewed(tmp_path, clock) == topics


async def test_a_history_that_cannot_be_read_leaves_the_topics_as_they_are(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    await kept(tmp_path, results(in_acme), texts="all")
    topics = await renewed(tmp_path, clock)
    (tmp_path / "data" / "history.db").unlink()
    assert await renewed(tmp_path, clock) == topics


async def test_without_a_file_of_topics_there_are_none(tmp_path: Path) -> None:
    assert read_topics(tmp_path / "state.db", "shop") == ()


def test_a_topic_is_a_factor_of_a_diagnosis_unless_the_service_has_a_slice_of_that_name() -> None:
    topics = (QuestionTopic("norway", "norway", 0.1), QuestionTopic("00f1c2d3e4a5b6c7", "00f1c2d3e4a5b6c7", 0.2))
    factor = Factor("slice", "topic", "norway")
    assert topic_factors(topics, CaseFeatures(unit="u", words=("norway", "ship"))) == (factor,)
    assert topic_factors(topics, CaseFeatures(unit="u", words=("00f1c2d3e4a5b6c7",)))[0].value == "topic 00f1c2"
    assert topic_factors(topics, CaseFeatures(unit="u", words=("else",))) == ()
    assert topic_factors(topics, CaseFeatures(unit="u", words=("norway",), slices={"topic": "own"})) == ()


@pytest.mark.parametrize("texts", ["all", "none"])
async def test_the_topic_of_a_live_question_is_that_of_the_history_also_where_words_are_hashed(
    tmp_path: Path, texts: str
) -> None:
    clock = ManualClock(NOW)
    await kept(tmp_path, results(in_acme), texts=texts)
    key = pseudonyms.at_hand(tmp_path / "data")
    keeper = TopicKeeper(
        tmp_path / "data" / "history.db", KeptState(), clock, hashed=None if texts == "all" else key.word
    )
    asked = [
        Case(request_id="1", request=Request(f"Has product{number} a warranty?"), app="shop") for number in (3, 7, 999)
    ]
    assert [keeper.name_of(one) for one in asked] == [OTHER] * 3
    await keeper.renew()
    names = [keeper.name_of(one) for one in asked]
    assert names[2] == OTHER
    if texts == "all":
        assert names[:2] == ["product3", "product7"]
    else:
        assert all(name.startswith("topic ") for name in names[:2])
        assert len(set(names)) == 3


@pytest.mark.parametrize("texts", ["all", "none"])
async def test_a_command_beside_the_monitor_names_the_same_topics(tmp_path: Path, texts: str) -> None:
    await kept(tmp_path, results(in_acme), texts=texts)
    topics = await renewed(tmp_path, ManualClock(NOW))
    hashed = None if texts == "all" else pseudonyms.at_hand(tmp_path / "data").word
    name_of = kept_names(tmp_path / "state.db", hashed)
    case = Case(request_id="1", request=Request("Has product7 a warranty?"), app="shop")
    assert name_of(case) in {topic_words(one.name) for one in topics}
    assert name_of(case) != OTHER
    assert [name_of(replace(case, app="other")), name_of(replace(case, request=Request("Else?")))] == [OTHER, OTHER]


async def test_topics_that_never_change_are_written_again_so_that_they_are_not_deleted_as_old(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    await kept(tmp_path, results(in_acme), texts="all")
    topics = await renewed(tmp_path, clock)
    clock.advance(3600)
    assert await renewed(tmp_path, clock) == topics
    value = kept_value(tmp_path / "state.db", "topics")
    assert value is not None
    assert value["at"] == NOW + 3600


async def test_damaged_values_are_no_topics(tmp_path: Path) -> None:
    there = runtime(ManualClock(NOW))
    for value in ({"apps": [1]}, {"apps": {"shop": [[1, 2]]}}, {"apps": {"shop": 3}}, {}):
        state = open_state(tmp_path / "state.db", clock=there.clock, metrics=there.metrics, events=there.events)
        async with state as values:
            values.follow("topics", lambda value=value: value)
        assert read_topics(tmp_path / "state.db", "shop") == ()
