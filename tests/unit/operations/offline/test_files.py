"""Captures in files are read as the running monitor reads what it receives."""

from __future__ import annotations

from pathlib import Path

from monitor.model.case import ReadingStatus
from monitor.operations.offline.files import CaseFiles
from tests.support.kafka_traces import rag_trace, trace_id


def test_a_trace_of_which_a_span_cannot_be_read_is_incomplete(tmp_path: Path) -> None:
    request = rag_trace(trace_id(1, 1))
    spans = request.resource_spans[0].scope_spans[0].spans
    next(span for span in spans if span.name == "retrieve").name = "BROKEN"
    (tmp_path / "1.pb").write_bytes(request.SerializeToString().replace(b"BROKEN", b"\xed\xa0\xbdKEN"))
    (tmp_path / "2.pb").write_bytes(rag_trace(trace_id(1, 2)).SerializeToString())
    found = [(one.status, one.error) for one in CaseFiles([tmp_path]).readings()]
    assert found == [
        (ReadingStatus.INCOMPLETE, "the monitor refused 1 span that cannot be read"),
        (ReadingStatus.READY, ""),
    ]
