from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.kafka import Broker

# Two busy cores are no place for deadlines; examples found on one machine are written down as tests, not kept.
settings.register_profile("project", deadline=None, database=None)
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
