"""Finds what the bad answers of a risen rate have in common, and since when: from the history, or files of results.

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
    return diagnose_history(existing_history(config.storage.path / files.HISTORY), config.slices, request, now)


def diagnose_alert(config: Config, incident_id: str, *, clock: Clock | None = None) -> RateDiagnosis:
    """Diagnose the rate of an alert, by its last look up to now, or up to the end of its incident.

    Args:
        config: of the monitor that raised it.
        incident_id: of the incident, which the alert carries as the annotation `incident`.
        clock: for now.

    Raises `MonitorError` where there is no such incident, or the history cannot be read.
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
    """Diagnose from files of results, as the sinks `jsonl` and `kafka` write them; those of all replicas together.

    The newest result is now. Rows without texts have no words, documents and lengths. Raises `MonitorError` where a
    file cannot be read.

    Args:
        paths: files with one result a line.
        app: as in `diagnose_rate`.
        evaluator: as in `diagnose_rate`.
        window: as in `diagnose_rate`.
        slices: the configured ones, which are also looked at two together.
    """
    read = ResultFiles(paths, app, evaluator)
    return diagnose_stored(read, slices, DiagnosisRequest(app, evaluator, window, read.now), unread=read.unread)
