from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.kafka import Broker

TIMES = int(os.environ.get("PROPERTY_TIMES", "0"))
"""0 tries the same examples on every machine; N draws new ones, N times as many."""

# Two busy cores are no place for deadlines or for a limit on the time that drawing takes.
settings.register_profile(
    "project",
    max_examples=50 * max(TIMES, 1),
    derandomize=not TIMES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


def pytest_collection_finish() -> None:
    """Take what was imported out of the reach of garbage collection: it stays, and each look at it costs time."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """No bytes in the name of a test: compressed ones may hold the time, and every process must find the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running Kafka that tests share: topics and groups of their own names, and nobody stops it."""
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker
    shutil.rmtree(broker.folder)
