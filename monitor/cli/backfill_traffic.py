"""Past traffic for `rag-monitor backfill`: files, the spool's retention, topics of Kafka; read as production reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

from monitor import compose, registry, rows
from monitor.assembly import Assembly
from monitor.cli import recorded
from monitor.config import Config
from monitor.errors import ConfigError, InvalidData, TooLarge
from monitor.model.case import Case, Reading
from monitor.model.row import Row
from monitor.model.span import SpanBatch
from monitor.model.trace import Closed
from monitor.otlp import wire
from monitor.pipeline.in_flight import Complete, WholeRow, WholeTrace
from monitor.pipeline.ingest.head import HeadSampling
from monitor.pipeline.ledger import Fate
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling
from monitor.storage.spool import retained
from monitor.storage.spool.format import Record


class OfFiles(NamedTuple):
    """The cases in files, and how many files and rows could not be read."""

    cases: list[Case]
    unreadable: int


def of_files(config: Config, paths: Sequence[Path], notes: TextIO) -> OfFiles:
    """Every trace and row of files, through head sampling and the rules of `traffic`."""
    found = recorded.of_files(config, paths, notes)
    return OfFiles([case for case, _ in found.cases], found.unreadable)


class Replay:
    """The way from deliveries to cases once more: head sampling, assembly, dialects, the rules of `traffic`.

    Time is that at which the deliveries came, in wall-clock seconds; it never goes back.
    """

    def __init__(self, config: Config) -> None:
        conventions = registry.conventions()
        self._rate = config.sampling.traces
        self._read_trace = partial(compose.read, conventions=conventions, settings=config.extraction)
        self._rules = TrafficRules(config.traffic, config.sampling.salt, Runtime.standalone())
        self._assembly = Assembly(config.assembly)
        marks = {mark for convention in conventions for mark in convention.record_marks}
        self._head = HeadSampling(self._assembly.is_open, self._assembly.intern, marks)
        self._now = 0.0
        self.unreadable = 0
        """How many deliveries and requests could not be read."""

    def spans(self, batch: SpanBatch, at: float, rate: float | None = None) -> Iterator[Case]:
        """Take a delivery of spans or log records that came at `at`; the cases that are complete by then.

        `rate` is that of head sampling, by default the configured one.
        """
        self._now = max(self._now, at)
        yield from self._closed()
        found = self._head.sort(batch, self._rate if rate is None else rate)
        for trace_id, kept in found.kept.items():
            if kept.parts:
                self._assembly.add(
                    trace_id,
                    kept.parts,
                    app=kept.app,
                    source=batch.source,
                    probability=kept.probability,
                    receipt=None,
                    now=self._now,
                    received_at=at,
                )

    def rows(self, found: Sequence[Row], source: str, at: float, rate: float | None = None) -> Iterator[Case]:
        """Take a delivery of rows that came at `at`: their cases."""
        rate = self._rate if rate is None else rate
        for row in found:
            if consistent_sampling.keep(consistent_sampling.sampling_id(row.request_id), "", rate)[0]:
                yield from self._case(WholeRow(row.app, source, (), at, rate, row))

    def rest(self) -> Iterator[Case]:
        """The cases of what is still open: nothing more will come."""
        for closed in self._assembly.close_all(Closed.IDLE, self._now):
            yield from self._case(WholeTrace.of(closed))

    def _closed(self) -> Iterator[Case]:
        for closed in self._assembly.due(self._now):
            yield from self._case(WholeTrace.of(closed))

    def _case(self, complete: Complete) -> Iterator[Case]:
        try:
            reading: Reading | Fate = self._rules.sort(complete.read(self._read_trace))
        except TooLarge:
            return
        except Exception:  # noqa: BLE001 - one request that cannot be read must not stop the others
            self.unreadable += 1
            return
        if isinstance(reading, Reading) and reading.status.judgeable:
            yield reading.case


def of_spool(config: Config, since: float, replay: Replay) -> Iterator[Case]:
    """The cases of what the spool keeps, since then or from the beginning. Raises `ConfigError` where it keeps none."""
    path = config.storage.path / retained.NAME
    if not path.exists():
        raise ConfigError(
            f"--from spool: there is no {path}: `storage.spool_retention` is how long deliveries are kept"
        )
    before = config.assembly.max_age  # a request that ended at `since` may have begun to come so long ago
    for record in retained.read(path, since - before):
        try:
            yield from _of_record(replay, record)
        except InvalidData:
            replay.unreadable += 1
    yield from replay.rest()


def _of_record(replay: Replay, record: Record) -> Iterator[Case]:
    """Raises `InvalidData` where the record is not what was written."""
    if record.signal == "verdicts":
        return
    try:
        meta = json.loads(record.meta)
        rate = float(meta["rate"])
    except (ValueError, KeyError, TypeError):
        raise InvalidData("the record does not say how it was sampled") from None
    if record.signal == "cases":
        taken = rows.take(record.payload, app=str(meta.get("app", "")))
        yield from replay.rows(taken.rows, record.source, record.received_at, rate)
    else:
        batch = SpanBatch(record.source, record.signal, wire.split(record.payload))
        yield from replay.spans(batch, record.received_at, rate)
