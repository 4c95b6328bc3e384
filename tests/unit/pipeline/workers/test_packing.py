"""What crosses the pipe between the monitor and a worker is the same on the other side."""

from __future__ import annotations

import io
import pickle
import pickletools
from dataclasses import asdict

import pytest

from monitor import registry
from monitor.clock import SystemClock
from monitor.extraction.settings import ExtractionSettings
from monitor.model.ack import Ack
from monitor.model.case import Document, ReadingStatus, Usage, trace_of
from monitor.model.outcome import Evidence, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.model.span import RefusedParts
from monitor.model.trace import Closed
from monitor.pipeline.assembly import ClosedTrace
from monitor.pipeline.complete import WholeTrace
from monitor.pipeline.local_evaluation import LocalCase, LocalOutcome, LocalReader, ReadFault, RequestsRead
from monitor.pipeline.workers.packing import LENGTH, frame, read_answer
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import RedactionSettings, Redactor
from monitor.stages import Evaluator
from tests.support.evaluators import configured
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
        there = theirs.read(pickle.loads(content(frame(trace))))
        back = read_answer(content(frame(there)))
        assert isinstance(here, RequestsRead)
        assert isinstance(back, RequestsRead)
        assert back.found == here.found
        for one, other in zip(back.local, here.local, strict=True):
            assert (one.seen, one.masked, one.redacted) == (other.seen, other.masked, other.redacted)
            assert {name: found.outcome for name, found in one.outcomes.items()} == {
                name: found.outcome for name, found in other.outcomes.items()
            }


@pytest.mark.parametrize(
    "value",
    [
        Document("text", "uri", "id", 0.5, "tool_result"),
        Usage(1, None, 3),
        Evidence("claim", "absent", 1, 6, "note"),
        Skipped(SkippedReason.REFUSAL),
        Unscored(UnscoredReason.ERROR, "ValueError", 2),
        ReadFault(fault="KeyError at reader.py:3"),
        LocalCase({"length": LocalOutcome(Skipped(SkippedReason.NO_CLAIMS), 0.1)}, redacted={"email": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_with_its_class_and_all_its_fields(value: object) -> None:
    back = read_answer(content(frame(value)))
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert back == value


def test_an_answer_can_bring_only_values_of_ours() -> None:
    for strange in (print, SystemClock(), {"deep": [io.BytesIO(b"x")]}, asdict, trace_of):
        with pytest.raises(pickle.UnpicklingError):
            read_answer(content(frame(strange)))


@pytest.mark.parametrize("name", ["re.compile", "json", "asdict", "hashlib", "Case.from_texts", "nothing"])
def test_what_our_files_import_or_define_beside_values_is_no_part_of_an_answer(name: str) -> None:
    named = b"".join(b"\x8c" + bytes([len(text)]) + text for text in (b"monitor.model.case", name.encode()))
    with pytest.raises(pickle.UnpicklingError, match="not part of an answer"):
        read_answer(b"\x80\x05" + named + b"\x93.")


def slow_parts(framed: bytes) -> set[str]:
    """What pickle has taken apart by itself: classes that it names, and values that it fills from a dictionary."""
    texts: list[str] = []
    found: set[str] = set()
    for operation, argument, _ in pickletools.genops(content(framed)):
        if operation.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            texts.append(str(argument))
        elif operation.name == "STACK_GLOBAL":
            found.add(texts[-1])
        elif operation.name == "BUILD":
            found.add("BUILD")
    return found


@pytest.mark.parametrize("setup", SETUPS)
def test_no_value_in_a_trace_or_in_what_is_read_of_it_is_packed_the_slow_way(setup: str) -> None:
    reader = LocalReader(registry.conventions(), ExtractionSettings(), [configured(one) for one in LOCAL])
    (trace_id, parts) = next(iter(captured_parts(setup).items()))
    trace = WholeTrace.of(ClosedTrace(trace_id, tuple(parts), Closed.ROOT_ENDED, "shop", "otlp_http", 0.5, (), 1.0))
    enums = {"Closed", "ReadingStatus", "ContextStatus", "Traffic", "SkippedReason", "UnscoredReason", "ScoreSource"}
    assert slow_parts(frame(trace)) | slow_parts(frame((reader.read(trace), 0.1))) <= {"unpacked", *enums}


def test_a_worker_knows_what_was_refused_of_a_trace() -> None:
    parts, refused = captured_parts(next(iter(SETUPS))), RefusedParts("traces", "that cannot be read", 1)
    trace_id, some = next(iter(parts.items()))
    closed = ClosedTrace(trace_id, tuple(some), Closed.ROOT_ENDED, "shop", "kafka", 1.0, (), 1.0, (refused,))
    there: WholeTrace = pickle.loads(content(frame(WholeTrace.of(closed))))
    found = LocalReader(registry.conventions(), ExtractionSettings(), []).read(there)
    assert isinstance(found, RequestsRead)
    assert [one.status for one in found.found.readings] == [ReadingStatus.INCOMPLETE]
