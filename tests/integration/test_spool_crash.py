"""The spool against kill -9, full and failing disks, damaged files: nothing acknowledged is lost; it always starts."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from monitor.errors import Overloaded
from monitor.storage.spool.table import PAGE
from monitor.telemetry.metrics import Metrics
from tests.support.spool import left, opened, record
from tests.support.tools import require, unavailable

pytestmark = pytest.mark.anyio


def damaged(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("ragmonitor_spool_damaged_records_total") or 0.0


# -- kill -9

APPENDER = """
import asyncio, random, sys
from pathlib import Path
from tests.support.spool import opened, record

async def sender(spool, who, rng):
    n = 0
    while True:
        name = b"%s-%d-%d:" % (sys.argv[2].encode(), who, n)
        n += 1
        ack = await spool.append(record(name + rng.randbytes(rng.randrange(20_000))))
        settle = rng.random() < 0.3
        if settle:
            ack.settle()
        sys.stdout.buffer.write(name + (b" settled" if settle else b" acked") + b"\\n")
        sys.stdout.buffer.flush()

async def main():
    async with opened(Path(sys.argv[1])) as spool:
        async for one in spool.replay():
            pass
        sys.stdout.buffer.write(b"ready\\n")
        sys.stdout.buffer.flush()
        await asyncio.gather(*(sender(spool, who, random.Random(who)) for who in range(8)))

asyncio.run(main())
"""


async def test_every_acknowledged_record_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "spool.db"
    rng = random.Random(7)
    acked: set[bytes] = set()
    for life in range(10):
        child = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
            [sys.executable, "-c", APPENDER, str(path), str(life)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        begun = [child.stdout.readline() for _ in range(10)]
        await asyncio.sleep(rng.uniform(0.01, 0.25))
        child.send_signal(signal.SIGKILL)
        lines = b"".join([*begun, child.stdout.read()]).split(b"\n")[:-1]
        child.stdout.close()
        child.wait()
        acked |= {line.removesuffix(b" acked") for line in lines if line.endswith(b" acked")}
    metrics = Metrics()
    found = {payload[: payload.index(b":") + 1] for payload in await left(path, metrics)}
    assert len(acked) > 50
    assert acked <= found
    assert damaged(metrics) == 0


# -- a disk that is full or fails

FULL_DISK = """
import asyncio, os, random, sys, time
from pathlib import Path
from monitor.errors import Overloaded
from tests.support.spool import left, opened, record

