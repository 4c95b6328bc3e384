"""How good judges are by the labels in the storage folder, and where they err: the same figures as in the UI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from monitor.clock import Clock
from monitor.config import Config
from monitor.jobs.diagnosis.words import in_words
from monitor.jobs.review.effects import JudgeMeasure, by_result, calibration, measure
from monitor.jobs.review.errors import find_errors
from monitor.jobs.review.orders import NEWEST_AT_MOST
from monitor.model.label import Label
from monitor.operations.labels import LabelFilter, stored_labels
from monitor.statistics.judge_errors import JudgeErrors
from monitor.storage import files
from monitor.storage.history.judged import JudgedReader

__all__ = ["JudgeReport", "in_words", "judge_reports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """A judge, measured by the labels of one app: how good it is, and what its errors have in common."""

    app: str
    measure: JudgeMeasure
    errors: JudgeErrors

    def as_object(self) -> dict[str, Any]:
        """Return it in plain JSON types; shares are 0 to 1, null if there are too few labels."""
        errors = asdict(self.errors)
        for one, plain in zip(self.errors.factors, errors["factors"], strict=True):
            plain |= {
                "factor": one.factor._asdict(),
                "parts": [part._asdict() for part in one.parts],
                "likewise": [each._asdict() for each in one.likewise],
            }
        return {"app": self.app, **asdict(self.measure), "errors": errors}


def judge_reports(config: Config, wanted: LabelFilter, clock: Clock) -> list[JudgeReport]:
    """Measure each judge on each app, in the version of the newest label that measures it.

    Blocks for some seconds if there are thousands of labels. Raises `MonitorError` if files cannot be read.
    """
    places: dict[tuple[str, str], list[Label]] = {}
    for one in stored_labels(config, wanted):
        if one.draw.measures:
            places.setdefault((one.app, one.evaluator), []).append(one)
    folder, since = config.storage.path, clock.now() - config.storage.retention
    judged = JudgedReader(folder / files.HISTORY)
    found = []
    for (app, evaluator), labels in sorted(places.items()):
        version = max(labels, key=lambda one: one.at).version
        known = by_result(one for one in labels if one.version == version)
        frame = judged.reviewable(app, evaluator, version, since, NEWEST_AT_MOST)
        summed = calibration(evaluator, version, known, lambda _, frame=frame: frame)  # type: ignore[misc]
        errors = find_errors(folder, _slices(config), app, evaluator, known)
        found.append(JudgeReport(app=app, measure=measure(summed, known), errors=errors))
    return found


def _slices(config: Config) -> Sequence[str]:
    return tuple(config.slices)
