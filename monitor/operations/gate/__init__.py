"""The release gate: whether a release of a service may go on, by the defect rates since.

    report = gate.decide(gate.Criteria([gate.Limit("groundedness", 0.05)]), gate.History(path), now=time.time())
    report.answer  # pass, fail or not_enough_data

`History` takes the sums from the monitor's own database, `Prometheus` from the counters of all replicas.
"""

from monitor.operations.gate.decision import (
    Check,
    Criteria,
    Limit,
    Previous,
    Release,
    Report,
    ResultKey,
    Side,
    Source,
    decide,
)
from monitor.operations.gate.history import History
from monitor.operations.gate.prometheus import Prometheus

__all__ = [
    "Check",
    "Criteria",
    "History",
    "Limit",
    "Previous",
    "Prometheus",
    "Release",
    "Report",
    "ResultKey",
    "Side",
    "Source",
    "decide",
]
