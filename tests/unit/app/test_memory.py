"""Receivers refuse near the memory limit and until memory is free again; what is freed is given back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import anyio
import pytest

from monitor.app import memory
from monitor.app.memory import MemoryWatch, give_back_memory, resident_bytes
from monitor.clock import ManualClock
from tests.support.runtime import runtime, total
from tests.support.tools import until, wait_until

pytestmark = pytest.mark.anyio

MIB = 1024**2


async def test_receivers_refuse_from_ninety_percent_until_it_is_below_eighty_five():
    lent, said = runtime(ManualClock()), []
    used = iter([89, 91, 89, 86, 84, 89])
    watch = MemoryWatch(100 * MIB, lent, resident=lambda: next(used) * MIB, give_back=lambda: None)
    watch._gave_back_at = lent.clock.monotonic()
    for _ in range(6):
        await watch.look()
        said.append(bool(lent.health.short_of_memory))
        assert total(lent.metrics, "ragmonitor_memory_refusing") == said[-1]
    assert said == [False, True, True, True, False, False]
    assert total(lent.metrics, "ragmonitor_memory_limit_bytes") == 100 * MIB
    assert total(lent.metrics, "ragmonitor_memory_resident_bytes") == 89 * MIB
    assert total(lent.metrics, "ragmonitor_events_total", event="memory_short") == 1


async def test_freed_memory_is_given_back_before_anything_is_refused():
    lent = runtime(ManualClock())
    used = [95 * MIB]

    def give_back():
        used[0] = 50 * MIB

    watch = MemoryWatch(100 * MIB, lent, resident=lambda: used[0], give_back=give_back)
    await watch.look()
    assert lent.health.short_of_memory == ""


async def test_what_arrives_after_a_quiet_time_is_looked_at_at_once_and_often_from_then_on(monkeypatch):
    monkeypatch.setattr(memory, "_QUIET_INTERVAL", 3600.0)
    lent, looks = runtime(ManualClock()), []
    watch = MemoryWatch(100 * MIB, lent, resident=lambda: looks.append(1) or MIB, give_back=lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        await until(lambda: len(looks) == 1)
        lent.health.arrives()
        await until(lambda: len(looks) >= 4)
        tasks.cancel_scope.cancel()
    assert not watch._quiet()
    lent.clock.advance(3)
    assert watch._quiet()


async def test_memory_that_is_nearly_used_up_is_looked_at_often_though_nothing_arrives(monkeypatch):
    monkeypatch.setattr(memory, "_QUIET_INTERVAL", 3600.0)
    lent, looks = runtime(ManualClock()), []
    watch = MemoryWatch(100 * MIB, lent, resident=lambda: looks.append(1) or 75 * MIB, give_back=lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        await until(lambda: len(looks) >= 4)
        tasks.cancel_scope.cancel()


def test_memory_of_started_processes_counts():
    before = resident_bytes()
    hold = "import sys; held = b'x' * 64_000_000; print(len(held), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        wait_until(lambda: resident_bytes() - before > 60_000_000, 10, "the memory of the child")
        child.communicate()


def test_a_system_that_hides_its_processes_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)  # above the largest id of a process
    assert resident_bytes() == 0


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="another C library keeps what it likes")
def test_a_read_as_large_as_a_source_s_takes_no_new_pages_from_the_system_the_second_time():
    script = """
import resource
from monitor.app.memory import keep_freed_memory
keep_freed_memory(16 * 1024**2)
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = b"x" * 16_000_000
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    pages = int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=120).stdout)
    assert pages < 400, "16 MB are 3,906 pages"


def test_the_c_library_is_asked_to_give_back():
    give_back_memory()()
