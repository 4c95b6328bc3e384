"""Measure the shape of `monitor/`: the number of wings, their imports, and the files that one request passes.

    python -m tests.support.shape [CHECKOUT ...]

Prints one column for each checkout (default: this one), so that a branch can be compared with the commit before it. The
last rows run the monitor of that checkout, send it one recorded request of three spans over OTLP/HTTP, and follow the
calls inside `monitor/` until its first evaluation is counted.

A *wing* is an entry at the top of `monitor/`: a folder, or a file.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

REPOSITORY = Path(__file__).parents[2]
REQUEST = Path(__file__).parents[1] / "data" / "three_spans.json"

FILES_PASSED = "files that a request passes"
LIMITS = {
    "entries at the top of monitor/": 30,
    "pairs of wings that know each other": 190,
    "circles of wings": 0,
    "circles of files": 0,
    "imports of _private modules across folders": 0,
    "class names with two meanings": 0,
    # Added since the limit was 65: several requests a trace (extraction/partition), the poison guard
    # (storage/spool/poison), the count of sessions (pipeline/metrics/sessions), answers in another language or
    # that refuse (evaluators/_language, _refusals, _fold), and what can be read in a worker process
    # (pipeline/complete, pipeline/local_evaluation).
    FILES_PASSED: 68,
}
"""The limits for `monitor/`, by the names of the figures; `test_shape.py` in unit and integration check them."""


BESIDE = ("app/memory", "jobs/", "storage/request_log/recorder", "storage/state_file")
"""Prefixes of the paths of files that run on a timer: on a slow machine their turn may come during the request."""


@dataclass(frozen=True)
class Imports:
    """The imports between files of a package; paths are relative to the package, without `.py`."""

    files: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @property
    def between_wings(self) -> set[tuple[str, str]]:
        return {(wing(a), wing(b)) for a, b in self.pairs if wing(a) != wing(b)}

    @property
    def of_private_modules(self) -> set[tuple[str, str]]:
        """Imports of a module whose name begins with `_` from outside its folder."""
        return {(a, b) for a, b in self.pairs if _is_private(b) and not f"{a}/".startswith(f"{_home(b)}/")}


def wing(path: str) -> str:
    """Return the top-level entry of the package that `path` belongs to."""
    return path.split("/", 1)[0]


def _is_private(path: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in path.split("/"))


def _home(path: str) -> str:
    """Return the folder of the first private part of `path`."""
    parts = path.split("/")
    first = next(n for n, part in enumerate(parts) if part.startswith("_") and not part.startswith("__"))
    return "/".join(parts[:first])


def sources(package: Path) -> dict[str, ast.Module]:
    """Return every Python file of a package, parsed, by its path without `.py`; a subpackage by its folder."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).with_suffix("").as_posix()
        found[name.removesuffix("/__init__")] = ast.parse(path.read_text())
    return found


def imports(trees: Mapping[str, ast.Module], package: str = "monitor") -> Imports:
    """Return the imports within a package, wherever in a file they are."""
    pairs = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            for target in _targets(node, package):
                known = _longest(target, trees)
                if known is not None and known != name:
                    pairs.add((name, known))
    return Imports(frozenset(trees), frozenset(pairs))


