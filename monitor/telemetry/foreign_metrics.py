"""The series of verdicts that others have reached, and of what a user's "no" sets off."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class ForeignMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.foreign_verdicts = Counter(
            "ragmonitor_foreign_verdicts",
            "Verdicts of others by how they came (gen_ai_events, openinference, feedback) and by fate: scored,"
            " unscored, duplicate, too_many_names, failed, no_name, no_value, no_request, several_links.",
            ("source", "fate"),
            registry=r,
        )
        self.feedback_agreement = Counter(
            "ragmonitor_feedback_agreement",
            "Requests of which both a user and an evaluator of ours have said whether the answer is good: by what the"
            " evaluator says (judge: defect, passed) and what the user says (user: down, up). Each once.",
            ("app", "evaluator", "judge", "user"),
            registry=r,
        )
        self.feedback_raised = Counter(
            "ragmonitor_feedback_raised_cases",
            "Cases whose users had disliked the answer before they were drawn: a lower probability was raised.",
            ("app",),
            registry=r,
        )
        self.feedback_kept = Gauge(
            "ragmonitor_feedback_kept_bytes",
            "What the answers take that were not chosen and are kept in case their users dislike them.",
            registry=r,
        )
        self.disliked_evaluations = Counter(
            "ragmonitor_disliked_evaluations",
            "Evaluations of answers that were not chosen until their users disliked them, by outcome: passed, defect,"
            " unscored, skipped. They add to no rate.",
            ("app", "evaluator", "version", "outcome"),
            registry=r,
        )