async def main(disk):
    path = disk / "spool" / "spool.db"
    rng = random.Random(1)
    acked = []

    async def fill(spool):
        while True:
            payload = rng.randbytes(50_000)
            began = time.monotonic()
            try:
                ack = await spool.append(record(payload))
            except Overloaded:
                assert time.monotonic() - began < 20, "a refusal took too long"
                return
            acked.append((payload, ack))

    async with opened(path) as spool:
        await fill(spool)
        assert 10 < len(acked) < 80, len(acked)
        for _, ack in acked[:-5]:  # the reserve must leave room to delete
            ack.settle()
        del acked[:-5]
        for _ in range(600):
            await asyncio.sleep(0.1)
            before = len(acked)
            await fill(spool)
            if len(acked) > before:
                break
        else:
            raise AssertionError("no recovery after deletions")
        # somebody else takes all the rest of the disk
        with open(disk / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                pass
        for _ in range(20):
            try:
                acked.append((b"tiny", await spool.append(record(b"tiny"))))
            except Overloaded:
                break
        else:
            raise AssertionError("accepted on a full disk")
    try:
        survivors = await left(path)  # starting on a full disk
        assert survivors == [payload for payload, _ in acked], "lost on a full disk"
    finally:
        os.unlink(disk / "ballast")
    async with opened(path) as spool:
        async for one in spool.replay():
            one.ack.settle()
        for _ in range(600):
            try:
                await spool.append(record(b"again"))
                break
            except Overloaded:
                await asyncio.sleep(0.1)
        else:
            raise AssertionError("no recovery once there was space")
    assert await left(path) == [b"again"]
    print("fine")

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_full_disk_refuses_loses_nothing_and_recovers(tmp_path: Path) -> None:
    """On a real file system of 4 MiB, in a mount namespace of its own."""
    unshare = require("unshare", "util-linux")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = [
        unshare,
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=4m none "$0" && exec "$@"',
        str(disk),
    ]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        unavailable("a mount namespace")
    done = subprocess.run(
        [*mount, sys.executable, "-c", FULL_DISK, str(disk)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    assert done.stdout == "fine\n", done.stderr


async def test_a_write_that_fails_is_overloaded_and_the_next_good_one_works(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes real writes fail without any privilege."""
    path = tmp_path / "spool.db"
    metrics = Metrics()
    rng = random.Random(2)
    acked = []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with opened(path, metrics) as spool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
        try:
            with pytest.raises(Overloaded):  # noqa: PT012 - which of them fails is the disk's choice
                for _ in range(100):
                    payload = rng.randbytes(50_000)
                    await spool.append(record(payload))
                    acked.append(payload)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with anyio.fail_after(120):
            while True:
                try:
                    await spool.append(record(b"works again"))
                    break
                except Overloaded:
                    await anyio.sleep(0.05)
    assert acked
    assert await left(path, metrics) == [*acked, b"works again"]
    assert damaged(metrics) == 0


async def test_it_starts_on_a_disk_that_takes_nothing_and_works_when_it_does(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        async with opened(path) as spool:
            with pytest.raises(Overloaded):
                await spool.append(record(b"refused"))
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            with anyio.fail_after(120):
                while True:
                    try:
                        await spool.append(record(b"accepted"))
                        break
                    except Overloaded:
                        await anyio.sleep(0.05)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert await left(path) == [b"accepted"]


# -- damaged files


def good_spool(folder: Path, count: int) -> tuple[Path, list[bytes]]:
    """A closed spool, its log folded in, with a record of 1 to 5 pages each and holes where others were settled."""
    rng = random.Random(3)
    path = folder / "good" / "spool.db"
    payloads = [b"%d:" % n + rng.randbytes(rng.randrange(PAGE, 5 * PAGE)) for n in range(count)]

    async def fill() -> None:
        async with opened(path) as spool:
            for n, payload in enumerate(payloads):
                ack = await spool.append(record(payload))
                if n % 4 == 0:
                    ack.settle()

    asyncio.run(fill())
    return path, [payload for n, payload in enumerate(payloads) if n % 4]


def copied(path: Path, folder: Path) -> Path:
    folder.mkdir()
    for one in path.parent.iterdir():
        shutil.copy(one, folder / one.name)
    return folder / path.name


async def survived(path: Path, expected: list[bytes]) -> tuple[int, float]:
    """Start on a damaged file: how many records were lost and how many were counted. It must work like new after."""
    metrics = Metrics()
    async with opened(path, metrics) as spool:
        replayed = [one.record.payload async for one in spool.replay()]
        await spool.append(record(b"new"))
    assert set(replayed) <= set(expected), "a damaged record was handed out"
    assert len(set(replayed)) == len(replayed)
    again = Metrics()
    assert await left(path, again) == [*replayed, b"new"]
    assert damaged(again) == 0, "the damage was not repaired for good"
    return len(expected) - len(replayed), damaged(metrics)


def test_flipped_bytes_anywhere_cost_only_the_records_they_hit(tmp_path: Path) -> None:
    path, expected = good_spool(tmp_path, 14)
    size = path.stat().st_size
    rng = random.Random(4)
    total = 0
    for page in range(size // PAGE):
        places = (0, rng.randrange(8, 200), PAGE - rng.randrange(1, 200))
        for place in places if page < 4 else [places[page % 3]]:
            damaged_copy = copied(path, tmp_path / f"{page}-{place}")
            with damaged_copy.open("r+b") as file:
                file.seek(page * PAGE + place)
                old = file.read(8)
                file.seek(page * PAGE + place)
                file.write(bytes(b ^ 0x5A for b in old))
            lost, counted = asyncio.run(survived(damaged_copy, expected))
            assert (lost > 0) <= (counted > 0), f"page {page}, byte {place}: lost {lost} without counting"
            if page > 2:
                assert lost <= 8, f"page {page}, byte {place}: lost {lost} of {len(expected)}"
            total += lost
            shutil.rmtree(damaged_copy.parent)
    assert total


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.9, 0.99])
def test_a_truncated_file_keeps_what_is_before_the_cut(tmp_path: Path, share: float) -> None:
    path, expected = good_spool(tmp_path, 24)
    cut = int(path.stat().st_size * share)
    os.truncate(path, cut)
    lost, counted = asyncio.run(survived(path, expected))
    if share >= 0.3:
        assert lost <= len(expected) * (1 - share) + 8
    if lost and cut:
        assert counted
        assert list(path.parent.glob("spool.db.damaged-*")), "the damaged file was not kept"


def test_a_file_that_is_cut_within_a_page_keeps_what_is_before_that_page(tmp_path: Path) -> None:
    path, expected = good_spool(tmp_path, 24)
    pages = path.stat().st_size // PAGE
    for page in range(pages // 3, pages):
        cut = page * PAGE + PAGE // 10
        damaged_copy = copied(path, tmp_path / str(page))
        os.truncate(damaged_copy, cut)
        lost, counted = asyncio.run(survived(damaged_copy, expected))
        assert lost <= len(expected) * (1 - page / pages) + 8, f"cut in page {page}: lost {lost}"
        assert not lost or counted
        shutil.rmtree(damaged_copy.parent)


def test_bytes_flipped_in_the_log_are_noticed(tmp_path: Path) -> None:
    """The log holds what came since the last checkpoint; SQLite itself passes over all that follows a damaged frame."""
    path = tmp_path / "spool.db"

    async def fill() -> list[bytes]:
        async with opened(path) as spool:
            payloads = [b"%d:" % n + bytes(5000) for n in range(20)]
            for payload in payloads:
                await spool.append(record(payload))
            (tmp_path / "crashed").mkdir()
            for one in sorted(tmp_path.glob("spool.db*")):  # noqa: ASYNC240 - nothing else runs
                shutil.copy(one, tmp_path / "crashed" / one.name)
        return payloads

    expected = asyncio.run(fill())
    crashed = tmp_path / "crashed" / "spool.db"
    log = crashed.with_name("spool.db-wal")
    image = bytearray(log.read_bytes())
    for place in (5, 20, 32 + 30, len(image) // 2, len(image) - 100):
        log.write_bytes(bytes(image[:place]) + bytes([image[place] ^ 0xFF]) + bytes(image[place + 1 :]))
        work = copied(crashed, tmp_path / f"log-{place}")
        lost, counted = asyncio.run(survived(work, expected))
        assert lost
        assert counted >= 1, f"byte {place} of the log: {lost} lost, none counted"
        shutil.rmtree(work.parent)


def test_a_file_that_is_no_database_is_put_aside_and_a_fresh_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    path.write_bytes(b"not a database, but somebody's text\n" * 1000)
    asyncio.run(survived(path, []))
    (aside,) = tmp_path.glob("spool.db.damaged-*")
    assert aside.read_bytes().startswith(b"not a database")


def test_a_repair_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    path, expected = good_spool(tmp_path, 8)
    path.rename(path.with_name("spool.db.rebuilt"))
    path.write_bytes(b"the damaged one")
    lost, _ = asyncio.run(survived(path, expected))
    assert lost == 0
