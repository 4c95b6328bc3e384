"""A worker process answers request after request, keeps its pipe to itself, and ends with it or at its limit."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

from monitor import registry
from monitor.extraction.settings import ExtractionSettings
from monitor.pipeline.local_evaluation import LocalOutcome, LocalReader
from monitor.pipeline.workers.packing import LENGTH, frame, read_answer
from monitor.pipeline.workers.process import READY, Assignment, code_on_disk
from tests.support.evaluators import case, configured
from tests.support.hanging import Hanging, Printing

COMMAND = "from monitor.pipeline.workers.process import main; main()"


class Worker:
    """A worker process in the hands of a test."""

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket, notes: IO[bytes]) -> None:
        self.process, self.notes = process, notes
        self._end = end
        self.pipe = end.makefile("rwb")

    def close(self) -> None:
        self.pipe.close()
        self._end.close()

    def send(self, content: object) -> None:
        self.pipe.write(frame(content))
        self.pipe.flush()

    def answer(self) -> Any:
        (length,) = LENGTH.unpack(self.pipe.read(LENGTH.size))
        return read_answer(self.pipe.read(length))


@contextmanager
def working(time_limit: float) -> Iterator[Worker]:
    evaluators = [configured(Hanging()), configured(Printing())]
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as notes:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(notes.fileno())],
                stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, pass_fds=(notes.fileno(),),
            )  # fmt: skip
        worker = Worker(process, ours, notes)
        try:
            assert worker.answer() == code_on_disk()
            reader = LocalReader(registry.conventions(), ExtractionSettings(), evaluators)
            worker.send(Assignment(reader, time_limit, ("INFO", "json")))
            assert worker.answer() == READY
            yield worker
        finally:
            worker.close()
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def test_a_worker_answers_each_request_with_its_seconds_and_ends_with_its_pipe_alone() -> None:
    with working(1000.0) as worker:
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            worker.process.send_signal(ignored)
        for number in range(2):
            worker.send((case(number), "printing"))
            outcome, seconds = worker.answer()
            assert isinstance(outcome, LocalOutcome)
            assert outcome.outcome.value == 1  # type: ignore[union-attr]
            assert 0 <= seconds < 1000
        worker.close()
        _, said = worker.process.communicate(timeout=600)
        assert worker.process.returncode == 0
        assert b"printed by a plug-in" in said, "it went to the log, not into the pipe"


def test_a_worker_that_takes_too_long_is_ended_by_the_system_and_leaves_the_line_it_was_at() -> None:
    with working(0.05) as worker:
        worker.send((replace(case(), app="hangs"), "hanging"))
        worker.process.wait(timeout=600)
        assert -worker.process.returncode in (signal.SIGPROF, signal.SIGALRM)
        worker.notes.seek(0)
        assert b"in run" in worker.notes.read()
