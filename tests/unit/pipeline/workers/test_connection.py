"""What is known of a worker process that has ended: which requests it had answered, and which one it was at."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext

import pytest

from monitor.pipeline.workers.connection import SentRequest, WorkerProcess
from monitor.pipeline.workers.packing import LENGTH, frame
from monitor.pipeline.workers.process import READY

pytestmark = pytest.mark.anyio

ANSWERS_ONCE = """
import os, sys
os.write(1, bytes.fromhex(sys.argv[1]))
os.kill(os.getpid(), 9)
"""


def asked() -> SentRequest:
    return SentRequest(b"", asyncio.get_running_loop().create_future(), nullcontext)


async def ended(*answers: object, write: bool = False) -> tuple[WorkerProcess, list[SentRequest]]:
    """A worker with two requests that wrote these answers and was killed, before any of them was read.

    `write`: something is written to it before its end is noticed.
    """
    ours, theirs = socket.socketpair()
    rest = ours.dup()
    with tempfile.TemporaryFile() as notes:
        worker = WorkerProcess("code", lambda _: None, notes)
        pieces = [asked(), asked()]
        with theirs:
            written = b"".join(one if isinstance(one, bytes) else frame(one) for one in answers).hex()
            command = [sys.executable, "-S", "-c", ANSWERS_ONCE, written]
            worker.process = await asyncio.to_thread(subprocess.Popen[bytes], command, stdin=theirs, stdout=theirs)
        await asyncio.to_thread(worker.process.wait)
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        worker.held.extend(pieces)
        if write:
            worker.take_assignment(b"late")
        worker.gone.set()  # as where its end is noticed otherwise than by its pipe
        await worker.close(ours, rest)
    return worker, pieces


async def test_one_that_is_at_a_request_for_long_gives_up_those_behind_it() -> None:
    with tempfile.TemporaryFile() as notes:
        worker, (first, second, third) = WorkerProcess("code", lambda _: None, notes), (asked(), asked(), asked())
        worker.held.extend((first, second, third))
        assert worker.give_up_waiting() == [second, third]
        assert list(worker.held) == [first, None, None], "their answers count no more"
        assert worker.give_up_waiting() == []


async def test_an_answer_that_was_in_the_pipe_when_the_process_ended_counts() -> None:
    worker, (first, second) = await ended("code", READY, ("read", 0.5))
    assert first.answer.result() == "read"
    assert list(worker.held) == [second], "this one it has ended on"


async def test_a_request_that_is_written_after_the_end_of_the_process_costs_no_answer() -> None:
    worker, (first, second) = await ended("code", READY, ("read", 0.5), write=True)
    assert first.answer.result() == "read"
    assert list(worker.held) == [second], "this one it has ended on"


async def test_what_comes_after_an_answer_that_is_none_is_not_taken_for_one() -> None:
    worker, (first, second) = await ended("code", READY, LENGTH.pack(3) + b"xyz", ("read", 0.5))
    assert not first.answer.done()
    assert not second.answer.done()
    assert worker.answered == 0


async def test_a_process_of_other_code_gives_no_answers() -> None:
    worker, (first, _) = await ended("other code", READY, ("read", 0.5))
    assert (worker.upgraded, worker.ready, first.answer.done()) == (True, False, False)


def test_a_worker_whose_parent_has_ended_at_once_ends_without_a_traceback() -> None:
    ours, theirs = socket.socketpair()
    command = "from monitor.pipeline.workers.process import main; main()"
    with tempfile.TemporaryFile() as notes, theirs:
        worker = subprocess.Popen(
            [sys.executable, "-c", command, str(notes.fileno())],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, pass_fds=(notes.fileno(),),
        )  # fmt: skip
    ours.recv(1)
    ours.close()  # what it wrote was not all read: reading says "connection reset" then
    _, said = worker.communicate(timeout=300)
    assert (worker.returncode, said) == (0, b"")
