"""Who is judged afterwards: the draw of production, the same way from delivery to case, and nobody twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.backfill.cases import Item, Origin
from monitor.cli import backfill_price, backfilled
from monitor.cli.backfill_choice import Choice
from monitor.cli.backfill_traffic import Replay, _of_record, of_spool
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import Judged, Score
from monitor.model.span import SpanBatch
from monitor.otlp import wire
from monitor.privacy.erasure import Mark, add
from monitor.sinks.history import History
from monitor.statistics import consistent_sampling
from monitor.storage.spool import Record
from tests.support.command import command
from tests.support.kafka_traces import in_parts, rag_trace, trace_id
from tests.unit.sinks.results import runtime

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000.0  # where the clock of these tests stands


def config(folder: Path, **more: Any) -> Config:
    judge = {"model": "openai/gpt-4o-mini", "api_key": "none", "api_base": "http://127.0.0.1:9/v1"}
    evaluators = [{"type": "relevance", "sample": "30%"}, {"type": "groundedness", "sample": {"per_hour": 5}}]
    given = {"judge": judge, "evaluators": evaluators, "alerts": [], "storage": {"path": str(folder)}, **more}
    return Config.model_validate(given)


def case(number: int, **more: Any) -> Case:
    return Case(
        request_id=f"case-{number}",
        request=Request("How long?"),
        retrieved_context=(Document("Three weeks."),),
        response="Three weeks.",
        app="shop",
        answered_at=1000.0 + number,
        **more,
    )


def choice(folder: Path, names: str = "relevance", **more: Any) -> Choice:
    made = config(folder)
    wanted = {"app": None, "sample": None, "since": None, "until": None, **more}
    return Choice(made, backfilled.wish(made, names, **wanted))


async def test_the_same_answers_are_chosen_as_production_would_choose(tmp_path: Path) -> None:
    cases = [case(number) for number in range(200)]
    items = await choice(tmp_path).of_cases([*cases, *cases], Origin.FILE)
    live = [one.request_id for one in cases if consistent_sampling.chosen(one.request_id, "rag-monitor", 0.3)]
    assert [one.case.request_id for one in items] == live
    assert {(one.probability, one.origin) for one in items} == {(0.3, Origin.FILE)}


async def test_a_share_of_ones_own_takes_the_place_of_the_evaluators(tmp_path: Path) -> None:
    made = choice(tmp_path, "relevance,groundedness", sample="100%")
    items = await made.of_cases([case(1), case(2)], Origin.FILE)
    assert [(one.case.request_id, one.evaluator) for one in items] == [
        (f"case-{number}", name) for number in (1, 2) for name in ("relevance", "groundedness")
    ]


def test_an_evaluator_whose_rate_follows_the_traffic_needs_a_share(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--sample: is needed for groundedness"):
        choice(tmp_path, "groundedness")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": "no_such"}, "'no_such' is not at work in this configuration; there are: groundedness, relevance"),
        ({"sample": "200%"}, "--sample: "),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_a_reason(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choice(tmp_path, **options)
    assert message in str(refused.value)


def test_where_it_is_off_nothing_can_be_asked_for(tmp_path: Path) -> None:
    off = config(tmp_path, backfill={"retention": "0s"})
    with pytest.raises(ConfigError, match=r"backfill\.retention"):
        backfilled.wish(off, "relevance", app=None, sample=None, since=None, until=None)


async def test_only_answers_of_that_time_and_app_count(tmp_path: Path) -> None:
    made = choice(tmp_path, sample="100%", app="shop", since=1002.0, until=1003.0)
    cases = [*(case(number) for number in range(6)), replace(case(7), app="other", answered_at=1002.5)]
    items = await made.of_cases([*cases, replace(case(8), answered_at=0.0)], Origin.KAFKA)
    assert [one.case.request_id for one in items] == ["case-2", "case-3"]
    assert (made.done.read, made.done.wanted) == (8, 2)


async def test_what_has_a_verdict_or_is_to_be_forgotten_is_not_asked_for(tmp_path: Path) -> None:
    made = choice(tmp_path, sample="100%")
    version = made.versions["relevance"]
    judged = Judged(
        case=case(1), evaluator="relevance", version=version, outcome=Score(5, "x"), weight=1, judged_at=NOW
    )
    async with History(path=tmp_path / "history.db").open(runtime()) as deliver:
        await deliver(judged)
    add(tmp_path, [Mark(10.0, trace="case-2")], since=0.0)
    made = choice(tmp_path, sample="100%")
    items = await made.of_cases([case(1), case(2), case(3)], Origin.FILE)
    assert [one.case.request_id for one in items] == ["case-3"]
    assert made.done.known == 1


def test_a_share_of_the_missed_lowers_the_probability_that_they_had(tmp_path: Path) -> None:
    items = [
        Item(case=case(number), evaluator="relevance", version="v", origin=Origin.MISSED, probability=0.5, target=0.5)
        for number in range(300)
        if consistent_sampling.chosen(f"case-{number}", "rag-monitor", 0.5)
    ]
    found = list(choice(tmp_path, "", sample="40%").of_missed(items))
    assert [one.case.request_id for one in found] == [
        one.case.request_id for one in items if consistent_sampling.chosen(one.case.request_id, "rag-monitor", 0.2)
    ]
    assert {one.probability for one in found} == {0.2}
    assert len(list(choice(tmp_path, "").of_missed(items))) == len(items)


async def test_texts_are_masked_as_in_production(tmp_path: Path) -> None:
    made = config(tmp_path, redaction={"enabled": True})
    wish = backfilled.wish(made, "relevance", app=None, sample="100%", since=None, until=None)
    given = replace(case(1), response="Write to jane.doe@gmail.com.", user_id="jane")
    (item,) = await Choice(made, wish).of_cases([given], Origin.FILE)
    assert "jane" not in item.case.response
    assert item.case.user_id not in ("", "jane")


# -- from deliveries to cases


def spans(request: Any) -> SpanBatch:
    return SpanBatch("otlp_http", "traces", wire.split(request.SerializeToString()))


def test_a_trace_in_parts_is_one_case_and_head_sampling_keeps_what_it_kept(tmp_path: Path) -> None:
    ids = [trace_id(5, number) for number in range(40)]
    replay = Replay(config(tmp_path, sampling={"traces": 0.5}))
    found = []
    for at, one in enumerate(ids):
        for part in in_parts(rag_trace(one), 3):
            found += replay.spans(spans(part), 1000.0 + at)
    found += replay.rest()
    kept = [one for one in ids if consistent_sampling.keep(bytes.fromhex(one), "", 0.5)[0]]
    assert sorted(one.request_id for one in found) == sorted(kept)
    assert {one.probability for one in found} == {0.5}
    assert 0 < len(kept) < len(ids)


def test_a_case_is_handed_out_when_its_trace_is_complete_and_not_at_the_end(tmp_path: Path) -> None:
    replay = Replay(config(tmp_path))
    assert list(replay.spans(spans(rag_trace(trace_id(6, 1))), 1000.0)) == []
    assert [one.request_id for one in replay.spans(spans(rag_trace(trace_id(6, 2))), 2000.0)] == [trace_id(6, 1)]


async def test_records_of_the_spool_are_read_by_the_rate_that_they_came_at(tmp_path: Path) -> None:
    replay = Replay(config(tmp_path))
    row = {"id": "r1", "question": "q", "contexts": ["c"], "response": "a"}
    meta = json.dumps({"rate": 1.0, "app": "shop"}).encode()
    given = Record("cases", "cases", 1000.0, json.dumps(row).encode(), meta)
    (found,) = _of_record(replay, given)
    assert (found.request_id, found.app, found.probability) == ("r1", "shop", 1.0)
    assert list(_of_record(replay, replace(given, signal="verdicts"))) == []


def test_without_a_retention_the_spool_has_nothing(tmp_path: Path) -> None:
    made = config(tmp_path)
    with pytest.raises(ConfigError, match=r"storage\.spool_retention"):
        list(of_spool(made, 0.0, Replay(made)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give files, or --from, or --missed"),
        (["a.jsonl", "--missed"], "give files, or --from, or --missed"),
        (["--from", "disk", "--evaluator", "relevance"], "is neither `kafka` nor `spool`"),
        (["--from", "kafka", "--evaluator", "relevance"], "say from when on to read"),
        (["--from", "spool"], "say who is to judge"),
        (["--missed", "--detach", "--here"], "goes not together with --here"),
    ],
)
def test_a_command_that_says_too_little_or_too_much_is_refused(arguments: list[str], message: str) -> None:
    ended = command("backfill", *arguments)
    assert ended.exit_code == 2
    assert message in " ".join(ended.stderr.replace("│", " ").split())


def test_what_it_costs_at_most_is_said_for_each_evaluator(tmp_path: Path) -> None:
    judge = {"model": "openai/scripted", "api_base": "http://127.0.0.1:9/v1", "api_key": "none"}
    price = {"input_per_million": 1000.0, "output_per_million": 0.0}
    evaluators = [{"type": "overlap_groundedness"}, {"type": "relevance"}]
    made = config(tmp_path, judge={**judge, "price": price}, evaluators=evaluators)
    items = [
        Item(case=case(number), evaluator=name, version="v", origin=Origin.FILE)
        for number in range(3)
        for name in ("overlap_groundedness", "relevance")
    ]
    local, judged = backfill_price.lines(made, items)
    assert local == "  overlap_groundedness: 3 judgements, for nothing"
    assert "relevance: 3 judgements, $" in judged
    assert judged.endswith(" at most")
