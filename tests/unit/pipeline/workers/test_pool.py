"""What crosses the pipe between the monitor and a worker is the same on the other side."""

from __future__ import annotations

import io
import pickle

import pytest

from monitor import registry
from monitor.clock import SystemClock
from monitor.config import parse_text
from monitor.errors import ConfigError
from monitor.extraction.settings import ExtractionSettings
from monitor.model.ack import Ack
from monitor.model.trace import Closed
from monitor.pipeline.assembly import ClosedTrace
from monitor.pipeline.complete import WholeTrace
from monitor.pipeline.local_evaluation import LocalReader, RequestsRead
from monitor.pipeline.workers.pool import WorkerPool, read_answer
from monitor.pipeline.workers.process import LENGTH, frame
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import RedactionSettings, Redactor
from monitor.stages import Evaluator
from tests.support.evaluators import configured
from tests.support.runtime import runtime
from tests.support.traces import SETUPS, captured_parts

TYPES = ("overlap_groundedness", "injection_pattern", "pii_leak", "refusal_pattern", "retrieval_overlap")
LOCAL = [registry.read("evaluators", {"type": name}, Evaluator, "evaluators") for name in TYPES]
REDACTOR = Redactor(RedactionSettings(enabled=True), UserKey(b"k" * 32), None)


def content(framed: bytes) -> bytes:
    assert LENGTH.unpack_from(framed)[0] == len(framed) - LENGTH.size
    return framed[LENGTH.size :]


@pytest.mark.parametrize("setup", SETUPS)
def test_a_recorded_trace_comes_back_from_a_worker_as_it_is_read_here(setup: str) -> None:
    evaluators = [configured(one) for one in LOCAL]
    reader = LocalReader(registry.conventions(), ExtractionSettings(), evaluators, redactor=REDACTOR)
    theirs: LocalReader = pickle.loads(content(frame(reader)))
    for trace_id, parts in list(captured_parts(setup).items())[:3]:
        ack = Ack(lambda: None)
        trace = WholeTrace.of(
            ClosedTrace(trace_id, tuple(parts), Closed.ROOT_ENDED, "shop", "otlp_http", 0.5, (ack,), 1.0)
        )
        here = reader.read(trace)
        there = theirs.read(pickle.loads(content(frame(trace.without_acks()))))
        back = read_answer(content(frame(there)))
        assert isinstance(here, RequestsRead)
        assert isinstance(back, RequestsRead)
        assert back.found == here.found
        for one, other in zip(back.local, here.local, strict=True):
            assert (one.seen, one.masked, one.redacted) == (other.seen, other.masked, other.redacted)
            assert {name: found.outcome for name, found in one.outcomes.items()} == {
                name: found.outcome for name, found in other.outcomes.items()
            }


def test_an_answer_can_bring_only_values_of_ours() -> None:
    for strange in (print, SystemClock(), {"deep": [io.BytesIO(b"x")]}):
        with pytest.raises(pickle.UnpicklingError):
            read_answer(content(frame(strange)))


def test_what_cannot_be_sent_to_a_worker_is_refused_before_the_start() -> None:
    class OnlyHere(type(LOCAL[0])):  # type: ignore[misc]
        """An evaluator of a class that no other process finds."""

    reader = LocalReader(registry.conventions(), ExtractionSettings(), [configured(OnlyHere())])
    with pytest.raises(
        Exception, match=r"scoring\.processes: a plug-in cannot be sent to a worker process .* set it to 0"
    ):
        WorkerPool(reader, 1, time_limit=1.0, runtime=runtime())


@pytest.mark.parametrize("text", ["scoring: {processes: -1}", "scoring: {processes: many}", "scoring: {time_limit: 0}"])
def test_a_number_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"scoring\.(processes|time_limit)"):
        parse_text(text)


def test_auto_leaves_a_core_to_the_receivers_and_has_at_least_one_worker() -> None:
    assert parse_text("scoring: {processes: auto}").scoring.number >= 1
    assert parse_text("scoring: {processes: 3}").scoring.number == 3
