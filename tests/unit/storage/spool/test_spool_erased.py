"""With `erase` nothing of a delivery is left in the spool's files soon after it was done with."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from isal import isal_zlib

from monitor.clock import ManualClock
from monitor.storage.spool import SpoolRecord, open_spool
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


def parts(payload: bytes) -> list[bytes]:
    """Stretches of the delivery as it is written: compressed, over several pages."""
    written = isal_zlib.compress(payload, 1)
    return [written[at : at + 64] for at in range(0, len(written) - 64, 4096)]


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def test_it_is_overwritten_in_the_file_and_in_its_log(tmp_path: Path) -> None:
    metrics = Metrics()
    payloads = [os.urandom(100_000) for _ in range(3)]
    options = {
        "at_most": 1 << 26,
        "keep": 3600.0,
        "clock": ManualClock(),
        "metrics": metrics,
        "events": Events(metrics),
    }
    async with open_spool(tmp_path / "spool.db", erase=True, **options) as spool:
        acks = [await spool.append(SpoolRecord("otlp_http", "traces", 1.0, payload)) for payload in payloads]
        assert all(part in on_disk(tmp_path) for payload in payloads for part in parts(payload))
        for ack in acks:
            ack.settle()
        with anyio.fail_after(120):
            while any(part in on_disk(tmp_path) for payload in payloads for part in parts(payload)):  # noqa: ASYNC110 - no event tells of the disk
                await anyio.sleep(0.05)
