"""The boards in the repository: their panels, their queries, and the queries with variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
PATHS = sorted(FOLDER.glob("*.json"))

_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")


class Asked(NamedTuple):
    """One query of a panel."""

    board: str
    panel: str
    ref: str
    expression: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel}: {self.ref}"


def load(path: Path) -> dict[str, Any]:
    board: dict[str, Any] = json.loads(path.read_text())
    return board


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all panels that show something, including those in collapsed rows."""
    found = [inner for one in board["panels"] for inner in (one, *one.get("panels", ()))]
    return [one for one in found if one["type"] != "row"]


def queries(path: Path) -> Iterator[Asked]:
    """Yield every query of a board: those of its panels and of its annotations."""
    board = load(path)
    for panel in panels(board):
        for target in panel["targets"]:
            yield Asked(path.stem, panel["title"], target["refId"], target["expr"])
    for annotation in board["annotations"]["list"]:
        yield Asked(path.stem, "annotations", annotation["name"], annotation["expr"])


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a query as Grafana sends it. Raises `KeyError` for a variable without a value."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def variables(board: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in board["templating"]["list"]}
