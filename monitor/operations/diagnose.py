"""Finds when a defect rate rose and what its bad answers have in common, from the history or from files of results.

diagnose_rate(config, app="shop", evaluator="groundedness", window=6 * 3600).found.factors
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from monitor.alerts.policy import own_rules
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.diagnosis import (
    DiagnosisRequest,
    ExampleAnswer,
    RateDiagnosis,
    alert_request,
    as_object,
    diagnose_history,
    diagnose_stored,
)
from monitor.jobs.diagnosis.words import in_words
from monitor.operations.incidents import incident
from monitor.operations.result_files import ResultFiles
from monitor.operations.storage_folder import existing_history
from monitor.storage import files

__all__ = [
    "ExampleAnswer",
    "RateDiagnosis",
    "as_object",
    "diagnose_alert",
    "diagnose_rate",
    "diagnose_results",
    "in_words",
]


def diagnose_rate(
    config: Config, *, app: str, evaluator: str, window: float, clock: Clock | None = None
) -> RateDiagnosis:
    """Diagnose a rate from the history in the storage folder. A monitor may be writing the history.

    Args:
        config: the monitor's configuration; its storage folder and its slices are used.
        app: the service.
        evaluator: the evaluator's name. Its own defect rule applies, not one that an alert defines.
        window: seconds in which the rate is higher; the rise is searched for in twice this time.
        clock: gives the current time.

    Raises `MonitorError` if the history cannot be read, `ConfigError` if the evaluator is not configured.
    """
    known = [one.evaluator.name for one in config.configured_evaluators]
    if evaluator not in known:
        raise ConfigError(f"--evaluator {evaluator}: not one of {', '.join(sorted(known))}")
    now = (clock or SystemClock()).now()
    request = DiagnosisRequest(app, evaluator, window)
    return diagnose_history(existing_history(config.storage.path / files.HISTORY), config.slices, request, now)


def diagnose_alert(config: Config, incident_id: str, *, clock: Clock | None = None) -> RateDiagnosis:
    """Diagnose the rate of an alert, up to now or, if its incident has ended, up to its end.

    Args:
        config: the configuration of the monitor that raised it.
        incident_id: the id of the incident, which is the alert's annotation `incident`.
        clock: gives the current time.

    Raises `MonitorError` if there is no such incident, or the history cannot be read.
    """
    one = incident(config, incident_id).incident
    now = (clock or SystemClock()).now()
    rule = next(
        (rule for rule in own_rules(config.alerts).get(one.evaluator, ()) if rule.name == one.defect_rule), None
    )
    if one.defect_rule and rule is None:
        raise MonitorError(f"incident {one.id}: no alert has the defect rule {one.defect_rule!r:.80} any more")
    return diagnose_history(config.storage.path / files.HISTORY, config.slices, alert_request(one, rule), now)


def diagnose_results(
    paths: Iterable[Path], *, app: str, evaluator: str, window: float, slices: Sequence[str] = ()
) -> RateDiagnosis:
    """Diagnose a rate from files of results, as written by the sinks `jsonl` and `kafka`, of all replicas together.

    The time of the newest result is used as the current time. Rows without texts have no words, documents or lengths.
    Raises `MonitorError` if a file cannot be read.

    Args:
        paths: files with one result per line.
        app: as in `diagnose_rate`.
        evaluator: as in `diagnose_rate`.
        window: as in `diagnose_rate`.
        slices: the configured slices, which are also examined in pairs.
    """
    read = ResultFiles(paths, app, evaluator)
    return diagnose_stored(read, slices, DiagnosisRequest(app, evaluator, window, read.now), unread=read.unread)
