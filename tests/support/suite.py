"""Which test files `make test` runs, what the others need, and in which order files start."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

TESTS: Final = ROOT / "tests"

COMPUTING: Final = ("contract", "property", "unit")
"""Folders whose tests need only Python, and mostly compute."""

SERVERS: Final = {
    "tests/support/kafka.py": "Apache Kafka: Java 17 and Maven",
    "tests/support/prometheus.py": "Prometheus and Alertmanager",
    "tests/support/collector.py": "the OpenTelemetry Collector: Go",
    "tests/support/browser.py": "Chromium",
    "tests/support/kubernetes.py": "the schemas of Kubernetes: Go",
    "tests/support/deploy.py": "systemd, Docker Compose, hadolint: Go",
    "tests/support/image.py": "root, to build the image",
    "tests/support/containers.py": "podman and buildah: `make containers`",
    "tests/backends/servers.py": "MLflow and Phoenix",
}
"""Helpers that provide a real program, with its name and the tools that it is built with."""

LENGTHY: Final = ("tests/e2e", "tests/integration/test_adding.py", "tests/integration/test_package.py")
"""Files and folders that need only Python but take minutes: they start monitors or pytest many times."""

LONGEST: Final = (
    "tests/e2e/test_states.py",
    "tests/e2e/test_kafka_fleet.py",
    "tests/e2e/test_whole_stack.py",
    "tests/e2e/test_kafka_group.py",
    "tests/e2e/test_backfill.py",
    "tests/e2e/test_workers.py",
    "tests/e2e/test_trouble.py",
    "tests/e2e/test_severity.py",
    "tests/e2e/test_every_answer.py",
    "tests/e2e/test_lifecycle.py",
    "tests/e2e/test_memory.py",
    "tests/integration/test_adding.py",
    "tests/e2e/test_alert_arrives.py",
)
"""The slowest files, in this order: if started last, one of them would run alone at the end."""


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Return the files of the tests and the monitor that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
    places = [ROOT / name.replace(".", "/") for name in names if name.startswith(("tests.", "monitor."))]
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return frozenset(file for file in files if file.exists())


@cache
def reached(path: Path) -> frozenset[Path]:
    """Return the files of tests and monitor that a file imports, directly or indirectly, and the file itself."""
    seen, waiting = {path}, [path]
    while waiting:
        for one in _imported(waiting.pop()) - seen:
            seen.add(one)
            waiting.append(one)
    return frozenset(seen)


def needs(path: Path) -> list[str]:
    """Return what a test file needs besides Python: named by the helpers that it imports, or requested by itself."""
    found = [name for helper, name in SERVERS.items() if ROOT / helper in reached(path)]
    asked = re.findall(r"\brequire\(\"([\w-]+)\"", path.read_text())
    return found or list(dict.fromkeys(asked))


def left_out(path: Path) -> str:
    """Return why `make test` leaves out a file, or "" if it runs it."""
    inner = path.relative_to(ROOT)
    if inner.parts[1] in COMPUTING:
        return ""
    if missing := needs(path):
        return missing[0]
    lengthy = any(inner.is_relative_to(one) for one in LENGTHY)
    return "minutes: they start monitors or pytest again and again" if lengthy else ""


def all_left_out() -> dict[str, list[str]]:
    """Return the files that `make test` leaves out, by what they need."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        if reason := left_out(path):
            found[reason].append(str(path.relative_to(TESTS)))
    return dict(sorted(found.items()))


def in_order(files: list[str]) -> list[str]:
    """Order files so that waiting and computing ones run side by side, and the slowest start first."""
    rest = [file for file in files if file not in LONGEST]
    computing = [file for file in rest if file.split("/")[1] in COMPUTING]
    waiting = [file for file in rest if file not in set(computing)]
    mixed = chain.from_iterable(zip_longest(waiting, computing))
    return [*(file for file in LONGEST if file in files), *(file for file in mixed if file is not None)]
