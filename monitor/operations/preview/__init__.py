"""Predicts what a configuration would do with recorded traffic, and what that would cost. No judge is called.

traffic = from_files(config, [Path("rows.jsonl")])
found = await predict(config, traffic)
estimate(config, found, requests_per_day=60_000)
"""

from monitor.operations.preview.cost import CostEstimate, GroupCost, RateNeeded, estimate
from monitor.operations.preview.predict import CallGroup, Preview, predict
from monitor.operations.preview.request_log import FACTORS, EvaluatorSelection, LoggedTraffic
from monitor.operations.preview.traffic import RecordedTraffic, from_files, from_history

__all__ = [
    "FACTORS",
    "CallGroup",
    "CostEstimate",
    "EvaluatorSelection",
    "GroupCost",
    "LoggedTraffic",
    "Preview",
    "RateNeeded",
    "RecordedTraffic",
    "estimate",
    "from_files",
    "from_history",
    "predict",
]
