"""Head sampling: decides by a hash of the trace id which traces of a batch are kept, before anything is decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, NoReturn

from monitor.errors import InvalidData
from monitor.extraction.feedback import telemetry
from monitor.model.case import app_name
from monitor.model.external import ExternalScore
from monitor.model.span import EncodedGroup, Part, Signal, SpanBatch
from monitor.statistics import consistent_sampling
from monitor.telemetry.metrics import UNKNOWN_APP
from monitor.transport.otlp import decode, wire

SELF = "rag-monitor"
"""Our own service name: telemetry with it is never judged."""

_SCORE_MARK = b"gen_ai.evaluation."
"""A log record that contains this may be an external score, unless it is one of our own coming back."""


class Kept(NamedTuple):
    """The parts of one trace in one batch."""

    parts: list[Part]
    app: str
    probability: float


class RefusedOf(NamedTuple):
    """The refused parts of one trace in one batch: their numbers, by signal and reason."""

    app: str
    probability: float
    parts: dict[tuple[Signal, str], int]


class Sorted(NamedTuple):
    """A batch after head sampling: the traces that are kept, sampled out (`dropped`) and our `own`, by trace id.

    `external_scores` are scores in log records. They count even if their trace is dropped, and `groups` contains them
    too. `refused` counts the missing parts of kept traces, by trace id.
    """

    groups: list[EncodedGroup]
    kept: dict[bytes, Kept]
    dropped: dict[bytes, str]
    own: dict[bytes, str]
    unidentified: dict[str, int]
    counts: dict[str, int]
    fault: str
    external_scores: list[ExternalScore]
    refused: dict[bytes, RefusedOf]


def to_meta(rate: float, refused: Mapping[bytes, RefusedOf]) -> bytes:
    """Encode the metadata of a delivery in the spool."""
    parts = [
        [trace_id.hex(), one.app, one.probability, [[*key, number] for key, number in one.parts.items()]]
        for trace_id, one in refused.items()
    ]
    return json.dumps({"rate": rate, **({"refused": parts} if parts else {})}).encode()


def from_meta(meta: bytes) -> tuple[float, dict[bytes, RefusedOf]]:
    """Decode the output of `to_meta`. Raises `InvalidData`."""
    try:
        found = json.loads(meta)
        refused = {
            bytes.fromhex(trace_id): RefusedOf(
                app, probability, {(signal, why): number for signal, why, number in parts}
            )
            for trace_id, app, probability, parts in found.get("refused", ())
        }
        return float(found["rate"]), refused
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidData("the record has no sampling probability") from None


class _Sender(NamedTuple):
    """The sender of a group.

    `tells`: all log records of its scope belong to a dialect. `fault` is why its items cannot be read.
    """

    app: str
    is_self: bool
    tells: bool
    fault: str


_SENDERS_BYTES: Final = 4 * 1024**2
_SENDER: Final = 500
"""Bytes of a remembered sender besides its encoded resource and scope."""


class HeadSampling:
    """Sorts batches into parts that are kept and parts that are not. Stores nothing itself except the senders.

    `is_open` returns whether a trace is open: its log records are then kept too. `shared` returns the open traces' copy
    of an encoded resource or scope, if there is one. A log record without any of `record_marks` is an ordinary
    application log, which is of no use here.
    """

    def __init__(
        self, is_open: Callable[[bytes], bool], shared: Callable[[bytes], bytes], record_marks: Iterable[bytes]
    ) -> None:
        self._is_open = is_open
        self._shared = shared
        self._record_marks = tuple(record_marks)
        self._senders: decode.SizedCache[tuple[bytes, bytes], _Sender] = decode.SizedCache(_SENDERS_BYTES)
        self._service: tuple[bytes, str, str] = (b"", "", "")
        self._origins = decode.Origins()

    def sort(self, batch: SpanBatch, rate: float) -> Sorted:
        """Decide for each trace of `batch` at `rate` (0 to 1), and fully check the parts that are kept."""
        found = Sorted([], {}, {}, {}, {}, {}, "", [], {})
        sort = self._sort_spans if batch.signal == "traces" else self._sort_records
        fault = ""
        for group in batch.groups:
            service = self._sender(group.resource, group.scope)
            if service.is_self:
                self._sort_self(batch.signal, group, service.app, found)
            else:
                fault = sort(group, service, rate, found) or fault
        if batch.refused:
            self._sort_refused(batch, rate, found)
        if batch.signal == "logs":
            self._origins = decode.Origins()  # the old one may be large
        return found._replace(fault=fault) if fault else found

    def _sort_spans(self, group: EncodedGroup, service: _Sender, rate: float, found: Sorted) -> str:
        items, app = group.items, service.app
        resource, scope = self._shared(group.resource), self._shared(group.scope)
        part_of = partial(_refuse, service.fault) if service.fault else wire.span_part
        kept, dropped, counts = found.kept, found.dropped, found.counts
        mine: list[bytes] = []
        fault = ""
        sampled_out = 0
        last = b"\x00"  # how spans of the last dropped trace begin: spans of a trace mostly follow one another
        lowest_kept, plain_trace_id_of = consistent_sampling.lowest_kept(rate), wire.plain_trace_id_of
        for item in items:
            if item.startswith(last):
                sampled_out += 1
                continue
            trace_id = plain_trace_id_of(item)
            quickly = trace_id and trace_id[-7:] < lowest_kept and trace_id not in kept
            trace_id = trace_id or wire.trace_id_of(item)
            if quickly or trace_id in dropped:
                dropped.setdefault(trace_id, app)
                sampled_out += 1
                last = wire.beginning(trace_id)
                continue
            if not trace_id:
                fault = "a trace id must be 16 bytes and not all zero"
                counts["invalid"] = counts.get("invalid", 0) + 1
                found.unidentified[app] = found.unidentified.get(app, 0) + 1
                continue
            entry = kept.get(trace_id)
            if entry is None:
                chosen, probability = consistent_sampling.keep(trace_id, wire.trace_state_of(item), rate)
                if not chosen:
                    dropped[trace_id] = app
                    sampled_out += 1
                    last = wire.beginning(trace_id)
                    continue
                entry = kept[trace_id] = Kept([], app, probability)
            try:
                entry.parts.append(part_of(item, resource, scope))
            except InvalidData as error:
                fault = str(error)
                counts["invalid"] = counts.get("invalid", 0) + 1
                _note(trace_id, "traces", wire.UNREADABLE, app, entry.probability, found)
                continue
            mine.append(item)
        if sampled_out:
            counts["sampled_out"] = counts.get("sampled_out", 0) + sampled_out
        if mine:
            found.groups.append(EncodedGroup(resource, scope, mine))
        return fault

    def _sort_records(self, group: EncodedGroup, service: _Sender, rate: float, found: Sorted) -> str:
        items = group.items
        resource, scope = self._shared(group.resource), self._shared(group.scope)
        part_of = partial(_refuse, service.fault) if service.fault else wire.record_part
        counts = found.counts
        mine: list[bytes] = []
        fault = ""
        for item in items:
            outcome = "kept"
            if _SCORE_MARK in item:
                outcome = self._external_score(item, resource, scope, found)
            elif not (service.tells or any(mark in item for mark in self._record_marks)):
                outcome = "unrelated"
            else:
                try:
                    trace_id, part = part_of(item, resource, scope)
                except InvalidData as error:
                    fault, outcome = str(error), "invalid"
                    self._refuse("logs", item, service.app, rate, found, wire.UNREADABLE)
                else:
                    outcome = self._keep_record(trace_id, part, service.app, rate, found)
            if outcome in ("kept", "external_score"):
                mine.append(item)
            if outcome != "kept":
                counts[outcome] = counts.get(outcome, 0) + 1
        if mine:
            found.groups.append(EncodedGroup(resource, scope, mine))
        return fault

    def _external_score(self, item: bytes, resource: bytes, scope: bytes, found: Sorted) -> str:
        """Read an external score from a log record. Its trace need not be kept, and may be closed already."""
        try:
            score = telemetry.of_record(decode.record(*wire.record_part(item, resource, scope), self._origins))
        except InvalidData:
            return "unrelated"
        if score is None:
            return "unrelated"
        found.external_scores.append(score)
        return "external_score"

    def _keep_record(self, trace_id: bytes, part: Part, app: str, rate: float, found: Sorted) -> str:
        """Keep or drop a record. It has no tracestate: it is kept if its trace is open, else the hash decides."""
        if not trace_id:
            return "unrelated"
        chosen, _ = consistent_sampling.keep(trace_id, "", rate)
        if not (chosen or self._is_open(trace_id)):
            return "sampled_out"
        entry = found.kept.get(trace_id)
        if entry is None:
            entry = found.kept[trace_id] = Kept([], app, 1.0 if rate == 0 else rate)
        entry.parts.append(part)
        return "kept"

    def _sort_refused(self, batch: SpanBatch, rate: float, found: Sorted) -> None:
        """Record which kept traces are missing parts that their source has refused."""
        for resource, scope, items, why in batch.refused:
            service = self._sender(resource, scope)
            if service.is_self:
                continue
            for item in items:
                if batch.signal == "traces" or (
                    _SCORE_MARK not in item and (service.tells or any(mark in item for mark in self._record_marks))
                ):
                    self._refuse(batch.signal, item, service.app, rate, found, why)

    def _refuse(self, signal: Signal, item: bytes, app: str, rate: float, found: Sorted, why: str) -> None:  # noqa: PLR0917
        """Record that a span or log record is missing from its trace, if that is kept. Only its ids are decoded."""
        trace_id, state = wire.ids_of_refused(signal, item)
        if not trace_id or trace_id in found.dropped:
            return
        entry = found.kept.get(trace_id)
        if entry is not None:
            _note(trace_id, signal, why, entry.app, entry.probability, found)
            return
        chosen, probability = consistent_sampling.keep(trace_id, state, rate)
        if signal == "logs":  # see `_keep_record`
            chosen, probability = chosen or self._is_open(trace_id), 1.0 if rate == 0 else rate
        if chosen:
            _note(trace_id, signal, why, app, probability, found)

    def _sort_self(self, signal: Signal, group: EncodedGroup, app: str, found: Sorted) -> None:
        found.counts["own_telemetry"] = found.counts.get("own_telemetry", 0) + len(group.items)
        if signal == "traces":
            for item in group.items:
                trace_id = wire.trace_id_of(item)
                if trace_id:
                    found.own[trace_id] = app

    def _sender(self, resource: bytes, scope: bytes) -> _Sender:
        """Return the sender of a group; small senders are remembered, because the same ones return again and again."""
        known = self._senders.get((resource, scope))
        if known is None:
            if self._service[0] is not resource:  # the scopes of a large resource follow one another
                self._service = (resource, decode.service_name(resource), decode.resource_fault(resource))
            _, service, fault = self._service
            app = app_name(service) or UNKNOWN_APP
            tells = any(mark in scope for mark in self._record_marks)
            made = _Sender(app, service == SELF or SELF.encode() in scope, tells, fault or decode.scope_fault(scope))
            size = _SENDER + len(resource) + len(scope) + len(app)
            known = self._senders.put((resource, scope), made, size)
        return known


def _refuse(fault: str, _item: bytes, _resource: bytes, _scope: bytes) -> NoReturn:
    raise InvalidData(fault)


def _note(trace_id: bytes, signal: Signal, why: str, app: str, probability: float, found: Sorted) -> None:  # noqa: PLR0917
    refused = found.refused.setdefault(trace_id, RefusedOf(app, probability, {}))
    refused.parts[signal, why] = refused.parts.get((signal, why), 0) + 1
