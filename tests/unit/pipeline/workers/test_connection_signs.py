"""The monitor tells from a worker's pipe, its end and the time what state the worker is in."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.pipeline.workers.connection import SentRequest, WorkerProcess
from monitor.pipeline.workers.packing import frame
from monitor.pipeline.workers.process import READY

pytestmark = pytest.mark.anyio

SLOW, LONGEST = 100.0, 1000.0  # seconds; no test takes so long
STARTING = 120.0


class Pipe(asyncio.Transport):
    """A pipe that keeps what is written, or refuses it."""

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.broken = broken
        self.closing = False

    def write(self, data: Any) -> None:
        if self.broken:
            raise RuntimeError("the handler is closed")
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing


class Started:
    """A worker with a pipe, ready unless told otherwise, and how long its answers took."""

    def __init__(self, *, ready: bool = True, broken: bool = False, notes: bytes = b"") -> None:
        self.seconds: list[float] = []
        self.worker = WorkerProcess("code", self.seconds.append, io.BytesIO(notes))
        self.pipe = Pipe(broken=broken)
        self.worker.connection_made(self.pipe)
        if ready:
            self.worker.data_received(frame("code") + frame(READY))

    def look_after(self, seconds: float, *, longest: float = LONGEST) -> None:
        self.worker.look(asyncio.get_running_loop().time() + seconds, SLOW, longest)

    def ended(self, status: int | None) -> None:
        """Let its process have ended with this status; None: it runs."""
        self.worker.process = SimpleNamespace(returncode=status, poll=lambda: status)  # type: ignore[assignment]


def request(content: bytes = b"", noted: Any = nullcontext) -> SentRequest:
    return SentRequest(content, asyncio.get_running_loop().create_future(), noted)


# -- answers


async def test_a_worker_is_ready_when_it_says_so_after_its_code() -> None:
    at = Started(ready=False)
    assert not at.worker.free
    at.worker.data_received(frame("code"))
    assert not at.worker.ready
    at.worker.data_received(frame(READY))
    assert at.worker.free
    assert at.seconds == [0.0, 0.0], "both are told, and neither is a request"


async def test_an_answer_that_comes_byte_by_byte_is_read_when_it_is_whole() -> None:
    at, one = Started(), request()
    at.worker.take(one)
    *first, last = frame(("read", 0.5))
    for byte in first:
        at.worker.data_received(bytes([byte]))
    assert not one.answer.done()
    at.worker.data_received(bytes([last]))
    assert one.answer.result() == "read"
    assert at.seconds[2:] == [0.5]


async def test_two_answers_that_come_at_once_go_to_their_requests_in_order() -> None:
    at, first, second = Started(), request(), request()
    at.worker.take(first)
    at.worker.take(second)
    at.worker.data_received(frame(("one", 0.1)) + frame(("two", 0.2)))
    assert (first.answer.result(), second.answer.result()) == ("one", "two")
    assert (at.worker.answered, len(at.worker.held)) == (2, 0)


async def test_an_answer_to_a_request_that_nobody_waits_for_is_passed_over() -> None:
    at, gone, kept = Started(), request(), request()
    at.worker.take(gone)
    at.worker.take(kept)
    gone.answer.cancel()
    at.worker.data_received(frame(("one", 0.1)) + frame(("two", 0.2)))
    assert kept.answer.result() == "two"


async def test_a_worker_that_answers_what_is_no_answer_is_given_up() -> None:
    at = Started()
    at.worker.data_received(frame(print))
    assert at.worker.gone.is_set()
    assert not at.worker.free


# -- requests


async def test_requests_are_written_in_order_after_the_assignment() -> None:
    at = Started()
    at.worker.take_assignment(b"assignment")
    at.worker.take(request(b"one"))
    at.worker.take(request(b"two"))
    assert at.pipe.written == [b"assignment", b"one", b"two"]


async def test_a_pipe_that_refuses_a_request_is_the_end_of_the_worker() -> None:
    at = Started(broken=True)
    at.worker.take(request(b"one"))
    assert at.worker.gone.is_set()
    assert len(at.worker.held) == 1, "it is taken back by the pool"


async def test_nothing_is_written_to_a_worker_that_is_gone() -> None:
    at = Started()
    at.worker.connection_lost(None)
    at.worker.take(request(b"one"))
    assert at.pipe.written == []


async def test_a_worker_whose_pipe_closes_gets_no_requests() -> None:
    at = Started()
    at.pipe.closing = True
    assert (at.worker.alive, at.worker.free) == (False, False)


async def test_a_worker_without_a_pipe_is_not_alive() -> None:
    assert not WorkerProcess("code", lambda _: None, io.BytesIO()).alive


async def test_a_worker_that_leaves_gets_no_requests() -> None:
    at = Started()
    at.worker.leaving = True
    assert (at.worker.alive, at.worker.free) == (True, False)


async def test_of_the_requests_in_a_pipe_only_the_first_is_noted_as_being_read() -> None:
    noted: list[str] = []

    def note(name: str) -> Any:
        @contextmanager
        def reading() -> Iterator[None]:
            noted.append(f"{name} begins")
            yield
            noted.append(f"{name} ends")

        return reading

    at = Started()
    at.worker.take(request(noted=note("one")))
    at.worker.take(request(noted=note("two")))
    assert noted == ["one begins"]
    at.worker.data_received(frame(("read", 0.1)))
    assert noted == ["one begins", "one ends", "two begins"]
    at.worker.data_received(frame(("read", 0.1)))
    assert noted[3:] == ["two ends"]


# -- time


async def test_a_worker_is_slow_while_it_is_at_one_request_for_long() -> None:
    at = Started()
    at.worker.take(request())
    at.look_after(SLOW / 2)
    assert at.worker.free
    at.look_after(SLOW + 1)
    assert (at.worker.slow, at.worker.free, at.worker.gone.is_set()) == (True, False, False)
    at.worker.data_received(frame(("read", 0.1)))
    assert at.worker.free, "it has answered"


async def test_the_next_request_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    at = Started()
    at.worker.take(request())
    at.worker.take(request())
    now += SLOW
    at.worker.data_received(frame(("read", 0.1)))
    at.look_after(SLOW)
    assert not at.worker.slow, "exactly so long is not yet too long"
    at.look_after(SLOW + 1)
    assert at.worker.slow


async def test_a_request_that_is_added_behind_another_does_not_prolong_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    at = Started()
    at.worker.take(request())
    now += SLOW
    at.worker.take(request())
    at.look_after(1)
    assert at.worker.slow


async def test_an_idle_worker_is_never_slow_or_overdue() -> None:
    at = Started()
    at.look_after(10 * LONGEST)
    assert (at.worker.slow, at.worker.free) == (False, True)


async def test_a_worker_that_keeps_at_a_request_beyond_the_limit_is_hung() -> None:
    at = Started()
    at.worker.take(request())
    at.look_after(LONGEST / 2)
    assert not at.worker.gone.is_set()
    at.look_after(LONGEST + 1)
    assert at.worker.gone.is_set()
    assert at.worker.how == "hung"


async def test_a_start_has_two_minutes_whatever_the_limit_of_a_request() -> None:
    at = Started(ready=False)
    at.look_after(STARTING - 1, longest=1.0)
    assert (at.worker.gone.is_set(), at.worker.slow) == (False, False)
    at.look_after(STARTING + 1, longest=LONGEST)
    assert at.worker.gone.is_set()
    assert at.worker.how == "not_started"


async def test_the_end_of_the_process_is_noticed_by_looking() -> None:
    at = Started()
    at.ended(None)
    at.look_after(0)
    assert at.worker.alive
    at.ended(1)
    at.look_after(0)
    assert not at.worker.alive


# -- its end


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (-signal.SIGPROF, "hung"),
        (-signal.SIGALRM, "hung"),
        (-signal.SIGKILL, "died"),
        (1, "died"),
        (0, "memory"),
        (None, "died"),
    ],
)
async def test_the_status_of_the_process_tells_how_it_ended(status: int | None, how: str) -> None:
    at = Started()
    assert at.worker.how == "died", "before it has a process"
    at.ended(status)
    assert at.worker.how == how


async def test_a_worker_of_other_code_has_ended_for_an_upgrade() -> None:
    at = Started(ready=False)
    at.worker.data_received(frame("other code"))
    assert (at.worker.how, at.worker.gone.is_set()) == ("upgraded", True)


@pytest.mark.parametrize(
    ("notes", "line"),
    [
        (
            b'Fatal\n  File "/a/b/plug.py", line 12 in score\n  File "/a/main.py", line 3 in main\n',
            "plug.py:12 in score",
        ),
        (b"nothing of use", ""),
        (b"", ""),
    ],
)
async def test_the_innermost_line_that_the_process_noted_tells_where_it_was_ended(notes: bytes, line: str) -> None:
    assert Started(notes=notes).worker.at == line
