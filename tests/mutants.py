"""Mutation testing, sampled: changes one place of the code at a time and sees whether a test fails. `make mutants`.

python -m tests.mutants                                     # 35 places of each wing, the same ones every time
python -m tests.mutants --wings statistics --size 200 --seed 7
python -m tests.mutants --only statistics/limits.py:88      # all that the sample has there, with what the tests print

cosmic-ray makes the mutants; it has an environment of its own, .venv-mutants. They are written to copies of the
checkout, one for each lane. A mutant is killed if `make test` would notice it in its wing: if one of the unit tests
named after its file fails, else another unit test of the wing, else one of the property tests. The tests of the
dialects and of the shapes of rows count as unit tests of `extraction`, which reads them. Tests that fail have killed
a mutant only if they pass without it: files of tests that are not yet known to pass are run once more on the original,
and if they fail there, the command ends. Annotations are no code and are not mutated. Nothing else is excused: a mutant
that means the same as the original counts as a survivor.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.exception_replacer import ExceptionReplacer
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Name, PythonNode
from parso.tree import NodeOrLeaf

from tests.support.paths import ROOT
from tests.support.suite import reached

WINGS: Final = ("statistics", "pipeline", "storage", "extraction")

BESIDE: Final[dict[str, tuple[str, ...]]] = {"extraction": ("unit/conventions", "contract/test_row_shapes.py")}
"""Tests of a wing that stand elsewhere, below `tests/`: what a dialect reads is read by what all dialects share."""

PROCESSOR_SECONDS: Final = 120
"""Of each process of the tests of one mutant: a loop that no longer ends is killed, however busy the machine is."""

WALL_SECONDS: Final = 1200
"""A mutant that waits for ever uses no processor time."""


class Place(NamedTuple):
    """A place that an operator of cosmic-ray can change."""

    file: str
    """Below `monitor/`."""
    line: int
    column: int


class Mutant(NamedTuple):
    """One change at a place."""

    place: Place
    operator: str
    occurrence: int
    """Which of the changes that the operator can make in the file."""

    def __str__(self) -> str:
        return f"{self.place.file}:{self.place.line} {self.operator.partition('/')[2]}"

    def code(self) -> str:
        """Return the changed file."""
        source = (ROOT / "monitor" / self.place.file).read_text()
        changed = mutate_code(source, _operator(self.operator)(), self.occurrence)
        if changed is None or not _means_other(changed, source):
            sys.exit(f"{self} changes nothing, or is no Python: a fault of its operator")
        return changed

    def change(self) -> str:
        """Return the line before and after."""
        before = (ROOT / "monitor" / self.place.file).read_text().splitlines()
        lines = difflib.unified_diff(before, self.code().splitlines(), n=0, lineterm="")
        return "\n".join(f"    {one}" for one in lines if not one.startswith(("---", "+++", "@@")))


def _means_other(changed: str, source: str) -> bool:
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class _WholeNames(ExceptionReplacer):
    """Replaces one exception that an `except` names.

    That of cosmic-ray takes the dot of `except sqlite3.Error` for the name, and in `except (sqlite3.Error, OSError)` it
    changes nothing.
    """

    def mutate(self, node: PythonNode, index: int) -> PythonNode:
        old = self._name_nodes(node)[index]
        siblings = old.parent.children
        new = Name("CosmicRayTestingException", old.start_pos, old.get_first_leaf().prefix)
        siblings[siblings.index(old)] = new
        return node

    @staticmethod
    def _name_nodes(node: PythonNode) -> list[NodeOrLeaf]:
        caught = node.children[1]
        if caught.type != "atom":
            return [caught]
        inner = caught.children[1]
        return inner.children[::2] if inner.type == "testlist_comp" else [inner]


def _operator(name: str) -> type[Operator]:
    kind: type[Operator] = get_operator(name)
    return _WholeNames if kind is ExceptionReplacer else kind


def _is_mark(node: NodeOrLeaf) -> bool:
    """Whether it is a `*`, `**` or `/` that unpacks or parts parameters; cosmic-ray takes some for arithmetic."""
    return node.type == "operator" and node.value in ("*", "**", "/") and node.parent.type not in ("term", "power")


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where the annotations of a file begin and end."""
    found = []
    for node in ast.walk(ast.parse(source)):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        found += [((one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)) for one in parts if one]
    return found


def _mutants(file: Path) -> Iterator[Mutant]:
    """Yield all mutants of a file below `monitor/`."""
    source = file.read_text()
    name = str(file.relative_to(ROOT / "monitor"))
    nodes, annotations = list(ast_nodes(get_ast(source))), _annotations(source)
    for operator in sorted(operator_names()):
        kind = _operator(operator)
        if kind.arguments():
            continue
        made, occurrence = kind(), 0
        for node in nodes:
            for at, _ in made.mutation_positions(node):
                if not _is_mark(node) and not any(begin <= at < end for begin, end in annotations):
                    yield Mutant(Place(name, *at), operator, occurrence)
                occurrence += 1


def sample(wing: str, size: int, seed: int) -> list[Mutant]:
    """Draw places of a wing uniformly, and one mutant of each: an operator with many forms has no more weight."""
    at_place: dict[Place, list[Mutant]] = defaultdict(list)
    for file in sorted((ROOT / "monitor" / wing).rglob("*.py")):
        for mutant in _mutants(file):
            at_place[mutant.place].append(mutant)
    draw = random.Random(f"{seed} {wing}")
    places = draw.sample(sorted(at_place), min(size, len(at_place)))
    return [draw.choice(at_place[place]) for place in places]


