from __future__ import annotations

import gc
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import suite
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only files that need nothing but Python and a few minutes")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    of_tests = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if of_tests and config.option.quick and suite.left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files into the order in which the processes of one run take them."""
    if not hasattr(config, "workerinput"):
        return
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    items[:] = [item for file in suite.in_order(list(files)) for item in files[file]]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.quick:
        terminalreporter.section("not run here: `make test-all` runs them where they find what they need")
        for reason, files in suite.all_left_out().items():
            terminalreporter.write_line(f"{reason}: {', '.join(files)}")


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
