"""What `rag-monitor calibrate` prints: one JSON object, or a table with a column for each judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import orjson

from monitor.cli.calibrated import Calibrated, Calibration
from monitor.cli.console.table import align, without_empty
from monitor.quantities import percent
from monitor.statistics.correction import Corrected, Share
from monitor.statistics.rates import Estimate


def as_json(found: Calibrated) -> str:
    """One JSON object; shares from 0 to 1, null where nothing is known."""
    return orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2).decode()


def lines(found: Calibrated) -> Iterator[str]:
    """What the labels say, a column for each judge."""
    notes = [f"{found.unmatched} of them belong to none"] if found.unmatched else []
    notes += [f"{found.disputed} results with contradicting labels are left out"] if found.disputed else []
    yield "; ".join([f"{found.labels} labels, {found.results} results with a verdict", *notes])
    if not found.judges:
        return
    yield ""
    table = [_column(one) for one in found.judges]
    names = ["", "  version", "labelled defective", "labelled good", "sensitivity", "  95 % interval", "specificity"]
    names += ["  95 % interval", "raw defect rate", "  95 % interval", "corrected rate", "  95 % interval", "  by"]
    yield from align(without_empty(zip(names, *table, strict=True)))


def _column(one: Calibration) -> list[str]:
    return [
        one.judge.evaluator,
        one.judge.version,
        str(one.quality.defects),
        str(one.quality.good),
        *_share(one.quality.sensitivity),
        *_share(one.quality.specificity),
        percent(one.raw.rate),
        _limits(one.raw),
        percent(one.corrected.rate) if one.corrected else "-",
        _limits(one.corrected) if one.corrected else "-",
        one.method,
    ]


def _share(share: Share | None) -> tuple[str, str]:
    return (percent(share.value), _limits(share)) if share else ("-", "-")


def _limits(one: Share | Estimate | Corrected) -> str:
    return f"{percent(one.lower)} to {percent(one.upper)}"
