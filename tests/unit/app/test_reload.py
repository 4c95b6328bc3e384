"""Which configuration follows when one fails, and that no fault of a file ends the process."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from monitor.app import reload as module
from monitor.app.reload import Ending, Reloader
from monitor.config import Loaded
from monitor.errors import ConfigError
from tests.support.runtime import runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio
NO = ConfigError("it cannot work")


class Lives:
    """A process that lives with `slices: [a]`, and whose lives end and begin as a test wants."""

    def __init__(self, folder: Path, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self.path = folder / "config.yaml"
        self.path.write_text("slices: [a]")
        self.reloader = Reloader(self.path, Loaded.read(self.path))
        self.listening = anyio.Event()
        self.ending = Ending()
        self.runtime = runtime()

    def begin(self) -> None:
        """Begin the next life; its sources listen once `listening` is set."""
        self.listening, self.ending = anyio.Event(), Ending()
        self.runtime = runtime()
        self._tasks.start_soon(self.reloader.rises(self.ending), self.runtime, self.listening)

    async def exchange(self) -> None:
        """End the first life for one with `slices: [b]`, which has not begun yet."""
        self.begin()
        self.listening.set()
        self.path.write_text("slices: [b]")
        self._tasks.start_soon(self.reloader.request, "a test")
        await self.ending.asked.wait()
        after = self.reloader.after_end(stopping=False)
        assert after is not None
        assert after.slices == ("b",)


async def test_one_that_fails_before_it_is_up_is_followed_by_the_one_before(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        lives = Lives(tmp_path, tasks)
        await lives.exchange()
        assert lives.reloader.after_error(NO, stopping=False).slices == ("a",)
        lives.begin()
        lives.listening.set()
        await until(lambda: lives.reloader.last)
        assert lives.reloader.why_failed() == "it cannot work"
        with pytest.raises(ConfigError):  # that of the start fails as well, later
            lives.reloader.after_error(NO, stopping=False)
        tasks.cancel_scope.cancel()


async def test_one_with_a_source_that_does_not_listen_yet_is_followed_by_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LISTENING", 0.0)
    async with anyio.create_task_group() as tasks:
        lives = Lives(tmp_path, tasks)
        await lives.exchange()
        lives.begin()
        await until(lambda: lives.reloader.last)
        assert lives.reloader.after_error(NO, stopping=False).slices == ("a",)
        tasks.cancel_scope.cancel()


async def test_an_error_after_all_sources_have_listened_ends_the_process(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        lives = Lives(tmp_path, tasks)
        await lives.exchange()
        lives.begin()
        lives.listening.set()
        await until(lambda: lives.reloader.last)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConfigError):
            lives.reloader.after_error(NO, stopping=False)
        tasks.cancel_scope.cancel()


async def test_a_reload_that_is_asked_for_while_the_process_stops_changes_nothing_and_hurries_nothing(
    tmp_path: Path,
) -> None:
    async with anyio.create_task_group() as tasks:
        lives = Lives(tmp_path, tasks)
        lives.begin()
        lives.listening.set()
        whole = lives.runtime.stop.left("requests")
        lives.ending.stop()
        lives.path.write_text("slices: [b]")
        with anyio.fail_after(60):
            report = await lives.reloader.request("a test")
        assert (report.ok, report.text) == (False, "The monitor is stopping.")
        assert lives.runtime.stop.left("requests") == whole
        assert lives.reloader.after_end(stopping=True) is None
        tasks.cancel_scope.cancel()


async def test_a_fault_in_reading_the_file_is_a_failed_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object, **__: object) -> Loaded:
        raise RecursionError

    async with anyio.create_task_group() as tasks:
        lives = Lives(tmp_path, tasks)
        lives.begin()
        lives.listening.set()
        monkeypatch.setattr(Loaded, "read", fault)
        report = await lives.reloader.request("a test")
        assert not report.ok
        assert report.text == f"{lives.path}: cannot be read: RecursionError; see the log"
        assert not lives.ending.asked.is_set()
        tasks.cancel_scope.cancel()