@cache
def tests_of(file: str) -> list[list[str]]:
    """Return the tests that a mutant of a file below `monitor/` must pass, those named after it first.

    Then the other unit tests of its wing that import it, directly or not, with those beside, and then such property
    tests.
    """
    module = Path(file)
    topic = module.parent.name if module.stem == "__init__" else module.stem.lstrip("_")
    unit = ROOT / "tests" / "unit"
    named = re.compile(rf"test_{topic}(_\w+)?\.py")
    own = {one for one in (unit / module.parent).rglob("test_*.py") if named.fullmatch(one.name)}
    places = [unit / module.parts[0], *(ROOT / "tests" / one for one in BESIDE.get(module.parts[0], ()))]
    found = (one for place in places for one in ([place] if place.is_file() else place.rglob("test_*.py")))
    of_wing = {one for one in found if _reaches(one, file)}
    properties = {one for one in (ROOT / "tests" / "property").glob("*.py") if _reaches(one, file)}
    return [sorted(str(one.relative_to(ROOT)) for one in files) for files in (own, of_wing - own, properties) if files]


def _reaches(test: Path, file: str) -> bool:
    return ROOT / "monitor" / file in reached(test)


def _copy(folder: Path) -> None:
    """Copy the checkout as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))


class _Ran(NamedTuple):
    """What became of tests."""

    passed: bool
    failed: list[str]
    """The files of those that failed; empty also where pytest did not come to say it."""


def _run(folder: Path, tests: list[str], *, shown: bool = False) -> _Ran:
    """Run tests in a copy until the first that fails. Tests that reach a limit have failed."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # to compile all for every mutant takes longer than its tests
    pytest = [str(ROOT / ".venv" / "bin" / "pytest"), "-x", "-q", "--quick", "-p", "no:xdist", "--tb=short", *tests]
    with tempfile.TemporaryFile() as output:
        try:
            ran = subprocess.run(
                pytest,
                cwd=folder,
                env=environment,
                timeout=WALL_SECONDS,
                check=False,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_limit,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return _Ran(passed=False, failed=[])
        output.seek(0)
        text = output.read().decode(errors="replace")
    if shown:
        print(text, flush=True)
    return _Ran(ran.returncode == 0, re.findall(r"^(?:FAILED|ERROR) (tests/\S+?\.py)", text, re.MULTILINE))


class _Copies:
    """Copies of the checkout, one for each lane, and what is known of the tests."""

    def __init__(self, parent: Path, lanes: int, *, shown: bool) -> None:
        self._shown = shown
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._green: set[str] = set()  # files of tests that pass on the original, or passed on a mutant
        self._checking = Lock()
        self._times = count(1)
        for lane in range(lanes):
            _copy(parent / str(lane))
            self._free.put(parent / str(lane))

    def survives(self, mutant: Mutant) -> bool:
        """Put a mutant into a copy, run its tests, put the original back."""
        folder = self._free.get()
        try:
            return all(self._passes_with(mutant, folder, tests) for tests in tests_of(mutant.place.file))
        finally:
            self._free.put(folder)

    def _passes_with(self, mutant: Mutant, folder: Path, tests: list[str]) -> bool:
        path = folder / "monitor" / mutant.place.file
        original, at = path.read_bytes(), path.stat().st_mtime_ns
        path.write_text(mutant.code())
        os.utime(path, (0, next(self._times)))  # no time of another mutant: bytecode is known by time and size
        try:
            ran = _run(folder, tests, shown=self._shown)
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(at, at))
        if ran.passed:
            self._green.update(tests)
        else:
            self._pass_without(folder, ran.failed or tests)
        return ran.passed

    def _pass_without(self, folder: Path, tests: list[str]) -> None:
        """Make sure that tests pass on the original; else their failure tells nothing, and the command ends."""
        with self._checking:
            unknown = [one for one in tests if one not in self._green]
            if unknown and not _run(folder, unknown, shown=self._shown).passed:
                sys.exit(f"tests fail without a mutant; mend them first: {' '.join(unknown)}")
            self._green.update(unknown)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--wings", nargs="+", default=WINGS, metavar="WING")
    parser.add_argument("--size", type=int, default=35, help="places in each wing (35)")
    parser.add_argument("--seed", type=int, default=1, help="draws the places (1)")
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="mutants at once (one for each core)")
    parser.add_argument("--only", help="FILE or FILE:LINE below monitor/: those of the sample that are there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rag-monitor-mutants-") as parent:
        return _report(asked, _Copies(Path(parent), asked.lanes, shown=bool(asked.only)))


def _report(asked: argparse.Namespace, copies: _Copies) -> int:
    """Try every mutant of the sample, print those that survive as they do, and then a table."""

    def tried(mutant: Mutant) -> bool:
        survives = copies.survives(mutant)
        print("survived" if survives else "killed  ", mutant, flush=True)
        if survives:
            print(mutant.change(), flush=True)
        return survives

    table = []
    for wing in asked.wings:
        chosen = [one for one in sample(wing, asked.size, asked.seed) if str(one).startswith(asked.only or "")]
        with ThreadPoolExecutor(asked.lanes) as lanes:
            survived = sum(lanes.map(tried, chosen))
        if chosen:
            table.append(f"{wing:<12}{len(chosen):>8}{len(chosen) - survived:>8}{1 - survived / len(chosen):>8.0%}")
    print(f"{'wing':<12}{'mutants':>8}{'killed':>8}", *table, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
