"""Messages that cannot be read are kept before their offsets count as done with."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from monitor.errors import InvalidData, MonitorError
from monitor.transport.kafka import dead_letters
from monitor.transport.kafka.dead_letters import DeadLetters, Letter
from monitor.transport.kafka.values import Offsets
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio

LETTER = Letter("spans", 2, 7, "invalid", error="no span", key=b"k", value=b"\xff", headers=[("own", b"1")])


class Sender:
    """Answers each call with the next of `answers`, then with an acknowledgement."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes | None, bytes | None, dict[str, bytes]]] = []
        self.blocked: anyio.Event | None = None

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        self.sent.append((topic, key, value, dict(headers)))
        if self.blocked is not None:
            await self.blocked.wait()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer


async def put(sender: Sender | None, letter: Letter = LETTER) -> tuple[Offsets, float]:
    """The offsets of a partition after the letter of its only message was sent; how many letters were counted."""
    made, offsets = runtime(), Offsets(letter.offset)
    async with anyio.create_task_group() as sending:
        letters = DeadLetters(sender, "dead" if sender else None, ("spans",), made, sending)
        await letters.put(letter, offsets.take(letter.offset))
    return offsets, total(made.metrics, "ragmonitor_dead_letters_total", topic="spans", reason=letter.reason)


async def test_a_letter_is_the_message_with_where_it_lay_and_why() -> None:
    sender = Sender()
    offsets, counted = await put(sender)
    assert (offsets.mark, counted) == (8, 1)
    ((topic, key, value, headers),) = sender.sent
    assert (topic, key, value) == ("dead", b"k", b"\xff")
    assert headers == {
        "own": b"1",
        "ragmonitor.topic": b"spans",
        "ragmonitor.partition": b"2",
        "ragmonitor.offset": b"7",
        "ragmonitor.reason": b"invalid",
        "ragmonitor.error": b"no span",
    }


async def test_the_offset_waits_until_the_letter_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_AGAIN", 0.01)
    sender = Sender(MonitorError("not now"), MonitorError("not now"))
    offsets, counted = await put(sender)
    assert (len(sender.sent), offsets.mark, counted) == (3, 8, 1)


async def test_a_message_too_large_for_its_topic_is_noted_without_its_body() -> None:
    sender = Sender(InvalidData("too large"))
    offsets, counted = await put(sender)
    assert [value for _, _, value, _ in sender.sent] == [b"\xff", b""]
    assert sender.sent[1][3]["ragmonitor.body"] == b"omitted: too large"
    assert (offsets.mark, counted) == (8, 1)


async def test_what_even_so_is_refused_holds_nothing_up_and_is_counted() -> None:
    offsets, counted = await put(Sender(InvalidData("no"), InvalidData("no")))
    assert (offsets.mark, counted) == (8, 1)


async def test_without_a_topic_letters_are_counted_only() -> None:
    offsets, counted = await put(None)
    assert (offsets.mark, counted) == (8, 1)


async def test_a_letter_whose_partition_moved_is_left_to_the_next_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_AGAIN", 0.01)
    made, offsets, sender = runtime(), Offsets(7), Sender(*[MonitorError("not now")] * 1000)
    ack = offsets.take(7)
    async with anyio.create_task_group() as sending:
        letters = DeadLetters(sender, "dead", ("spans",), made, sending)
        await letters.put(LETTER, ack)
        await until(lambda: len(sender.sent) >= 2, "a second attempt")
        ack.make_void()
    assert offsets.mark == 7
    assert not total(made.metrics, "ragmonitor_dead_letters_total")


async def test_so_many_letters_may_wait_and_no_more() -> None:
    made, offsets, sender = runtime(), Offsets(0), Sender()
    sender.blocked = anyio.Event()
    put_aside = 0
    async with anyio.create_task_group() as sending:
        letters = DeadLetters(sender, "dead", ("spans",), made, sending)

        async def fill() -> None:
            nonlocal put_aside
            for number in range(300):
                await letters.put(LETTER._replace(offset=number), offsets.take(number))
                put_aside += 1

        sending.start_soon(fill)
        await until(lambda: put_aside >= 200, "two hundred letters")
        await anyio.wait_all_tasks_blocked()
        assert put_aside == 200
        assert offsets.mark == 0
        sender.blocked.set()
    assert (put_aside, offsets.mark) == (300, 300)
