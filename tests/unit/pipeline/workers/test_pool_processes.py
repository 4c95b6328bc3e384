"""A pool hands requests to its processes, and loses none of them when a process ends.

The processes are stand-ins that take a tenth of the time of real ones to start: Python without any library, which does
what the name of the evaluator in a request says.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor import registry
from monitor.extraction.settings import ExtractionSettings
from monitor.pipeline.local_evaluation import LocalOutcome, LocalReader, WorkerLost
from monitor.pipeline.workers.packing import frame
from monitor.pipeline.workers.pool import WorkerPool
from monitor.pipeline.workers.process import READY, code_on_disk
from monitor.stages import Evaluator
from monitor.telemetry.events import Event
from tests.support.evaluators import case, configured
from tests.support.pipeline import settled
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio

STAND_IN = """\
import fcntl, os, pickle, signal, struct, sys, termios
folder, code, ready = sys.argv[0], bytes.fromhex({code!r}), bytes.fromhex({ready!r})
folder = os.path.dirname(folder)

def take():
    head = b""
    while len(head) < 4:
        head += os.read(0, 4 - len(head)) or os._exit(0)
    left, content = struct.unpack("!I", head)[0], b""
    while len(content) < left:
        content += os.read(0, left - len(content)) or os._exit(0)
    return content

def first(name):
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

os.write(1, code)
take()
os.write(1, ready)
while True:
    asked = take()
    if b"dies at it" in asked:
        os.kill(os.getpid(), signal.SIGKILL)
    if b"dies once" in asked and first("died"):
        os.kill(os.getpid(), signal.SIGKILL)
    if b"takes too long" in asked:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPROF)
    if b"needs memory" in asked and first("grown"):
        os._exit(0)
    if b"waits" in asked or b"counts" in asked:
        while not os.path.exists(os.path.join(folder, "go on")):
            signal.sigtimedwait([], 0.01)
    behind = struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0] // (4 + len(asked))
    answer = pickle.dumps((str(behind if b"counts" in asked else os.getpid()), 0.25))
    os.write(1, struct.pack("!I", len(answer)) + answer)
