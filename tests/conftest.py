from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.kafka import Broker

# Two busy cores are no place for deadlines or for a limit on the time that drawing takes. The same examples on every
# machine: a rule that fails for one in a million is found by who looks for it, not by who changes something else.
settings.register_profile(
    "project",
    deadline=None,
    database=None,
    derandomize=os.environ.get("RAG_MONITOR_TEST_EXAMPLES") != "random",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


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
