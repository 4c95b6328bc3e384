"""What the sink makes of results before a broker sees them; the rest is in tests/integration/test_kafka_sink.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from monitor.errors import ResultsRefused
from monitor.model.outcome import Score
from monitor.sinks import kafka
from monitor.sinks.kafka import KafkaSink
from monitor.storage.history.rows import load
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


class Topic:
    """A producer that takes everything."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, topic: str, key: bytes, value: bytes) -> None:
        assert key
        self.sent.append({"topic": topic, **load(value)})


async def test_a_result_that_no_record_can_be_made_of_is_refused_alone_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic()

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Topic]:
        yield topic

    monkeypatch.setattr(kafka, "open_producer", opened)
    bad = judged(2, outcome=Score(4.0, "x", evidence=("a quote",)), evaluator="tone")  # type: ignore[arg-type]
    sink = KafkaSink(brokers=["kafka:9092"], topic="results", dead_letters="dead")  # type: ignore[arg-type]
    async with sink.open(runtime()) as deliver:
        with pytest.raises(ResultsRefused, match=f"the result of tone on {bad.case.request_id} cannot be") as caught:
            await deliver([judged(1), bad, judged(3)])
    assert caught.value.ids == {bad.id}
    assert [(one["topic"], one["id"]) for one in topic.sent] == [("results", judged(1).id), ("results", judged(3).id)]


@pytest.mark.parametrize(("option", "value"), [("max_bytes", "2GiB"), ("delivery_timeout", "25d")])
def test_a_limit_that_the_client_cannot_hold_is_refused_before_the_start(option: str, value: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){option}.*less than"):
        KafkaSink(brokers=["kafka:9092"], topic="results", **{option: value})  # type: ignore[arg-type]