"""

EVALUATOR = configured(registry.read("evaluators", {"type": "refusal_pattern"}, Evaluator, "evaluators"))


class Running:
    """A pool at work."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.lent = runtime()
        reader = LocalReader(registry.conventions(), ExtractionSettings(), [EVALUATOR])
        self.pool = WorkerPool(reader, number, time_limit=1000.0, runtime=self.lent)

    async def ask(self, what: str) -> Any:
        return await self.pool.evaluate(case(), what, nullcontext)

    async def ask_all(self, *what: str) -> list[Any]:
        """Ask for several at once; the answers are in the order in which they came: what was asked, and by whom."""
        came: list[Any] = []

        async def ask(one: str) -> None:
            try:
                came.append((one, await self.ask(one)))
            except WorkerLost as error:
                came.append((one, error))

        async with anyio.create_task_group() as tasks:
            for one in what:
                tasks.start_soon(ask, one)
        return came

    def replaced(self, how: str) -> float:
        return total(self.lent.metrics, "ragmonitor_workers_replaced_total", reason=how)

    @property
    def ready(self) -> float:
        return total(self.lent.metrics, "ragmonitor_workers")

    def go_on(self) -> None:
        (self.folder / "go on").touch()


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why workers were replaced, as logged."""
    records = [vars(one) for one in caplog.records]
    return [one["fields"]["reason"] for one in records if one.get("event") == Event.WORKER_REPLACED]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of there being no workers."""
    return [one.getMessage() for one in caplog.records if vars(one).get("event") == Event.NO_WORKERS]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has processes of the pool run the stand-in, as one of this code or of other code."""

    def set_up(code: str = "") -> None:
        framed = frame(code or code_on_disk()).hex()
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable} -IS\n" + STAND_IN.format(code=framed, ready=frame(READY).hex()))
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return set_up


@asynccontextmanager
async def running(folder: Path, number: int = 1) -> AsyncIterator[Running]:
    at, listening = Running(folder, number), anyio.Event()
    listening.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(at.pool.run, listening)
        try:
            yield at
        finally:
            tasks.cancel_scope.cancel()


async def test_requests_are_answered_by_the_processes_and_their_time_is_counted(
    tmp_path: Path, program: Callable[..., None]
) -> None:
    program()
    async with running(tmp_path, 2) as at:
        await until(lambda: at.ready == 2, "two workers")
        await at.ask_all(*["ok"] * 4)
        assert total(at.lent.metrics, "ragmonitor_worker_busy_seconds_total") == 1.0
        assert sum(at.replaced(how) for how in ("died", "hung", "memory", "not_started", "upgraded")) == 0


async def test_a_request_goes_to_the_worker_with_the_fewest(tmp_path: Path, program: Callable[..., None]) -> None:
    program()
    async with running(tmp_path, 2) as at:
        await until(lambda: at.ready == 2, "two workers")
        came: list[Any] = []

        async def wait() -> None:
            came.append(await at.ask("waits"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            others = {await at.ask("ok") for _ in range(3)}
            at.go_on()
        assert len(others) == 1
        assert came[0] not in others


async def test_a_pipe_holds_at_most_four_requests(tmp_path: Path, program: Callable[..., None]) -> None:
    program()
    async with running(tmp_path) as at:
        await until(lambda: at.ready == 1, "a worker")
        counts: list[str] = []

        async def count() -> None:
            counts.append(await at.ask("counts those behind it"))

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(count)
            await settled()
            at.go_on()
        assert counts[0] == "3"
        assert len(counts) == 6


async def test_while_all_workers_are_at_slow_requests_one_more_takes_what_waits_and_leaves_when_they_are_free(
    tmp_path: Path, program: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.workers.pool._SLOW", 0.0)
    monkeypatch.setattr("monitor.pipeline.workers.pool._LOOK", 0.01)
    program()
    async with running(tmp_path) as at:
        await until(lambda: at.ready == 1, "a worker")
        came: list[Any] = []

        async def wait() -> None:
            came.append(await at.ask("waits"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await settled()
            other = await at.ask("ok")
            assert came == [], "it was behind this one"
            at.go_on()
        assert other not in came
        await until(lambda: at.ready == 1, "the end of the one more")
        assert await at.ask("ok") in came
        assert sum(at.replaced(how) for how in ("died", "hung", "memory")) == 0


async def test_a_process_that_dies_is_replaced_and_the_request_is_asked_again(
    tmp_path: Path, program: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    program()
    async with running(tmp_path) as at:
        with caplog.at_level(logging.WARNING):
            assert (await at.ask("dies once")).isdigit()
        assert at.replaced("died") == 1
        assert reasons(caplog) == ["died"]


async def test_a_request_at_which_two_processes_die_is_given_up_and_the_others_are_answered(
    tmp_path: Path, program: Callable[..., None]
) -> None:
    program()
    async with running(tmp_path) as at:
        came = await at.ask_all("dies at it", "ok", "fine", "good")
        lost = dict(came)["dies at it"]
        assert isinstance(lost, WorkerLost)
        assert lost.reason == "died"
        assert {one for one, found in came if not isinstance(found, WorkerLost)} == {"ok", "fine", "good"}
        assert at.replaced("died") == 2


async def test_a_request_that_takes_too_long_is_given_up_at_once(tmp_path: Path, program: Callable[..., None]) -> None:
    program()
    async with running(tmp_path) as at:
        came = await at.ask_all("takes too long", "one", "two", "three")
        assert [one for one, _ in came] == ["takes too long", "one", "two", "three"], (
            "what was behind it keeps its order"
        )
        assert came[0][1].reason == "hung"
        assert (at.replaced("hung"), at.replaced("died")) == (1, 0)


async def test_a_process_that_ends_for_its_memory_costs_no_request_and_is_not_logged(
    tmp_path: Path, program: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    program()
    async with running(tmp_path) as at:
        with caplog.at_level(logging.WARNING):
            came = await at.ask_all("needs memory", "one", "two")
        assert [one for one, _ in came] == ["needs memory", "one", "two"]
        assert at.replaced("memory") == 1
        assert reasons(caplog) == []


async def test_a_request_whose_reader_has_gone_is_passed_over(tmp_path: Path, program: Callable[..., None]) -> None:
    program()
    async with running(tmp_path) as at:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.ask, "dies at it")  # before a worker is there: it waits
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert (await at.ask("ok")).isdigit()
        assert at.replaced("died") == 0


async def test_after_an_upgrade_of_the_code_this_process_reads_and_says_so_once(
    tmp_path: Path, program: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    program(code="other code")
    name = EVALUATOR.evaluator.name
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path, 2) as at:
            came = await at.ask_all(name, name)
            assert all(isinstance(found, LocalOutcome) for _, found in came)
            assert isinstance(await at.ask(name), LocalOutcome)
            assert at.replaced("upgraded") >= 1
            assert at.ready == 0
    said = messages(caplog)
    assert len(said) == 1
    assert "restart" in said[0]


async def test_when_three_starts_in_a_row_fail_this_process_reads_and_pauses_between_starts_grow_to_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no such file"))
    pauses: list[float] = []
    sleep = anyio.sleep

    async def passed(seconds: float) -> None:
        if seconds > 1:
            pauses.append(seconds)
        await sleep(0)

    name = EVALUATOR.evaluator.name
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path) as at:
            with monkeypatch.context() as patched:
                patched.setattr("monitor.pipeline.workers.pool.anyio.sleep", passed)
                assert isinstance(await at.ask(name), LocalOutcome)
                while len(pauses) < 6:
                    await sleep(0)
    assert pauses[:6] == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    said = messages(caplog)
    assert len(said) == 1
    assert "no worker process can be started" in said[0]
    assert set(reasons(caplog)) == {"not_started"}
