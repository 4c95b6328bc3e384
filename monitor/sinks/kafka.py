"""Sink `kafka`: results as records of a topic, for other programs and for the samplers of all replicas.

Schema: `docs/results.md`. The key is the trace id. A result may be sent twice, with the same `id`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Final, Literal

import anyio
from anyio import lowlevel
from pydantic import Field

from monitor.errors import InvalidData, MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.quantities import Duration, Size
from monitor.stages import Deliver, PastResult, Runtime, Sink
from monitor.storage.history.rows import SCHEMA, as_json, dump, line, load, past_result
from monitor.telemetry.events import Event
from monitor.transport.kafka.connection import KafkaConnection
from monitor.transport.kafka.producer import Producer, Sending, open_producer
from monitor.transport.kafka.tail import follow

_AT_ONCE = 100  # past results, after which other tasks get their turn
_LONGEST_REASON = 500

_SHORT: Final = (
    "id", "evaluated_at", "trace_id", "span_id", "app", "evaluator", "version",
    "outcome", "reason", "score", "label", "level", "defect", "weight",
)  # fmt: skip


class KafkaSink(KafkaConnection, Sink):
    """Send each result to a Kafka topic as JSON. Samplers learn from the results of other replicas in it."""

    at_once: ClassVar[int] = 500
    memory: ClassVar[Literal["none", "process", "fleet"]] = "fleet"

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", examples=["rag-results"])
    """Topic for results. It must exist."""

    dead_letters: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """Topic for results that `topic` cannot take; they are sent with the reason and the main fields, but without texts.
    Default: such a result is counted as `rejected` and is missing from the topic."""

    include_texts: bool = False
    """Whether to send question, context and answer. Off: only score and explanation, which may quote them. Needs
    `storage: {texts: all}`."""

    delivery_timeout: Duration = Field(default=120.0, ge=1, le=2_147_483)
    """How long one delivery attempt may take before the results are sent again after a pause; at most 24 days."""

    compression: Literal["zstd", "lz4", "gzip", "none"] = "zstd"
    """Compression of batches."""

    max_bytes: Size = Field(default=1024**2, ge=1024, lt=2 * 1024**3)
    """Maximum size of one result, uncompressed, below 2 GiB. The topic's `max.message.bytes` should allow it."""

    replay: int = Field(default=20_000, ge=0)
    """How many of the topic's newest results to read at start, for samplers with `boost` to learn from. They remember
    about 5,000; results of local evaluators count towards this number but are not learned from."""

    def external_copies(self) -> str:
        """Name the topic."""
        return f"kafka {self.address} {self.topic}"

    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        """Open the producer. Delivering returns when all in-sync replicas have the results; otherwise it raises as
        `Sink.deliver` does, and a retry sends the whole batch again. Leaving the context waits for results in flight,
        at most a few seconds.
        """
        compression = None if self.compression == "none" else self.compression
        sending = Sending(self.delivery_timeout, compression, self.max_bytes)
        topics = (self.topic, self.dead_letters) if self.dead_letters else (self.topic,)
        async with open_producer(self, sending, runtime, topics) as producer:

            async def deliver(results: Sequence[EvaluationResult]) -> None:
                refused: dict[str, InvalidData] = {}
                faults: list[MonitorError] = []

                async def one(result: EvaluationResult) -> None:
                    try:
                        await self._send(producer, result, runtime)
                    except InvalidData as error:
                        refused[result.id] = error
                    except MonitorError as error:
                        faults.append(error)

                async with anyio.create_task_group() as side_by_side:
                    for result in results:
                        side_by_side.start_soon(one, result)
                if faults:
                    raise faults[0]
                if refused:
                    raise ResultsRefused(str(next(iter(refused.values()))), refused)

            yield deliver

    async def _send(self, producer: Producer, result: EvaluationResult, runtime: Runtime) -> None:
        row = partial(as_json, texts=self.include_texts)
        value = line(result, row)
        key = result.case.request_id.encode("utf-8", "replace")
        try:
            await producer.send(self.topic, key, value)
        except InvalidData as error:
            if self.dead_letters is None:
                raise
            await self._bury(producer, self.dead_letters, key, row(result), str(error))
            message = "a result can never be sent; it was written to the dead letters"
            runtime.events.warning(Event.KAFKA_REFUSED, message, topic=self.topic, result=result.id)

    async def _bury(self, producer: Producer, topic: str, key: bytes, row: dict[str, Any], reason: str) -> None:
        letter = {
            "schema": SCHEMA,
            "topic": self.topic,
            "reason": reason[:_LONGEST_REASON],
            "result": {name: row[name] for name in _SHORT},
        }
        await producer.send(topic, key, dump(letter))

    async def replay_results(self, on_result: Callable[[PastResult], None], runtime: Runtime) -> None:
        """Pass on the newest `replay` results in the topic, oldest first, then new ones, until cancelled."""
        results = follow(self, self.topic, _past_result, runtime.events, runtime.clock, newest=self.replay)
        async with aclosing(results):
            async for found in results:
                for number, one in enumerate(found):
                    on_result(one)
                    if number % _AT_ONCE == _AT_ONCE - 1:
                        await lowlevel.checkpoint()


def _past_result(value: bytes) -> PastResult | None:
    try:
        row = load(value)
    except ValueError:
        return None
    return past_result(row) if isinstance(row, dict) else None
