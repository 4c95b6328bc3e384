"""Remembers closed traces, so that late parts do not start a new trace and no trace is evaluated twice."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from monitor.model.span import Part

_FINGERPRINT = 8
_ENTRY = 256
"""Bytes of a remembered trace besides its fingerprints. Ids get half of the memory."""
_LEAST = 1_000
_FINGERPRINTS_AT_MOST = 512
"""The parts of larger traces are not remembered: a repeated part then counts as late instead of duplicate."""


class _Remembered(NamedTuple):
    at: float
    too_large: bool
    fingerprints: bytes


class ClosedTraces:
    """The ids of recently closed traces and of their spans: at most `count` traces, for `seconds`, in `max_bytes`."""

    def __init__(self, count: int, seconds: float, max_bytes: int) -> None:
        self._count = min(count, max(max_bytes // 2 // _ENTRY, _LEAST))
        self._seconds = seconds
        self._max_bytes = max_bytes // 2
        self._known: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._with_spans: deque[tuple[bytes, int]] = deque()
        self._bytes = 0

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._known

    def __len__(self) -> int:
        return len(self._known)

    def remember(
        self, trace_id: bytes, spans: Collection[bytes], records: Collection[bytes], *, too_large: bool, now: float
    ) -> None:
        """Remember a closed trace with the ids of its spans and the bytes of its log records."""
        fingerprints = b""
        if len(spans) + len(records) <= _FINGERPRINTS_AT_MOST:
            fingerprints = b"".join((*spans, *map(_fingerprint, records)))
        self._known[trace_id] = _Remembered(now, too_large, fingerprints)
        if fingerprints:
            self._with_spans.append((trace_id, len(fingerprints)))
            self._bytes += len(fingerprints)
        while self._bytes > self._max_bytes:
            eldest, size = self._with_spans.popleft()
            self._bytes -= size
            if (known := self._known.get(eldest)) is not None:
                self._known[eldest] = known._replace(fingerprints=b"")
        self.forget(now)

    def reopen(self, trace_id: bytes) -> None:
        """Forget one trace: parts with its id that arrive from now on start a new trace."""
        self._known.pop(trace_id, None)

    def forget(self, now: float) -> None:
        """Drop entries that are too old or too many."""
        while self._known:
            eldest = next(iter(self._known.values()))
            if len(self._known) <= self._count and now - eldest.at <= self._seconds:
                return
            self._known.popitem(last=False)

    def count(self, trace_id: bytes, parts: Sequence[Part]) -> list[int]:
        """Count parts that arrived after closing.

        Returns kept (always 0), duplicate, late and too large: first of spans, then of log records.
        """
        trace = self._known.get(trace_id, _Remembered(0.0, too_large=False, fingerprints=b""))
        counts = [0] * 8
        for part in parts:
            is_span = part.signal == "traces"
            wanted = part.span_id if is_span else _fingerprint(part.encoded)
            at = trace.fingerprints.find(wanted)
            while at > 0 and at % _FINGERPRINT:
                at = trace.fingerprints.find(wanted, at + 1)
            outcome = 1 if at >= 0 else 3 if trace.too_large else 2
            counts[outcome if is_span else outcome + 4] += 1
        return counts


def _fingerprint(record: bytes) -> bytes:
    return (hash(record) & (2**64 - 1)).to_bytes(_FINGERPRINT, "little")
