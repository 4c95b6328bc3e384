"""Past traffic as cases, from files, retained spool deliveries or Kafka topics, read as the pipeline reads it live."""

from __future__ import annotations

import heapq
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from monitor import registry
from monitor.config import Config
from monitor.errors import ConfigError, InvalidData, TooLarge
from monitor.extraction import compose, rows
from monitor.model.case import Case, Reading, ReadingStatus
from monitor.model.row import SOURCE, Row
from monitor.model.span import SpanBatch
from monitor.model.trace import Closed
from monitor.operations.backfill import topics
from monitor.operations.offline.files import CaseFiles
from monitor.operations.offline.live_rules import LiveRules
from monitor.operations.progress import Report
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.complete import Complete, WholeRow, WholeTrace
from monitor.pipeline.ingest.head import HeadSampling, from_meta
from monitor.pipeline.ledger import RequestOutcome
from monitor.sources.kafka import KafkaSource
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.storage.spool import retained
from monitor.storage.spool.table import SpoolRecord
from monitor.transport.otlp import json_mapping, limits, wire

_MARGIN: Final = 60.0
"""Seconds after the requested time in which the rest of a request may arrive."""


class Replay:
    """Sends past deliveries again through head sampling, assembly, dialects and the rules of `traffic`.

    Times are those at which deliveries arrived, in wall-clock seconds; time never goes backwards.
    """

    def __init__(self, config: Config) -> None:
        conventions = registry.conventions()
        self._rate = config.sampling.traces
        self._settings = config.extraction
        self._read_trace = partial(compose.read, conventions=conventions, settings=config.extraction)
        self._rules = LiveRules(config)
        self._assembly = Assembly(config.assembly)
        marks = {mark for convention in conventions for mark in convention.record_marks}
        self._head = HeadSampling(self._assembly.is_open, self._assembly.shared, marks)
        self._now = 0.0
        self.max_age = config.assembly.max_age
        """Seconds that a request may take, and so the time by which its first spans may precede its end."""
        self.unreadable = 0
        """How many deliveries, files, rows and requests could not be read."""

    def spans(
        self, batch: SpanBatch, at: float, meta: bytes | None = None, *, reached: float | None = None
    ) -> Iterator[Case]:
        """Take a delivery of spans or log records that arrived at `at`; yield the cases that are complete by then.

        `meta` is stored with it in the spool and says how it was sampled; without it, the configured rate applies.
        Everything before `reached`, in wall-clock seconds, has been taken; without it, before `at`. Raises
        `InvalidData` if `meta` does not say how the delivery was sampled.
        """
        rate, refused = (self._rate, {}) if meta is None else from_meta(meta)
        self._now = max(self._now, at if reached is None else reached)
        for closed in self._assembly.due(self._now):
            yield from self._cases(WholeTrace.of(closed))
        found = self._head.sort(batch, rate)
        common: Any = {"source": batch.source, "ack": None, "now": max(self._now, at), "received_at": at}
        for trace_id, missing in {**found.refused, **refused}.items():
            self._assembly.refuse(trace_id, missing.parts, app=missing.app, probability=missing.probability, **common)
        for trace_id, kept in found.kept.items():
            if kept.parts:
                self._assembly.add(trace_id, kept.parts, app=kept.app, probability=kept.probability, **common)

    def rows(self, found: Sequence[Row], source: str, at: float, rate: float | None = None) -> Iterator[Case]:
        """Take a delivery of rows that arrived at `at`; yield their cases."""
        rate = self._rate if rate is None else rate
        for row in found:
            if consistent_sampling.keep(consistent_sampling.sampling_id(row.request_id), "", rate)[0]:
                yield from self._cases(WholeRow(row.app, source, (), at, rate, row))

    def rest(self) -> Iterator[Case]:
        """Yield the cases of traces that are still open: nothing more will arrive."""
        for closed in self._assembly.close_all(Closed.IDLE, self._now):
            yield from self._cases(WholeTrace.of(closed))

    def _cases(self, complete: Complete) -> Iterator[Case]:
        try:
            found = complete.read(self._read_trace, self._settings)
            kept = [self._rules.sort(one) for one in found.readings]
        except TooLarge:
            return
        except Exception:  # noqa: BLE001 - one request that cannot be read must not stop the others
            self.unreadable += 1
            return
        yield from _evaluable(kept)