def _targets(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for name in names:
        if name == package or name.startswith(f"{package}."):
            yield name.removeprefix(package).lstrip(".").replace(".", "/")


def _longest(target: str, known: Mapping[str, object]) -> str | None:
    """Return the file that defines `target`, a module or a name in one; None for the package itself."""
    while target and target not in known:
        target = target.rpartition("/")[0]
    return target or None


def circles(pairs: set[tuple[str, str]] | frozenset[tuple[str, str]]) -> list[set[str]]:
    """Return the groups of two or more that import each other, directly or indirectly (strong components)."""
    onward: dict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        onward[a].add(b)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for after in onward[left.pop()] - seen:
                seen.add(after)
                left.append(after)
        return seen

    reach = {name: reached(name) for name in list(onward)}
    groups = []
    for name in sorted(reach):
        group = {other for other in reach[name] if name in reach.get(other, ())}
        if group and group not in groups:
            groups.append(group)
    return groups


def repeated_classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the names of classes at the top level of more than one file, with these files."""
    where: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(name)
    return {name: files for name, files in sorted(where.items()) if len(files) > 1}


@dataclass(frozen=True)
class Way:
    """The path of one request: the files whose functions were called, in the order of the calls."""

    calls: list[str]

    @property
    def files(self) -> set[str]:
        return set(self.calls)

    @property
    def wings(self) -> list[str]:
        """Return the wings, with one entry each time that the request enters one from another."""
        stays: list[str] = []
        for name in map(wing, self.calls):
            if not stays or stays[-1] != name:
                stays.append(name)
        return stays

    @property
    def returns(self) -> int:
        """Return how often it enters a wing in which it was before."""
        return len(self.wings) - len(set(self.wings))


def follow(checkout: Path) -> Way:
    """Run the monitor of `checkout`, send one request and follow it until the counter of evaluations moves.

    It is read in the same process: a worker's calls cannot be followed from here.
    """
    from tests.support.tools import free_port, wait_until

    with tempfile.TemporaryDirectory(prefix="rag-monitor-shape-") as folder:
        here = Path(folder)
        http, metrics = free_port(), free_port()
        config = {
            "sources": [{"type": "otlp_http", "port": http}],
            "sinks": [{"type": "prometheus", "port": metrics}],
            "evaluators": [{"type": "overlap_groundedness"}],
            "context_rates": False,
            "alerts": [],
            "scoring": {"processes": 0},
            "storage": {"path": str(here / "state")},
            "assembly": {"grace_period": "100ms"},
        }
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        earlier = [config, {key: value for key, value in config.items() if key != "scoring"}]
        earlier.append({**earlier[-1], "assembly": {"quiet": "100ms"}})  # its former name
        command = [sys.executable, "-m", "monitor", "check", "-c", str(here / "config.json")]
        for each in earlier:
            (here / "config.json").write_text(json.dumps(each))
            if not subprocess.run(command, env=environment, cwd=checkout, capture_output=True, check=False).returncode:
                break
        command = [sys.executable, "-P", __file__, "--traced", str(here / "calls.json"), str(here / "config.json")]
        log = here / "monitor.log"
        with log.open("wb") as out, subprocess.Popen(command, env=environment, cwd=checkout, stderr=out) as monitor:
            try:
                wait_until(lambda: _answers(f"http://127.0.0.1:{metrics}/-/ready"), 60, "readiness")
                time.sleep(1)  # its one-time work after the start is not part of the way
                monitor.send_signal(signal.SIGUSR1)
                time.sleep(0.2)
                body = REQUEST.read_bytes().replace(b'"1790000000', f'"{int(time.time()) - 1}'.encode())
                request = urllib.request.Request(
                    f"http://127.0.0.1:{http}/v1/traces", body, {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request, timeout=60).close()
                wait_until((here / "calls.json").exists, 60, "the count of the evaluation")
            except BaseException:
                print(log.read_text(errors="replace"), file=sys.stderr)
                raise
            finally:
                monitor.kill()
        calls = json.loads((here / "calls.json").read_text())
        first = next(number for number, name in enumerate(calls) if name.endswith("/http_server"))
        return Way(calls[first:])  # calls before the request arrived are not part of its way


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except OSError:
        return False
    return True


def _traced(out: Path, config: Path) -> None:
    """Run the monitor in this process; from SIGUSR1 on its calls are followed, until an evaluation is counted."""
    import monitor

    root = f"{Path(monitor.__file__).parent}{os.sep}"
    calls: list[str] = []
    following = threading.Event()

    def file_of(frame: FrameType) -> str:
        return frame.f_code.co_filename.removeprefix(root).removesuffix(".py").removesuffix("/__init__")

    def files_of(frame: FrameType | None) -> Iterator[str]:
        """Yield the file of a call, and those of its callers."""
        while frame is not None:
            yield file_of(frame)
            frame = frame.f_back

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not following.is_set():
            return
        code = frame.f_code
        if code.co_filename.startswith(root):
            if code.co_name != "<module>" and not any(name.startswith(BESIDE) for name in files_of(frame)):
                calls.append(file_of(frame))
        elif _counts_an_evaluation(frame):
            following.clear()
            partial = out.with_suffix(".part")
            partial.write_text(json.dumps(calls))
            partial.rename(out)

    signal.signal(signal.SIGUSR1, lambda *_: following.set())
    threading.setprofile(profile)
    sys.setprofile(profile)
    from monitor.__main__ import main

    sys.argv = ["rag-monitor", "run", "-c", str(config)]
    main()


def _counts_an_evaluation(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name != "inc" or not code.co_filename.endswith("prometheus_client/metrics.py"):
        return False
    return bool(frame.f_locals["self"]._name == "ragmonitor_evaluations")


def measure(checkout: Path) -> dict[str, int]:
    """Return every figure of one checkout, by its name."""
    way = follow(checkout)
    return {
        **measure_source(checkout / "monitor"),
        FILES_PASSED: len(way.files),
        "wings that it passes": len(set(way.wings)),
        "times it comes back to a wing": way.returns,
    }


def measure_source(package: Path) -> dict[str, int]:
    """Return the figures of a package that its source determines."""
    trees = sources(package)
    known = imports(trees, package.name)
    return {
        "entries at the top of monitor/": len({wing(name) for name in trees}),
        "pairs of wings that know each other": len(known.between_wings),
        "circles of wings": len(circles(known.between_wings)),
        "circles of files": len(circles(known.pairs)),
        "imports of _private modules across folders": len(known.of_private_modules),
        "class names with two meanings": len(repeated_classes(trees)),
        "product files": len(trees),
        "product lines": sum(len(path.read_text().splitlines()) for path in package.rglob("*.py")),
    }


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--traced"]:
        _traced(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    checkouts = [Path(each).resolve() for each in sys.argv[1:]] or [REPOSITORY]
    columns = [measure(each) for each in checkouts]
    width = max(map(len, columns[0]))
    print(" " * width, *(f"{each.name[:14]:>14}" for each in checkouts))
    for name in columns[0]:
        print(f"{name:<{width}}", *(f"{column[name]:>14,}" for column in columns))


if __name__ == "__main__":
    main()
