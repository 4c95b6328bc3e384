"""Mutation testing, sampled: changes one place of the code at a time and sees whether a test fails. `make mutants`.

python -m tests.mutants                                     # 35 places of each wing, the same ones every time
python -m tests.mutants --wings statistics --size 200 --seed 7
python -m tests.mutants --only statistics/limits.py:88      # all that the sample has there, with what the tests print

cosmic-ray makes the mutants; it has an environment of its own, .venv-mutants. They are written to copies of the
checkout, one for each lane. A mutant is killed if `make test` would notice it in its wing: if one of the unit tests
named after its file fails, else another unit test of the wing, else one of the property tests. The tests of the
dialects and of the shapes of rows count as unit tests of `extraction`, which reads them. Annotations are no code and
are not mutated. Nothing else is excused: a mutant that means the same as the original counts as a survivor.
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
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

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
        changed = mutate_code(source, get_operator(self.operator)(), self.occurrence)
        assert changed is not None
        return changed

    def change(self) -> str:
        """Return the line before and after."""
        before = (ROOT / "monitor" / self.place.file).read_text().splitlines()
        lines = difflib.unified_diff(before, self.code().splitlines(), n=0, lineterm="")
        return "\n".join(f"    {one}" for one in lines if not one.startswith(("---", "+++", "@@")))


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
        kind = get_operator(operator)
        if kind.arguments():
            continue
        made, occurrence = kind(), 0
        for node in nodes:
            for at, _ in made.mutation_positions(node):
                if not any(begin <= at < end for begin, end in annotations):
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
            shutil.copyfile(ROOT / name, folder / name)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))


def _passes(folder: Path, tests: list[str], *, shown: bool = False) -> bool:
    """Run tests in a copy until the first that fails. Tests that reach a limit have failed."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    pytest = [str(ROOT / ".venv" / "bin" / "pytest"), "-x", "-q", "--quick", "-p", "no:xdist", "--tb=short", *tests]
    try:
        ran = subprocess.run(
            pytest,
            cwd=folder,
            env=environment,
            timeout=WALL_SECONDS,
            check=False,
            stdout=None if shown else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            preexec_fn=_limit,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def _survives(folder: Path, mutant: Mutant, *, shown: bool = False) -> bool:
    """Put a mutant into a copy, run its tests, put the original back."""
    path = folder / "monitor" / mutant.place.file
    original = path.read_bytes()
    path.write_text(mutant.code())
    try:
        return all(_passes(folder, tests, shown=shown) for tests in tests_of(mutant.place.file))
    finally:
        path.write_bytes(original)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--wings", nargs="+", default=WINGS, metavar="WING")
    parser.add_argument("--size", type=int, default=35, help="places in each wing (35)")
    parser.add_argument("--seed", type=int, default=1, help="draws the places (1)")
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="mutants at once (one for each core)")
    parser.add_argument("--only", help="FILE or FILE:LINE below monitor/: those of the sample that are there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rag-monitor-mutants-") as parent:
        folders: SimpleQueue[Path] = SimpleQueue()
        for lane in range(asked.lanes):
            _copy(Path(parent) / str(lane))
            folders.put(Path(parent) / str(lane))
        return _report(asked, folders)


def _report(asked: argparse.Namespace, folders: SimpleQueue[Path]) -> int:
    """Try every mutant of the sample, print those that survive as they do, and then a table."""

    def tried(mutant: Mutant) -> bool:
        folder = folders.get()
        try:
            survives = _survives(folder, mutant, shown=bool(asked.only))
        finally:
            folders.put(folder)
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
