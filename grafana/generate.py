"""Writes the dashboards to `grafana/dashboards`; `--check` only lists stale files.

python -m grafana.generate [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from grafana.board import to_json
from grafana.boards import judge, overview, pipeline, quality, retrieval, safety

FOLDER = Path(__file__).parent / "dashboards"
BOARDS = {one.__name__.rpartition(".")[2]: one.board for one in (overview, quality, safety, retrieval, judge, pipeline)}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    for name, make in BOARDS.items():
        yield FOLDER / f"{name}.json", to_json(make())


def main() -> int:
    """Return the exit status: 1 if `--check` finds a stale file."""
    only_check = sys.argv[1:] == ["--check"]
    stale = [(path, text) for path, text in texts() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        if not only_check:
            path.write_text(text)
        print("stale:" if only_check else "written:", path.relative_to(FOLDER.parent.parent))  # noqa: T201
    return int(only_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
