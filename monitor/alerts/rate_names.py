"""Name and wording of the alert on a rate, by evaluator: two of them have a name and a runbook of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class RateAlert(NamedTuple):
    """The alert on a rate that is above its threshold.

    `predicate` says what defective answers do, without naming the evaluator; empty: use the defect rule's words.
    `advice` is one more sentence.
    """

    name: str
    summary: str
    predicate: str = ""
    advice: str = ""

    def finding(self, predicate: str, evaluator: str) -> str:
        """Say what defective answers are: in the alert's own words, else by `predicate` and the evaluator."""
        return self.predicate or f"{predicate} according to {evaluator}"


DEFECT_RATE: Final = RateAlert("RagDefectRateHigh", "The defect rate is above its threshold.")
"""The alert on the rate of every evaluator without one of its own."""

OWN: Final[Mapping[str, RateAlert]] = {
    "retrieval_empty": RateAlert(
        "RagRetrievalEmptyHigh",
        "The rate of empty retrievals is above its threshold.",
        "rest on a retrieval that found nothing",
    ),
    "context_not_recorded": RateAlert(
        "RagContextNotRecorded",
        "The texts of retrieved documents are missing from the traces: evaluators of the context skip such answers.",
        "rest on documents without recorded texts",
        "Run `rag-monitor coverage` on some traces: it says how to record them.",
    ),
}
"""By evaluator, the alert on its rate."""

NAMES: Final = (DEFECT_RATE.name, *(one.name for one in OWN.values()))
"""The names of all alerts on rates that are above their threshold."""


def rate_alert(evaluator: str) -> RateAlert:
    """Return the alert on the rate of an evaluator."""
    return OWN.get(evaluator, DEFECT_RATE)
