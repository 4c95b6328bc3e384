from __future__ import annotations

import gc
import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support import examples, suite, tools
from tests.support.kafka import Broker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only files that need nothing but Python and a few minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lengthy: computes for seconds, or starts process after process")
    examples.load(quick=config.option.quick)
    tools.quick = config.option.quick
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts the tests in the background has them, and all commands that they start, ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    of_tests = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if of_tests and config.option.quick and suite.left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files into the order in which the processes of one run take them, and let `make test` skip some."""
    for item in items if config.option.quick else ():
        if item.get_closest_marker("lengthy"):
            item.add_marker(pytest.mark.skip(reason="tests that compute for seconds or start process after process"))
    if not hasattr(config, "workerinput"):
        return
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    items[:] = [item for file in suite.in_order(list(files)) for item in files[file]]


def _skipped(reports: Iterable[pytest.TestReport]) -> dict[str, list[str]]:
    """Return the files of tests that were skipped, with how many in each, by the reason."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        found[reason.removeprefix("Skipped: ")][report.nodeid.partition("::")[0].removeprefix("tests/")] += 1
    return {reason: [f"{file} ({number})" for file, number in files.items()] for reason, files in sorted(found.items())}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.quick:
        terminalreporter.reportchars = terminalreporter.reportchars.replace("s", "")  # each is named here, once
        terminalreporter.section("not run here: `make test-all` runs them where they find what they need")
        missing = suite.all_left_out()
        for reason, files in _skipped(terminalreporter.stats.get("skipped", [])).items():
            missing[reason] = [*missing.get(reason, ()), *files]
        for reason, files in missing.items():
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
    tools.not_in_quick("Apache Kafka: Java 17 and Maven")
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker
    shutil.rmtree(broker.folder)
