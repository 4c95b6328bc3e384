"""A request that is read ends in exactly one way, and what could end the process is read with care."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from monitor import registry
from monitor.extraction import rows
from monitor.extraction.settings import ExtractionSettings
from monitor.model.row import RowBatch
from monitor.pipeline.local_evaluation import LocalReader, ReadFault, ThisProcess, WorkerLost
from monitor.pipeline.privacy import PrivacyFilter
from monitor.pipeline.traffic import TrafficRules, TrafficSettings
from monitor.storage.spool.poison import MOST_LIVES
from monitor.telemetry.events import Event
from tests.support.evaluators import JudgedEvaluator, configured
from tests.support.ingest import trace_id
from tests.support.pipeline import Handed, pipeline
from tests.support.runtime import runtime
from tests.support.telemetry import RecordingTracer
from tests.support.tools import until

pytestmark = pytest.mark.anyio


class Scripted(ThisProcess):
    """Reads as this process does, or says or raises what it is told; counts how many it reads at once."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__(LocalReader(registry.conventions(), ExtractionSettings(), [configured(JudgedEvaluator())]))
        self.answer = answer
        self.reads: list[str] = []
        self.most = 0
        self._now = 0

    async def read(self, complete: Any, noted: Any) -> Any:
        self.reads.append(complete.request_id)
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self._now -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or await super().read(complete, noted)


class Guard:
    """Knows of some requests that processes have ended on them, and notes what it is told."""

    def __init__(self, *, suspects: bool = False, **lives: int) -> None:
        self.suspects = suspects or bool(lives)
        self.known = lives
        self.told: list[tuple[str, str]] = []

    def lives(self, request_id: str) -> int:
        return self.known.get(request_id, 0)

    @contextmanager
    def reading(self, request_id: str) -> Iterator[None]:
        self.told.append(("reading", request_id))
        yield

    def finished(self, request_id: str) -> None:
        self.told.append(("finished", request_id))

    def set_aside(self, request_id: str, content: dict[str, bytes]) -> str:
        assert content
        self.told.append(("set aside", request_id))
        return "poison/1"


def said(caplog: pytest.LogCaptureFixture, event: Event) -> list[tuple[str, dict[str, Any]]]:
    return [(one.getMessage(), vars(one)["fields"]) for one in caplog.records if vars(one).get("event") == event]


async def test_a_request_that_is_too_large_to_read_ends_as_that(tmp_path):
    async with pipeline(tmp_path, parts={"workers": Scripted(ReadFault(too_large=True))}.items()) as at:
        await at.rows("a", ack=at.ack("a"))
        await until(lambda: at.settled == ["a"])
        assert at.outcome("too_large") == at.balanced() == 1


async def test_a_request_that_cannot_be_read_is_invalid_and_logged_with_its_fault(tmp_path, caplog):
    async with pipeline(tmp_path, parts={"workers": Scripted(ReadFault(fault="KeyError at x.py:7"))}.items()) as at:
        await at.rows("a", ack=at.ack("a"))
        await until(lambda: at.settled == ["a"])
        assert at.outcome("invalid") == at.balanced() == 1
    assert [fields for _, fields in said(caplog, Event.EXTRACTION_FAILED)] == [
        {"trace_id": "a", "error": "KeyError at x.py:7"}
    ]


@pytest.mark.parametrize(
    ("lost", "said_of_it"),
    [
        (WorkerLost("hung", "x.py:7 in f"), ("its worker process took too long", {"at": "x.py:7 in f"})),
        (WorkerLost("died"), ("its worker process died", {})),
    ],
)
@pytest.mark.parametrize("guarded", [True, False])
async def test_a_request_at_which_a_worker_was_lost_is_set_aside(tmp_path, caplog, lost, said_of_it, guarded):
    guard = Guard() if guarded else None
    async with pipeline(tmp_path, parts={"workers": Scripted(lost), "guard": guard}.items()) as at:
        await at.rows("a", ack=at.ack("a"))
        await until(lambda: at.settled == ["a"])
        assert at.outcome("poison") == at.balanced() == 1
    why, place = said_of_it
    fields = {"trace_id": "a", "kept": "poison/1" if guarded else "", **place}
    assert said(caplog, Event.REQUEST_SET_ASIDE) == [(f"a request is set aside: {why}", fields)]
    assert guard is None or ("set aside", "a") in guard.told


