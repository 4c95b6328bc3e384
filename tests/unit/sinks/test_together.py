"""How results that wait together travel together, and what becomes of them when the other end is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.model.outcome import EvaluationResult
from monitor.sinks._together import ResultsRefused, together
from tests.support.results import judged

pytestmark = pytest.mark.anyio


class Receiver:
    """Takes batches; `bad` results are refused wherever they stand, and `down` it is down."""

    def __init__(self, bad: Sequence[int] = (), *, down: Exception | None = None, gate: anyio.Event | None = None):
        self.batches: list[list[str]] = []
        self.bad = {judged(one).id for one in bad}
        self.down = down
        self.gate = gate
        self.at_once = self.most = 0

    async def send(self, results: Sequence[EvaluationResult]) -> None:
        ids = [one.id for one in results]
        self.batches.append(ids)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.gate is not None:
            await self.gate.wait()
        self.at_once -= 1
        if self.down is not None:
            raise self.down
        if self.bad.intersection(ids):
            raise InvalidData("wrong")


async def outcomes(deliver: Any, numbers: Sequence[int]) -> dict[int, Exception | None]:
    found: dict[int, Exception | None] = {}

    async def one(number: int) -> None:
        try:
            await deliver(judged(number))
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            found[number] = error
        else:
            found[number] = None

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(one, number)
    return found


async def test_results_that_wait_leave_together_and_several_batches_are_under_way() -> None:
    gate = anyio.Event()
    receiver = Receiver(gate=gate)
    async with (
        together(receiver.send, at_once=10, in_flight=3, clock=ManualClock()) as deliver,
        anyio.create_task_group() as group,
    ):
        for number in range(33):
            group.start_soon(deliver, judged(number))
        await anyio.wait_all_tasks_blocked()
        assert [len(batch) for batch in receiver.batches] == [10, 10, 10]
        gate.set()
    assert sorted(len(batch) for batch in receiver.batches) == [3, 10, 10, 10]
    assert receiver.most == 3


@pytest.mark.parametrize("in_flight", [1, 2])
async def test_a_result_that_comes_just_when_another_is_done_is_not_forgotten(in_flight: int) -> None:
    receiver = Receiver()

    async def one_after_the_other() -> None:
        for number in range(200):
            await deliver(judged(number))

    async with together(receiver.send, at_once=3, in_flight=in_flight, clock=ManualClock()) as deliver:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(one_after_the_other)
    assert sum(len(batch) for batch in receiver.batches) == 1000


async def test_one_result_alone_leaves_at_once() -> None:
    receiver = Receiver()
    async with together(receiver.send, at_once=10, in_flight=3, clock=ManualClock()) as deliver:
        await deliver(judged(1))
        assert receiver.batches == [[judged(1).id]]


@given(bad=st.sets(st.integers(0, 19), max_size=6), at_once=st.integers(1, 20), in_flight=st.integers(1, 4))
async def test_a_result_that_is_refused_takes_no_other_with_it(bad: set[int], at_once: int, in_flight: int) -> None:
    receiver = Receiver(sorted(bad))
    async with together(receiver.send, at_once=at_once, in_flight=in_flight, clock=ManualClock()) as deliver:
        found = await outcomes(deliver, range(20))
    assert {number for number, error in found.items() if error is not None} == bad
    assert all(isinstance(found[number], InvalidData) for number in bad)


async def test_of_a_batch_that_was_taken_in_part_only_the_rest_fails() -> None:
    async def send(results: Sequence[EvaluationResult]) -> None:
        raise ResultsRefused("no such span", {judged(2).id})

    async with together(send, at_once=10, in_flight=1, clock=ManualClock()) as deliver:
        found = await outcomes(deliver, range(4))
    assert [isinstance(found[number], InvalidData) for number in range(4)] == [False, False, True, False]


async def test_while_the_receiver_is_down_results_fail_at_once_and_one_tries_again_ever_later() -> None:
    clock = ManualClock()
    receiver = Receiver(down=Overloaded("it is down"))
    async with together(receiver.send, at_once=1, in_flight=2, clock=clock) as deliver:
        assert isinstance((await outcomes(deliver, [0]))[0], Overloaded)
        found = await outcomes(deliver, range(50))
        assert len(receiver.batches) == 1
        assert {str(error) for error in found.values()} == {"not attempted: it is down"}
        for pause in (1, 2, 4, 8, 16, 30, 30):
            clock.advance(pause - 0.1)
            await outcomes(deliver, range(3))
            before = len(receiver.batches)
            clock.advance(0.1)
            await outcomes(deliver, range(3))
            assert len(receiver.batches) == before + 1, pause
        clock.advance(30)
        receiver.down = None
        assert (await outcomes(deliver, [1]))[1] is None
        assert set((await outcomes(deliver, range(50))).values()) == {None}


async def test_what_waits_when_the_receiver_goes_down_fails_with_it() -> None:
    gate = anyio.Event()
    receiver = Receiver(down=Overloaded("it is down"), gate=gate)
    async with (
        together(receiver.send, at_once=1, in_flight=2, clock=ManualClock()) as deliver,
        anyio.create_task_group() as group,
    ):
        group.start_soon(outcomes, deliver, range(20))
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert len(receiver.batches) == 2


async def test_an_error_that_is_not_of_the_receiver_does_not_close_the_line() -> None:
    receiver = Receiver(down=MonitorError("the key is wrong"))
    async with together(receiver.send, at_once=1, in_flight=1, clock=ManualClock()) as deliver:
        await outcomes(deliver, range(5))
    assert len(receiver.batches) == 5


async def test_leaving_does_not_wait_for_what_nobody_waits_for_any_more() -> None:
    """Stopping cancels the callers: their cases are judged again by the next process, however long a receiver hangs."""
    receiver = Receiver(gate=anyio.Event())
    with anyio.fail_after(120):
        async with together(receiver.send, at_once=1, in_flight=1, clock=ManualClock()) as deliver:
            with anyio.move_on_after(0.01):
                await deliver(judged(1))
    assert len(receiver.batches) == 1


async def test_leaving_waits_for_what_somebody_waits_for() -> None:
    gate = anyio.Event()
    receiver = Receiver(gate=gate)
    done: list[int] = []

    async def give(deliver: Any) -> None:
        await deliver(judged(1))
        done.append(1)

    async with anyio.create_task_group() as group:
        async with together(receiver.send, at_once=1, in_flight=1, clock=ManualClock()) as deliver:
            group.start_soon(give, deliver)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(_open_later, gate)
        await anyio.wait_all_tasks_blocked()
    assert done == [1]


async def _open_later(gate: anyio.Event) -> None:
    await anyio.sleep(0.01)
    gate.set()


async def test_a_caller_that_is_cancelled_holds_up_nobody() -> None:
    gate = anyio.Event()
    receiver = Receiver(gate=gate)
    async with together(receiver.send, at_once=10, in_flight=1, clock=ManualClock()) as deliver:
        with anyio.move_on_after(0.01):
            await deliver(judged(1))
        gate.set()
        await deliver(judged(2))
    assert receiver.batches == [[judged(1).id], [judged(2).id]]
