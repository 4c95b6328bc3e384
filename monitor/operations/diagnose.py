"""Finds what the bad answers of a risen rate have in common, and since when: from the history, or files of results.

diagnose_rate(config, app="shop", evaluator="groundedness", window=6 * 3600).found.factors
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from monitor.alerts.policy import own_rules
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.diagnosis import (
    BASELINE,
    BASELINE_AT_MOST,
    SEARCHED_AT_MOST,
    DiagnosisRequest,
    ExampleAnswer,
    RateDiagnosis,
    as_object,
    diagnose_answers,
    diagnose_history,
)
from monitor.jobs.diagnosis.words import in_words
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score
from monitor.operations.incidents import incident
from monitor.privacy.pseudonyms import UserKey
from monitor.storage import files
from monitor.storage.history.features import features_of
from monitor.storage.history.reader import JudgedAnswer
from monitor.storage.history.rows import from_json, load

__all__ = [
    "ExampleAnswer",
    "RateDiagnosis",
    "as_object",
    "diagnose_alert",
    "diagnose_rate",
    "diagnose_results",
    "in_words",
]

_SHORTEST: Final = 3600.0  # seconds of a window
_LONGEST_LINE: Final = 4 * 1024**2
_REFUSALS: Final = "refusal_pattern"
_FILE_KEY: Final = UserKey(bytes(32))  # nothing made with it is stored


def diagnose_rate(
    config: Config, *, app: str, evaluator: str, window: float, clock: Clock | None = None
) -> RateDiagnosis:
    """Diagnose from the history in the storage folder, also while a monitor writes it.

    Args:
        config: of the monitor: its storage folder and its slices.
        app: the service.
        evaluator: by its defect rule, not by one that an alert brings itself.
        window: seconds in which the rate is higher; the rise is looked for in twice as many.
        clock: for now.

    Raises `MonitorError` where the history cannot be read, `ConfigError` where the evaluator is not configured.
    """
    known = [one.evaluator.name for one in config.configured_evaluators]
    if evaluator not in known:
        raise ConfigError(f"--evaluator {evaluator}: not one of {', '.join(sorted(known))}")
    now = (clock or SystemClock()).now()
    request = DiagnosisRequest(app, evaluator, window)
    return diagnose_history(config.storage.path / files.HISTORY, config.slices, request, now)


def diagnose_alert(config: Config, incident_id: str, *, clock: Clock | None = None) -> RateDiagnosis:
    """Diagnose the rate of an alert: up to now, or up to the end of its incident.

    Args:
        config: of the monitor that raised it.
        incident_id: of the incident, which the alert carries as the annotation `incident`.
        clock: for now.

    Raises `MonitorError` where there is no such incident, or the history cannot be read.
    """
    one = incident(config, incident_id).incident
    now = (clock or SystemClock()).now()
    until = now if one.ended is None else one.ended
    rule = next(
        (rule for rule in own_rules(config.alerts).get(one.evaluator, ()) if rule.name == one.defect_rule), None
    )
    if one.defect_rule and rule is None:
        raise MonitorError(f"incident {one.id}: no alert has the defect rule {one.defect_rule!r:.80} any more")
    window = max(_SHORTEST, one.peak.window if one.peak is not None else 0.0, until - one.fired)
    request = DiagnosisRequest(one.app, one.evaluator, window, until, rule)
    return diagnose_history(config.storage.path / files.HISTORY, config.slices, request, now)


def diagnose_results(
    paths: Iterable[Path], *, app: str, evaluator: str, window: float, slices: Sequence[str] = ()
) -> RateDiagnosis:
    """Diagnose from files of results, as the sinks `jsonl` and `kafka` write them; those of all replicas together.

    The newest answer is now. Rows without texts have no words, documents and lengths. Raises `OSError`.

    Args:
        paths: files with one result a line.
        app: as in `diagnose_rate`.
        evaluator: as in `diagnose_rate`.
        window: as in `diagnose_rate`.
        slices: the configured ones, which are also looked at two together.
    """
    answers: dict[str, JudgedAnswer] = {}
    refused: dict[str, bool] = {}
    unread = 0
    for line in _lines(paths):
        try:
            one = from_json(load(line))
            if one.case.app != app or not isinstance(one.outcome, Score) or one.score_source is not ScoreSource.OWN:
                continue
            if one.evaluator == _REFUSALS and evaluator != _REFUSALS:
                refused[one.case.request_id] = one.defect
            if one.evaluator == evaluator and one.scope is RateScope.LIVE:
                answers[one.case.request_id] = _answer(one, one.outcome.value)
        except (ValueError, TypeError, AttributeError, KeyError):  # a row of strangers may hold anything
            unread += 1
    now = max((one.at for one in answers.values()), default=0.0)
    newest = heapq.nlargest(
        BASELINE_AT_MOST + SEARCHED_AT_MOST, answers.values(), key=lambda one: (one.at, one.request_id)
    )
    read = [
        one._replace(refused=refused.get(one.request_id)) for one in newest if one.at >= now - 2 * window - BASELINE
    ]
    return diagnose_answers(read, slices, DiagnosisRequest(app, evaluator, window, now), unread=unread)


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                if line.strip():
                    yield line


def _answer(one: EvaluationResult, score: float) -> JudgedAnswer:
    """Read an answer of a file. Raises `ValueError`, `TypeError`, `AttributeError` where it is none."""
    at, weight = min(float(one.case.answered_at or one.evaluated_at), float(one.evaluated_at)), float(one.weight)
    if not (math.isfinite(at) and math.isfinite(weight) and weight > 0):
        raise ValueError("neither a time nor a weight is infinite, and a weight is above 0")
    features = features_of(one.case, one.service_version, _FILE_KEY)
    return JudgedAnswer(str(one.case.request_id), at, weight, bool(one.defect), float(score), features, refused=None)