async def test_a_request_on_which_too_many_processes_have_ended_is_not_read_again(tmp_path, caplog):
    workers, guard = Scripted(), Guard(a=MOST_LIVES, b=MOST_LIVES - 1)
    async with pipeline(tmp_path, parts={"workers": workers, "guard": guard}.items()) as at:
        at.gate.set()
        await at.rows("a", "b", ack=at.ack("both"))
        await until(lambda: at.settled == ["both"])
        assert (workers.reads, at.results) == (["b"], ["b"])
        assert (at.outcome("poison"), at.outcome("read"), at.balanced()) == (1, 1, 2)
    assert guard.told.count(("finished", "a")) == 1
    assert ("finished", "b") in guard.told, "it was read to its end"
    assert ("reading", "b") in guard.told
    ((message, _),) = said(caplog, Event.REQUEST_SET_ASIDE)
    assert message.endswith(f"{MOST_LIVES} processes have ended on it")


@pytest.mark.parametrize("suspects", [True, False, None])
async def test_while_there_are_suspects_requests_are_read_one_at_a_time(tmp_path, suspects):
    workers, guard = Scripted(), None if suspects is None else Guard(suspects=suspects)
    async with pipeline(tmp_path, parts={"workers": workers, "guard": guard}.items()) as at:
        at.gate.set()
        await at.rows("a", "b", "c", ack=at.ack("all"))
        await until(lambda: at.settled == ["all"])
    assert (workers.most == 1) == bool(suspects)


class Forgotten:
    """The marks of requests that are to be forgotten."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def holds(self, trace: str, user: str, at: float) -> bool:
        return trace in self.ids


async def test_a_request_that_is_to_be_forgotten_is_neither_evaluated_nor_kept(tmp_path):
    private = PrivacyFilter(forgotten=Forgotten("a"))
    async with pipeline(tmp_path, parts={"private": private}.items()) as at:
        at.gate.set()
        await at.rows("a", "b", ack=at.ack("both"))
        await until(lambda: at.settled == ["both"])
        assert at.results == ["b"]
        assert (at.outcome("forgotten"), at.outcome("read")) == (1, 1)


def with_attributes(name, **attributes):
    said = {"request": "Why?", "response": "So.", "retrieved_context": [{"content": "facts"}]}
    return rows.take(json.dumps([{"request_id": name, "attributes": attributes, **said}]).encode()).rows


async def test_a_request_that_the_traffic_rules_leave_out_ends_before_its_evaluation(tmp_path):
    settings = TrafficSettings.model_validate({"drop": [{"attribute": "http.route", "matches": "/internal/*"}]})
    traffic = TrafficRules(settings, "s", runtime())
    async with pipeline(tmp_path, parts={"traffic": traffic}.items()) as at:
        at.gate.set()
        found = [*with_attributes("a", **{"http.route": "/internal/x"}), *with_attributes("b", **{"http.route": "/x"})]
        await Handed.intake.accept(RowBatch("cases", found, ack=at.ack("both")))
        await until(lambda: at.settled == ["both"])
        assert at.results == ["b"]
        assert (at.request_outcome("filtered"), at.request_outcome("evaluated"), at.balanced()) == (1, 1, 2)


async def test_our_own_telemetry_tells_how_a_request_ended(tmp_path):
    tracer = RecordingTracer()
    async with pipeline(tmp_path, tracer=tracer, grace_period=0.01, idle_timeout=0.01) as at:
        at.gate.set()
        await at.rows("a", ack=at.ack("row"))
        await until(lambda: at.settled == ["row"])
        await at.spans(1, ack=at.ack("trace"), end=1)
        await until(lambda: at.settled == ["row", "trace"])
    row, trace = (one for one in tracer.works if one.name == "case" and one.ended)
    source = {"rag_monitor.app": "unknown", "rag_monitor.source": "cases"}
    assert row.facts == {**source, "rag_monitor.requests": 1, "rag_monitor.outcome": "evaluated"}
    assert trace.facts["rag_monitor.outcome"] == "no_request"
    assert (row.ended, trace.ended) == (1, 1)
    assert trace.of[0][0] == trace_id(1).hex()
