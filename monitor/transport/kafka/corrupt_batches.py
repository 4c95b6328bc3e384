"""Find the partition of a batch that cannot be read, and the offset after the batch.

Fetching any offset of a batch returns the whole batch, and the length that a corrupt batch claims cannot be trusted. So
later offsets are tried: in steps that double until another batch is reached, then by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from kafka.errors import CorruptRecordError, KafkaError, KafkaTimeoutError, UnsupportedCodecError

from monitor.transport.kafka.client import ConsumerSettings, make_prober

_ROUND_TRIP_MS: Final = 3_000


def next_readable(first: int, end: int, fault_at: Callable[[int], Hashable | None]) -> int:
    """Return the smallest offset after `first` outside the same corrupt batch; `end` if no message follows the batch.

    `fault_at(offset)` fetches at an offset. It returns None if a message can be read there, else a value that
    identifies the corrupt batch. The number of calls is about twice the logarithm of the batch's length. Another
    corrupt batch may begin at the returned offset.
    """
    fault = fault_at(first)
    if fault is None:
        return first
    inside, step = first, 1
    while True:
        beyond = min(inside + step, end)
        if beyond >= end or fault_at(beyond) != fault:
            break
        inside, step = beyond, step * 2
    while beyond - inside > 1:
        middle = (inside + beyond) // 2
        if fault_at(middle) == fault:
            inside = middle
        else:
            beyond = middle
    return beyond


def partition_of(consumer: Any, error: Exception) -> Any:
    """Return the partition of messages that could not be read; None for an error of another kind.

    kafka-python's exceptions do not name it: it is the partition that the consumer was taking messages from.
    """
    if isinstance(error, KafkaError) and not isinstance(error, CorruptRecordError | UnsupportedCodecError):
        return None
    part = getattr(getattr(consumer, "_fetcher", None), "_next_partition_records", None)
    return getattr(part, "topic_partition", None)


def reason_of(error: Exception) -> str:
    """Return why a batch cannot be read: `checksum`, `codec` (a compression not installed here), or else `batch`."""
    if isinstance(error, CorruptRecordError):
        return "checksum"
    return "codec" if isinstance(error, UnsupportedCodecError | NotImplementedError) else "batch"


def end_of(settings: ConsumerSettings, at: Any, offset: int) -> int:
    """Return the offset after the corrupt batch around `offset`. Raises `KafkaError` if the brokers do not answer."""
    prober = make_prober(settings)
    bases = _watch_bases(prober)
    try:
        prober.assign([at])
        last = prober.end_offsets([at], timeout_ms=_ROUND_TRIP_MS)[at]
        return next_readable(offset, last, lambda wanted: _fault(prober, at, wanted, bases))
    finally:
        prober.close(timeout_ms=_ROUND_TRIP_MS)


def _watch_bases(prober: Any) -> list[int]:
    """Keep the base offset of the last fetched batch in a list: its first eight bytes, which no checksum covers."""
    bases: list[int] = []
    fetcher = prober._fetcher  # noqa: SLF001
    made = fetcher.PartitionRecords

    def record_base(offset: int, at: Any, records: Any, **options: Any) -> Any:
        bases[:] = [int.from_bytes(bytes(records._buffer[:8]), "big")]  # noqa: SLF001
        return made(offset, at, records, **options)

    fetcher.PartitionRecords = record_base
    return bases


def _fault(prober: Any, at: Any, offset: int, bases: list[int]) -> Hashable | None:
    """Return a value that identifies the corrupt batch at `offset`; None if a message can be read there."""
    prober.seek(at, offset)
    bases.clear()
    try:
        found = prober.poll(timeout_ms=_ROUND_TRIP_MS, max_records=1)
    except Exception as error:
        if partition_of(prober, error) is None:
            raise
        return bases[0] if bases else ("at", offset)  # unknown: assume that the batch ends here
    if not found and prober.position(at, timeout_ms=0) == offset:
        raise KafkaTimeoutError(f"nothing came from offset {offset} of {at.topic}/{at.partition}")
    return None
