"""Answers for simulations of sampling: made up, or labelled by people, as a sampler sees them."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import Score
from monitor.statistics.defect_model import INPUTS, inputs

Inputs = tuple[float, ...]


class Row(NamedTuple):
    """An answer as the sampler sees it, and whether the judge calls it a defect."""

    seen: Inputs
    defect: bool
    group: str


def distance(auroc: float) -> float:
    """Return the distance between the means of two normal distributions of deviation 1 that has this AUROC."""
    return math.sqrt(2) * NormalDist().inv_cdf(auroc)


def binormal(auroc: float, size: int, rng: random.Random) -> list[Row]:
    """Return answers, half of them bad. The first input separates them with this AUROC; the others are noise."""
    shift = distance(auroc)
    rest = len(INPUTS) - 1

    def row(number: int) -> Row:
        defect = number % 2 == 1
        noise = (_clipped(rng.gauss(0, 1)) for _ in range(rest))
        return Row((_clipped(rng.gauss(shift * defect, 1)), *noise), defect, str(number))

    return [row(number) for number in range(size)]


def labelled(path: Path) -> list[Row]:
    """Return the answers of a file, with the sampler inputs that the monitor would compute for them."""
    evaluator, rows = OverlapGroundedness(), []
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        row = json.loads(line)
        documents = tuple(Document(text) for text in row["contexts"])
        case = Case(
            request_id=str(number),
            request=Request(row["question"]),
            retrieved_context=documents,
            response=row["response"],
        )
        scored = asyncio.run(evaluator.evaluate(case, None))
        seen = inputs({evaluator.name: scored}, evaluator.name) if isinstance(scored, Score) else None
        if seen is not None:
            group = str(row.get("group") or row["id"].split("<::>")[0])
            rows.append(Row(seen, row["label"] == 1, group))
    return rows


def _clipped(value: float) -> float:
    return min(max(value, -3.0), 3.0)


class Mix(NamedTuple):
    """Rows, and how often each counts, so that they have the requested defect rate."""

    rows: Sequence[Row]
    often: Sequence[float]


def mixed(rows: Sequence[Row], rate: float) -> Mix:
    """Return `rows` at another defect rate."""
    bad = sum(row.defect for row in rows)
    each = (1 - rate) / (len(rows) - bad), rate / bad
    return Mix(rows, [each[row.defect] for row in rows])
