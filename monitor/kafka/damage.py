"""Batches that cannot be read: which partition they are in, where they end. And consumers that cannot be closed."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from typing import Any, Final

from kafka.errors import CorruptRecordError, KafkaError, KafkaTimeoutError, UnsupportedCodecError

from monitor.kafka.client import ConsumerSettings, make_prober
from monitor.kafka.stepping import next_readable

_ROUND_TRIP_MS: Final = 3_000


def place(consumer: Any, error: Exception) -> Any:
    """The partition whose messages could not be read; None where the error is of another kind.

    kafka-python says it in no exception; the partition is the one that it was taking messages from.
    """
    if isinstance(error, KafkaError) and not isinstance(error, CorruptRecordError | UnsupportedCodecError):
        return None
    part = getattr(getattr(consumer, "_fetcher", None), "_next_partition_records", None)
    return getattr(part, "topic_partition", None)


def reason(error: Exception) -> str:
    """Why a batch cannot be read: `checksum`; `codec`, a compression that is not installed here; else `batch`."""
    if isinstance(error, CorruptRecordError):
        return "checksum"
    return "codec" if isinstance(error, UnsupportedCodecError | NotImplementedError) else "batch"


def end(settings: ConsumerSettings, at: Any, offset: int) -> int:
    """The offset after the damaged batch that `offset` lies in. Raises `KafkaError` where the brokers do not answer."""
    prober = make_prober(settings)
    bases = _watch_bases(prober)
    try:
        prober.assign([at])
        last = prober.end_offsets([at], timeout_ms=_ROUND_TRIP_MS)[at]
        return next_readable(offset, last, lambda wanted: _fault(prober, at, wanted, bases))
    finally:
        prober.close(timeout_ms=_ROUND_TRIP_MS)


def _watch_bases(prober: Any) -> list[int]:
    """A list that holds where the batch that was fetched last begins: its first eight bytes, under no checksum."""
    bases: list[int] = []
    fetcher = prober._fetcher  # noqa: SLF001
    made = fetcher.PartitionRecords

    def noted(offset: int, at: Any, records: Any, **options: Any) -> Any:
        bases[:] = [int.from_bytes(bytes(records._buffer[:8]), "big")]  # noqa: SLF001
        return made(offset, at, records, **options)

    fetcher.PartitionRecords = noted
    return bases


def _fault(prober: Any, at: Any, offset: int, bases: list[int]) -> Hashable | None:
    """What tells the damaged batch at `offset` from its neighbours, None where a message can be read there."""
    prober.seek(at, offset)
    bases.clear()
    try:
        found = prober.poll(timeout_ms=_ROUND_TRIP_MS, max_records=1)
    except Exception as error:
        if place(prober, error) is None:
            raise
        return bases[0] if bases else ("at", offset)  # not known: then no further than this offset
    if not found and prober.position(at, timeout_ms=0) == offset:
        raise KafkaTimeoutError(f"nothing came from offset {offset} of {at.topic}/{at.partition}")
    return None


def close_from_outside(consumer: Any) -> None:
    """Close a consumer whose own thread does not come back, so that its heartbeats end. May never return."""
    with contextlib.suppress(Exception):
        consumer._fetcher.close()  # noqa: SLF001 - ends a fetch that turns in circles
    with contextlib.suppress(Exception):
        consumer.close(timeout_ms=_ROUND_TRIP_MS)
