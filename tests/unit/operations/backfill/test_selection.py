"""What is backfilled: the draw of production, the same way from delivery to case, and nothing scored twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Score
from monitor.model.span import SpanBatch
from monitor.operations.backfill.run import BackfillClient, EvaluatorCost
from monitor.operations.backfill.selection import BackfillRequest, EvaluationSelector
from monitor.operations.backfill.traffic import Replay, _of_message, _of_record, from_spool
from monitor.pipeline.ingest.head import RefusedOf, to_meta
from monitor.pipeline.sampling import CaseSampler
from monitor.privacy.erasure import Mark, add
from monitor.sinks.history import HistorySink
from monitor.sources.kafka import KafkaSource
from monitor.storage.spool import SpoolRecord
from monitor.transport.otlp import wire
from tests.support.command import command, write_rows
from tests.support.kafka_source import Record
from tests.support.kafka_traces import in_parts, rag_trace, trace_id
from tests.support.runtime import runtime

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


def selection(
    folder: Path, *evaluators: str, source: BackfillOrigin = BackfillOrigin.FILE, **more: Any
) -> EvaluationSelector:
    request = BackfillRequest(source=source, evaluators=evaluators, **more)
    return EvaluationSelector(config(folder), request, ManualClock(NOW))


def ids(items: Iterable[Item]) -> list[str]:
    return [one.case.request_id for one in items]


def by_hash(cases: Iterable[Case], share: float) -> list[str]:
    """The ids whose hash, as a fraction of 2^56, is below `share`: worked out here, not by the product."""

    def fraction(request_id: str) -> float:
        return int.from_bytes(blake2b(request_id.encode(), key=b"rag-monitor", digest_size=7).digest()) / 2**56

    return [one.request_id for one in cases if fraction(one.request_id) < share]


async def test_the_same_answers_are_selected_as_the_running_monitor_would_select(tmp_path: Path) -> None:
    cases = [case(number) for number in range(200)]
    items = await selection(tmp_path, "relevance").of_cases([*cases, *cases])
    given = config(tmp_path)
    (relevance,) = [one for one in given.configured_evaluators if one.evaluator.name == "relevance"]
    live = CaseSampler(
        [relevance], versions={"relevance": "1"}, draws=None, runtime=runtime(), salt=given.sampling.salt
    )
    assert [one.request_id for one in cases if live.draw(relevance, one, {}) is not None] == by_hash(cases, 0.3)
    assert ids(items) == by_hash(cases, 0.3)
    assert 30 < len(items) < 90
    assert {(one.probability, one.origin) for one in items} == {(0.3, BackfillOrigin.FILE)}


async def test_a_requested_share_replaces_the_evaluators_own(tmp_path: Path) -> None:
    made = selection(tmp_path, "relevance", "groundedness", share=1.0)
    items = await made.of_cases([case(1), case(2)])
    assert [(one.case.request_id, one.evaluator) for one in items] == [
        (f"case-{number}", name) for number in (1, 2) for name in ("relevance", "groundedness")
    ]


@pytest.mark.parametrize(
    ("evaluators", "message"),
    [
        (["groundedness"], "sample: required for groundedness"),
        (["no_such"], "'no_such' is not active in this configuration; active are: groundedness, relevance"),
        ([], "evaluators: name at least one"),
    ],
)
def test_a_request_that_cannot_be_fulfilled_is_refused_with_a_reason(
    tmp_path: Path, evaluators: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        selection(tmp_path, *evaluators)
    assert message in str(refused.value)


def test_a_configuration_that_turns_backfill_off_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backfill\.retention"):
        BackfillClient(config(tmp_path, backfill={"retention": "0s"}))


async def test_only_answers_of_that_time_and_app_count(tmp_path: Path) -> None:
    made = selection(tmp_path, "relevance", share=1.0, app="shop", since=1002.0, until=1003.0)
    cases = [*(case(number) for number in range(6)), replace(case(7), app="other", answered_at=1002.5)]
    items = await made.of_cases([*cases, replace(case(8), answered_at=0.0)])
    assert ids(items) == ["case-2", "case-3"]
    assert (made.counts.read, made.counts.matching) == (8, 2)


async def test_what_is_scored_or_to_be_forgotten_is_left_out(tmp_path: Path) -> None:
    version = selection(tmp_path, "relevance").versions["relevance"]
    judged = EvaluationResult(
        case=case(1), evaluator="relevance", version=version, outcome=Score(5, "x"), weight=1, evaluated_at=NOW
    )
    async with HistorySink(path=tmp_path / "history.db").open(runtime()) as deliver:
        await deliver([judged])
    add(tmp_path, [Mark(10.0, trace="case-2")], since=0.0)
    made = selection(tmp_path, "relevance", share=1.0)
    items = await made.of_cases([case(1), case(2), case(3)])
    assert ids(items) == ["case-3"]
    assert made.counts.scored == 1


async def test_a_share_of_the_missed_lowers_the_probability_that_they_had(tmp_path: Path) -> None:
    cases = [case(number) for number in range(300)]
    half, fifth = by_hash(cases, 0.5), by_hash(cases, 0.2)
    assert ids(await selection(tmp_path, "relevance", share=0.5).of_cases(cases)) == half
    items = [
        Item(case=one, evaluator="relevance", version="v", origin=BackfillOrigin.MISSED, probability=0.5, target=0.5)
        for one in cases
        if one.request_id in half
    ]
    found = list(selection(tmp_path, source=BackfillOrigin.MISSED, share=0.4).of_missed(items))
    assert ids(found) == fifth
    assert set(fifth) < set(half)
    assert {one.probability for one in found} == {0.2}
    assert len(list(selection(tmp_path, source=BackfillOrigin.MISSED).of_missed(items))) == len(items)


async def test_texts_are_masked_as_in_production(tmp_path: Path) -> None:
    made = config(tmp_path, redaction={"enabled": True})
    request = BackfillRequest(source=BackfillOrigin.FILE, evaluators=("relevance",), share=1.0)
    given = replace(case(1), response="Write to jane.doe@gmail.com.", user_id="jane")
    (item,) = await EvaluationSelector(made, request, ManualClock(NOW)).of_cases([given])
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
    kept = [one for one in ids if int(one[-14:], 16) >= 2**55]  # the upper half of the 56 random bits
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
    given = SpoolRecord("cases", "cases", 1000.0, json.dumps(row).encode(), meta)
    (found,) = _of_record(replay, given)
    assert (found.request_id, found.app, found.probability) == ("r1", "shop", 1.0)
    assert list(_of_record(replay, replace(given, signal="feedback"))) == []


def test_a_trace_of_which_a_part_was_refused_when_it_came_is_no_case(tmp_path: Path) -> None:
    replay, (one, other) = Replay(config(tmp_path)), [trace_id(7, number) for number in range(2)]
    meta = to_meta(1.0, {bytes.fromhex(one): RefusedOf("shop", 1.0, {("traces", "that cannot be read"): 1})})
    for name, said in ((one, meta), (other, to_meta(1.0, {}))):
        record = SpoolRecord("otlp_http", "traces", 1000.0, rag_trace(name).SerializeToString(), said)
        assert list(_of_record(replay, record)) == []
    assert [case.request_id for case in replay.rest()] == [other]


def test_a_trace_with_a_span_larger_than_the_source_takes_is_no_case(tmp_path: Path) -> None:
    source = KafkaSource.model_validate({"brokers": ["b:1"], "topics": {"t": "otlp_proto"}, "max_span_bytes": "1MB"})
    replay, (one, other) = Replay(config(tmp_path)), [trace_id(8, number) for number in range(2)]
    for name, padding in ((one, 1_000_000), (other, 1_000)):
        body = rag_trace(name, padding=padding).SerializeToString()
        assert list(_of_message(source, Record("t", 0, 0, body), replay)) == []
    assert [case.request_id for case in replay.rest()] == [other]


def test_without_a_retention_the_spool_has_nothing(tmp_path: Path) -> None:
    made = config(tmp_path)
    with pytest.raises(ConfigError, match=r"storage\.spool_retention"):
        list(from_spool(tmp_path, 0.0, Replay(made)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give files, or --from, or --missed"),
        (["a.jsonl", "--missed"], "give files, or --from, or --missed"),
        (["--here", "--dry-run"], "give files, or --from, or --missed"),
        (["--from", "disk", "--evaluators", "relevance"], "is neither `kafka` nor `spool`"),
        (["--from", "kafka", "--evaluators", "relevance"], "kafka requires --since"),
        (["--from", "spool"], "is required, except with --missed"),
        (["--missed", "--detach", "--here"], "cannot be used with --here"),
    ],
)
def test_a_command_that_says_too_little_or_too_much_is_refused(arguments: list[str], message: str) -> None:
    ended = command("backfill", *arguments)
    assert ended.exit_code == 2
    assert message in " ".join(ended.stderr.replace("│", " ").split())


async def test_an_estimate_tells_for_each_evaluator_what_it_costs_at_most(tmp_path: Path) -> None:
    judge = {"model": "openai/scripted", "api_base": "http://127.0.0.1:9/v1", "api_key": "none"}
    price = {"input_per_million": 1000.0, "output_per_million": 0.0}
    evaluators = [{"type": "overlap_groundedness"}, {"type": "relevance"}]
    made = config(tmp_path, judge={**judge, "price": price}, evaluators=evaluators)
    row = {"question": "How long?", "contexts": ["Three weeks."], "response": "Three weeks."}
    rows = write_rows(tmp_path / "rows.jsonl", [{"id": f"case-{number}", **row} for number in range(3)])
    request = BackfillRequest(
        source=BackfillOrigin.FILE, paths=(rows,), evaluators=("overlap_groundedness", "relevance"), share=1.0
    )
    with BackfillClient(made) as client:
        found = await client.estimate(request)
    local, judged = found.costs
    assert local == EvaluatorCost("overlap_groundedness", 3, 0.0)
    assert (judged.evaluator, judged.evaluations, found.evaluations) == ("relevance", 3, 6)
    assert judged.dollars is not None
    assert 0 < judged.dollars < 30


async def test_queued_evaluations_are_made_in_this_process_and_need_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = config(tmp_path, evaluators=[{"type": "overlap_groundedness"}])
    row = {"id": "case-1", "question": "How long?", "contexts": ["Three weeks."], "response": "Three weeks."}
    rows = write_rows(tmp_path / "rows.jsonl", [row, {"foo": 1}])
    request = BackfillRequest(source=BackfillOrigin.FILE, paths=(rows,), evaluators=("overlap_groundedness",))
    problems: list[str] = []
    with BackfillClient(made) as client:
        queued = await client.enqueue(request, report=problems.append)
        assert (queued.new, queued.counts.unreadable, len(problems)) == (1, 1, 1)
        assert not client.has_worker
        first, again = await client.work(queued.batch), await client.enqueue(request)
    assert (first.done, first.waiting) == ({"passed": 1}, 0)
    assert (again.new, again.scored) == (0, 1)
    assert capsys.readouterr() == ("", "")