def _evaluable(kept: Sequence[Reading | RequestOutcome]) -> Iterator[Case]:
    return (one.case for one in kept if isinstance(one, Reading) and one.status is ReadingStatus.READY)


def from_files(config: Config, paths: Sequence[Path], replay: Replay, *, report: Report) -> Iterator[Case]:
    """Yield the cases in files and folders, through head sampling and the rules of `traffic`."""
    found, rules = CaseFiles(paths, config.extraction, report=report), LiveRules(config)
    for one in found.found():
        yield from _evaluable(rules.admit(found.read(one), one.request_id, one.trace_state))
    replay.unreadable += found.unreadable


def from_spool(folder: Path, since: float, replay: Replay) -> Iterator[Case]:
    """Yield the cases of the deliveries that the spool in `folder` has retained since `since`.

    Raises `ConfigError` if it retains none.
    """
    path = folder / files.RETAINED
    if not path.exists():
        raise ConfigError(
            f"source: there is no {path}; `storage.spool_retention` is how long the spool retains deliveries"
        )
    for record in retained.read(path, since - replay.max_age):
        try:
            yield from _of_record(replay, record)
        except InvalidData:
            replay.unreadable += 1
    yield from replay.rest()


def _of_record(replay: Replay, record: SpoolRecord) -> Iterator[Case]:
    """Yield the cases of a record. Raises `InvalidData` if the record is not what was written."""
    if record.signal == "feedback":
        return
    if record.signal == "cases":
        try:
            meta = json.loads(record.meta)
            rate = float(meta["rate"])
        except (ValueError, KeyError, TypeError):
            raise InvalidData("the record does not say how it was sampled") from None
        taken = rows.take(record.payload, app=str(meta.get("app", "")))
        yield from replay.rows(taken.rows, record.source, record.received_at, rate)
    else:
        batch = SpanBatch(record.source, record.signal, wire.split(record.payload))
        yield from replay.spans(batch, record.received_at, record.meta)


def from_kafka(
    sources: Sequence[KafkaSource], since: float, until: float, replay: Replay, *, report: Report
) -> Iterator[Case]:
    """Yield the cases of all topics of `sources` from `since` to `until`, outside of the consumer group.

    Joins no group and commits no offset, so the monitors of the group do not notice. Raises `ConfigError` if there is
    no source, or if its topics cannot be read.
    """
    if not sources:
        raise ConfigError("source: no source of this configuration has the type `kafka`")
    begin, end = since - replay.max_age, until + _MARGIN
    with ExitStack() as stack:
        found = [stack.enter_context(closing(_messages(source, begin, end, report))) for source in sources]
        for reached, source, record in heapq.merge(*found, key=lambda one: one[0]):
            try:
                yield from _of_message(source, record, replay, reached)
            except InvalidData:
                replay.unreadable += 1
    yield from replay.rest()


def _messages(
    source: KafkaSource, begin: float, end: float, report: Report
) -> Generator[tuple[float, KafkaSource, Any]]:
    with closing(topics.read(source, begin, end, report=report)) as found:
        for one in found:
            yield one.reached, source, one.record


def _of_message(source: KafkaSource, record: Any, replay: Replay, reached: float | None = None) -> Iterator[Case]:
    topic, at = source.topics[record.topic], max(record.timestamp, 0) / 1000
    if record.value is None:
        return
    if topic.encoding == "case":
        taken = rows.take(record.value, app=topic.app, max_rows=source.max_spans, max_row_bytes=source.max_span_bytes)
        replay.unreadable += len(taken.faults)
        yield from replay.rows(taken.rows, SOURCE, at)
        return
    signal = topic.signal_of(record.topic)
    body = record.value
    if topic.encoding == "otlp_json":
        body = json_mapping.to_protobuf(signal, body, source.max_spans)
    groups, refused = limits.without_oversized(
        limits.cut(body, source.max_spans), source.max_span_bytes, source.max_resource_bytes
    )
    yield from replay.spans(SpanBatch("kafka", signal, groups, refused=refused), at, reached=reached)
