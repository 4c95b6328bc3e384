"""What `rag-monitor calibrate` leaves behind: the labels' sums, for Prometheus and for the running monitor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile

from monitor import calibration
from monitor.cli.calibrated import Calibrated
from monitor.errors import ConfigError
from monitor.statistics.rates import Sums
from monitor.telemetry.metrics import Metrics


def write_metrics(found: Calibrated, path: Path) -> None:
    """Write the labels' sums in the text format of Prometheus, never half. Raises `ConfigError`."""
    metrics, registry = Metrics(), CollectorRegistry()
    calibration.export(_kept(found), metrics)
    for gauge in (*calibration.label_gauges(metrics), *calibration.result_gauges(metrics)):
        registry.register(gauge)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise ConfigError(f"--metrics: {path} cannot be written: {error.strerror}") from None


def save(found: Calibrated, folder: Path) -> None:
    """Keep the labels' sums for the monitor whose `storage` is `folder`. Raises `ConfigError`."""
    try:
        calibration.save(calibration.Calibration(judges=_kept(found)), folder)
    except OSError as error:
        raise ConfigError(f"--save: {folder / calibration.FILE} cannot be written: {error.strerror}") from None


def _kept(found: Calibrated) -> list[calibration.Judge]:
    return [
        calibration.Judge(
            evaluator=one.judge.evaluator,
            version=one.judge.version,
            cells=[calibration.Cell(**asdict(cell)) for cell in one.cells],
            audited=list(_drawn(one.audited)) if one.audited is not None else [],
        )
        for one in found.judges
    ]


def _drawn(raw: Sums) -> Iterator[calibration.Drawn]:
    good = max(raw.weight - raw.defect_weight, 0.0)
    for defect, results, weight, squares in (
        (True, raw.defects, raw.defect_weight, raw.defect_weight_squares),
        (False, raw.judged - raw.defects, good, raw.good_weight_squares),
    ):
        yield calibration.Drawn(verdict=defect, results=results, weight=weight, weight_squares=squares)
