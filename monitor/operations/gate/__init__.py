"""The release gate: whether a release of a service may go on, by the defect rates since.

    report = gate.decide(gate.Criteria([gate.Limit("groundedness", 0.05)]), gate.History(path), now=time.time())
    report.answer  # pass, fail or not_enough_data

`HistorySums` takes the sums from the monitor's own database, `PrometheusSums` from the counters of all replicas.
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
    SumsSource,
    decide,
)
from monitor.operations.gate.history import HistorySums
from monitor.operations.gate.prometheus import PrometheusSums

__all__ = [
    "Check",
    "Criteria",
    "HistorySums",
    "Limit",
    "Previous",
    "PrometheusSums",
    "Release",
    "Report",
    "ResultKey",
    "Side",
    "SumsSource",
    "decide",
]
