"""The series of samplers that adapt: with a budget, boosted."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class SamplingMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.sampling_cases = Counter(
            "ragmonitor_sampling_cases",
            "Cases that a sampler with a budget has given a probability, judged or not.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_expected = Counter(
            "ragmonitor_sampling_expected",
            "Sum of their probabilities: the judgements that the budget is spent on, chance left out.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_target = Counter(
            "ragmonitor_sampling_target",
            "Sum of the mean probability at the time of each: divided by the cases, the target share.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_boosted = Counter(
            "ragmonitor_sampling_boosted",
            "Sum of what probabilities had above the mean one of their time: the part of the budget that was moved.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_thinned = Counter(
            "ragmonitor_sampling_thinned_cases",
            "Cases whose probability was lowered because the cap of the hour was near.",
            ("app", "evaluator"),
            registry=r,
        )
        self.quota_thinned = Counter(
            "ragmonitor_quota_thinned_cases",
            "Cases whose probability was lowered because the app's quota (`traffic.quotas`) was nearly spent.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_expected_defects = Counter(
            "ragmonitor_sampling_expected_defects",
            "Sum of the probabilities of a defect that the model saw; beside the weight of defects, how far it is off.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_learned = Counter(
            "ragmonitor_sampling_learned_verdicts",
            "Verdicts that the model has learned from.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_recalled = Counter(
            "ragmonitor_sampling_recalled_verdicts",
            "Verdicts of earlier processes and of other replicas that the model has learned from.",
            ("app", "evaluator"),
            registry=r,
        )
        self.sampling_coefficient = Gauge(
            "ragmonitor_sampling_coefficient",
            "What the model adds to the log odds of a defect for each standard deviation of an input (`show_model`).",
            ("app", "evaluator", "input"),
            registry=r,
        )
        self.sampling_bucket = Gauge(
            "ragmonitor_sampling_bucket_judgements",
            "Judgements that may be made at once before the cap of the hour thins them out.",
            ("evaluator",),
            registry=r,
        )
        self.sampling_bucket_limit = Gauge(
            "ragmonitor_sampling_bucket_limit_judgements",
            "What the bucket holds at most; thinning begins when it is half empty.",
            ("evaluator",),
            registry=r,
        )
        self.weight_max = Gauge(
            "ragmonitor_evaluation_weight_max",
            "The largest weight of a scored evaluation in the last five to ten minutes; 0 where there was none.",
            ("app", "evaluator"),
            registry=r,
        )
