"""Every series that the monitor exports, declared once. `docs/metrics.md` is generated from this table.

Never export a ratio: ratios do not add up over replicas, counters do. Label values come from closed sets or pass
through a `Capped`. A counter's name is declared without `_total`, an info's without `_info`: the client library adds
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase

FamilyT_co = TypeVar("FamilyT_co", bound=MetricWrapperBase, covariant=True)


class Declared(Generic[FamilyT_co]):
    """A family of series as a class attribute. Each instance of `Series` gets the family itself under that name."""

    def __init__(self, make: Callable[[CollectorRegistry], FamilyT_co]) -> None:
        self.make = make

    def __get__(self, owner: object, kind: type | None = None) -> FamilyT_co:
        raise AttributeError("a family of series belongs to an instance of `Metrics`, not to the class")


def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Declared[Counter]:
    """Declare a counter."""
    return Declared(lambda registry: Counter(name, text, labels, registry=registry))


def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Declared[Gauge]:
    """Declare a gauge."""
    return Declared(lambda registry: Gauge(name, text, labels, registry=registry))


def histogram(name: str, text: str, labels: tuple[str, ...] = (), *, buckets: tuple[float, ...]) -> Declared[Histogram]:
    """Declare a histogram. `buckets` are upper limits in the unit of the name."""
    return Declared(lambda registry: Histogram(name, text, labels, buckets=buckets, registry=registry))


def info(name: str, text: str, labels: tuple[str, ...] = ()) -> Declared[Info]:
    """Declare a gauge that is always 1 and carries facts in its labels."""
    return Declared(lambda registry: Info(name, text, labels, registry=registry))


class Series:
    """The table. An instance holds each family, registered, under its attribute's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        for name, declared in vars(Series).items():
            if isinstance(declared, Declared):
                vars(self)[name] = declared.make(registry)

    # What sources receive.
    requests = counter(
        "ragmonitor_receiver_requests",
        "Requests that a source has answered; code is the HTTP status or the gRPC status name.",
        ("source", "code"),
    )
    received_bytes = counter(
        "ragmonitor_receiver_bytes",
        "Bytes received in request bodies, before decompression.",
        ("source",),
    )
    spans = counter(
        "ragmonitor_spans",
        "Spans by what became of them: kept, sampled_out, duplicate, late, invalid, own_telemetry, too_large.",
        ("source", "outcome"),
    )
    log_records = counter(
        "ragmonitor_log_records",
        "Log records by outcome: kept, sampled_out, duplicate, late, invalid, own_telemetry, unrelated, too_large, "
        "external_score.",
        ("source", "outcome"),
    )
    rows = counter(
        "ragmonitor_rows",
        "Rows (requests with their answers, as JSON) by outcome: kept, sampled_out, duplicate, invalid.",
        ("source", "outcome"),
    )

    # The ledger, and what is read from the traffic.
    traces_received = counter(
        "ragmonitor_traces_received",
        "Traces seen, each once, among them those recovered from the spool at start.",
        ("app", "source"),
    )
    traces = counter(
        "ragmonitor_traces",
        "The ledger: traces by the one place each ended in. Received = the sum of these + pending.",
        ("app", "source", "outcome"),
    )
    traces_pending = gauge(
        "ragmonitor_traces_pending",
        "Traces that are open, queued or being judged.",
        ("app", "source"),
    )
    traces_closed = counter("ragmonitor_traces_closed", "Traces by why waiting for more of them ended.", ("reason",))
    extracted_requests = counter(
        "ragmonitor_extracted_requests",
        "Requests whose service has answered, by the dialect that their traces are written in.",
        ("app", "convention"),
    )
    extracted_fields = counter(
        "ragmonitor_extracted_fields",
        "Of these, those that came with a field: question, context, answer, model, session, tokens.",
        ("app", "convention", "field"),
    )
    service_tokens = counter(
        "ragmonitor_service_tokens",
        "Tokens that the services spent, estimated for all their traffic: each sampled request by its weight.",
        ("app", "direction"),
    )
    service_seconds = histogram(
        "ragmonitor_service_answer_seconds",
        "How long the services took to answer, of the sampled requests.",
        ("app",),
        buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250),
    )

    # Results. `version` is the evaluator's, with its options and the judge's model. Another version is another
    # instrument: its results are never added to these. A process runs one version of each evaluator, so the label costs
    # no series except while a change is rolled out.
    evaluations = counter(
        "ragmonitor_evaluations",
        "Scored evaluations: the number judged.",
        ("app", "evaluator", "version", "level", "defect"),
    )
    evaluation_weight = counter(
        "ragmonitor_evaluation_weight",
        "Sum of weights (1 / probability of having been chosen) of scored evaluations: the traffic they stand for.",
        ("app", "evaluator", "version", "level", "defect"),
    )
    evaluation_weight_squares = counter(
        "ragmonitor_evaluation_weight_squares",
        "Sum of squared weights of scored evaluations, for the limits of a rate.",
        ("app", "evaluator", "version", "level", "defect"),
    )
    evaluation_score_weighted = counter(
        "ragmonitor_evaluation_score_weighted",
        "Sum of weight times (score - lowest score of the scale): for weighted mean scores.",
        ("app", "evaluator", "version"),
    )
    unscored = counter(
        "ragmonitor_unscored",
        "Evaluations that were due and came to no verdict, by reason. They add to no rate.",
        ("app", "evaluator", "reason"),
    )
    skipped = counter(
        "ragmonitor_skipped",
        "Evaluations that do not apply to the case, by reason.",
        ("app", "evaluator", "reason"),
    )
    selected = counter(
        "ragmonitor_evaluations_selected",
        "Evaluations begun. Selected = scored + late + disliked + of other traffic + unscored + skipped + pending.",
        ("app", "evaluator"),
    )
    evaluations_pending = gauge(
        "ragmonitor_evaluations_pending",
        "Evaluations queued or in flight.",
        ("app", "evaluator"),
    )
    evaluation_duration = histogram(
        "ragmonitor_evaluation_duration_seconds",
        "Wall clock of one evaluation, waiting for the judge included.",
        ("evaluator",),
        buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120),
    )
    evaluation_lag = histogram(
        "ragmonitor_evaluation_lag_seconds",
        "From the service's answer to the verdict on it, of production traffic, late verdicts included.",
        ("evaluator",),
        buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 10800, 43200, 86400),
    )
    late_evaluations = counter(
        "ragmonitor_late_evaluations",
        "Evaluations that ended later after the service's answer than `traffic.late_after`, by outcome: passed,"
        " defect, unscored, skipped. They add to no other rate.",
        ("app", "evaluator", "version", "outcome"),
    )
    late_weight = counter(
        "ragmonitor_late_evaluation_weight",
        "Sum of weights of those that passed or are defects.",
        ("app", "evaluator", "version", "outcome"),
    )
    late_weight_squares = counter(
        "ragmonitor_late_evaluation_weight_squares",
        "Sum of squared weights of those that passed or are defects.",
        ("app", "evaluator", "version", "outcome"),
    )
    non_production_evaluations = counter(
        "ragmonitor_non_production_evaluations",
        "Evaluations of traffic that is not production, by its class (experiment, synthetic, internal) and by"
        " outcome: passed, defect, unscored, skipped. They add to no other rate.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    non_production_weight = counter(
        "ragmonitor_non_production_evaluation_weight",
        "Sum of weights of those that passed or are defects.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    non_production_weight_squares = counter(
        "ragmonitor_non_production_evaluation_weight_squares",
        "Sum of squared weights of those that passed or are defects.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    slice_evaluations = counter(
        "ragmonitor_slice_evaluations",
        "The scored evaluations of `ragmonitor_evaluations_total` once more, by each configured slice and its value"
        " (20 of an app, then `__other__`; empty where a case has none). Begins with the first verdict of a value.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    slice_weight = counter(
        "ragmonitor_slice_evaluation_weight",
        "The same of `ragmonitor_evaluation_weight_total`.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    slice_weight_squares = counter(
        "ragmonitor_slice_evaluation_weight_squares",
        "The same of `ragmonitor_evaluation_weight_squares_total`.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    service_version_info = gauge(
        "ragmonitor_service_version_info",
        "1 for each combination of versions that verdicts come from: of the evaluator, the judge's model, the prompt,"
        " the index, the service. Gone an hour after its last verdict.",
        ("app", "evaluator", "fingerprint", "version", "judge", "prompt", "index", "service"),
    )
    service_version_start = gauge(
        "ragmonitor_service_version_start_timestamp_seconds",
        "When verdicts of the newest generation began; no series where there was only one.",
        ("app", "evaluator"),
    )
    sink_failures = counter("ragmonitor_sink_failures", "Results that a sink did not take.", ("sink",))

    # External scores and user feedback.
    external_scores = counter(
        "ragmonitor_external_scores",
        "External scores by how they came (gen_ai_events, openinference, feedback) and by outcome: scored, unscored,"
        " duplicate, too_many_names, failed, no_name, no_value, no_request, several_links.",
        ("source", "outcome"),
    )
    feedback_agreement = counter(
        "ragmonitor_feedback_agreement",
        "Requests of which both a user and an evaluator of ours have said whether the answer is good: by what the"
        " evaluator says (judge: defect, passed) and what the user says (user: down, up). Each once.",
        ("app", "evaluator", "judge", "user"),
    )
    feedback_boosted = counter(
        "ragmonitor_feedback_boosted_cases",
        "Cases whose users had disliked the answer before they were drawn: a lower probability was raised.",
        ("app",),
    )
    feedback_buffer = gauge(
        "ragmonitor_feedback_buffer_bytes",
        "What the answers take that were not chosen and are kept in case their users dislike them.",
    )
    user_disliked_evaluations = counter(
        "ragmonitor_user_disliked_evaluations",
        "Evaluations of answers that were not chosen until their users disliked them, by outcome: passed, defect,"
        " unscored, skipped. They add to no rate.",
        ("app", "evaluator", "version", "outcome"),
    )

    # The judge.
    judge_requests = counter(
        "ragmonitor_judge_requests",
        "Calls to the judge's provider by outcome: ok, cached, or the reason of the failure.",
        ("model", "outcome"),
    )
    judge_tokens = counter("ragmonitor_judge_tokens", "Tokens spent on judging.", ("model", "direction"))
    judge_cost = counter("ragmonitor_judge_cost_dollars", "US dollars spent on judging.", ("model",))
    judge_breaker_open = gauge(
        "ragmonitor_judge_breaker_open",
        "1 while calls to the model are held back after failures.",
        ("model",),
    )
    judge_rechecks = counter(
        "ragmonitor_judge_rechecks",
        "Cases judged a second time, by whether both verdicts agree that it is a defect: same, other, unscored.",
        ("evaluator", "outcome"),
    )
    judge_duration = histogram(
        "ragmonitor_judge_request_duration_seconds",
        "Wall clock of one call to the judge's provider.",
        ("model",),
        buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
    )

    # Samplers with a budget.
    sampling_cases = counter(
        "ragmonitor_sampling_cases",
        "Cases that a sampler with a budget has given a probability, judged or not.",
        ("app", "evaluator"),
    )
    sampling_expected = counter(
        "ragmonitor_sampling_expected",
        "Sum of their probabilities: the judgements that the budget is spent on, chance left out.",
        ("app", "evaluator"),
    )
    sampling_target = counter(
        "ragmonitor_sampling_target",
        "Sum of the mean probability at the time of each: divided by the cases, the target share.",
        ("app", "evaluator"),
    )
    sampling_boosted = counter(
        "ragmonitor_sampling_boosted",
        "Sum of what probabilities had above the mean one of their time: the part of the budget that was moved.",
        ("app", "evaluator"),
    )
    sampling_thinned = counter(
        "ragmonitor_sampling_thinned_cases",
        "Cases whose probability was lowered because the cap of the hour was near.",
        ("app", "evaluator"),
    )
    quota_thinned = counter(
        "ragmonitor_quota_thinned_cases",
        "Cases whose probability was lowered because the app's quota (`traffic.quotas`) was nearly spent.",
        ("app", "evaluator"),
    )
    sampling_expected_defects = counter(
        "ragmonitor_sampling_expected_defects",
        "Sum of the probabilities of a defect that the model saw; beside the weight of defects, how far it is off.",
        ("app", "evaluator"),
    )
    sampling_learned = counter(
        "ragmonitor_sampling_learned_verdicts",
        "Verdicts that the model has learned from.",
        ("app", "evaluator"),
    )
    sampling_recalled = counter(
        "ragmonitor_sampling_recalled_verdicts",
        "Verdicts of earlier processes and of other replicas that the model has learned from.",
        ("app", "evaluator"),
    )
    sampling_coefficient = gauge(
        "ragmonitor_sampling_coefficient",
        "What the model adds to the log odds of a defect for each standard deviation of an input (`export_model`).",
        ("app", "evaluator", "input"),
    )
    sampling_bucket = gauge(
        "ragmonitor_sampling_bucket_evaluations",
        "Judgements that may be made at once before the cap of the hour thins them out.",
        ("evaluator",),
    )
    sampling_bucket_limit = gauge(
        "ragmonitor_sampling_bucket_limit_evaluations",
        "What the bucket holds at most; thinning begins when it is half empty.",
        ("evaluator",),
    )
    weight_max = gauge(
        "ragmonitor_evaluation_weight_max",
        "The largest weight of a scored evaluation in the last five to ten minutes; 0 where there was none.",
        ("app", "evaluator"),
    )

    # Evaluator status.
    evaluator_state = gauge(
        "ragmonitor_evaluator_state",
        "1 for the state that the evaluator is in now, 0 for the others: never_run, ok, degraded, overloaded, paused,"
        " error. docs/states.md says what each means.",
        ("evaluator", "state"),
    )
    contradictions = counter(
        "ragmonitor_contradictions",
        "Verdicts whose explanation says the opposite of their score, by how they were counted: defect or passed. The"
        " score stands as it is.",
        ("app", "evaluator", "counted"),
    )

    # The canary set. It measures the judge and is part of no rate.
    canary_verdicts = counter(
        "ragmonitor_canary_verdicts",
        "Verdicts on the canary set held against the reference: same, stricter (a defect where the reference has"
        " none), milder, unscored. Begins to count when the reference is complete, save for unscored.",
        ("evaluator", "version", "agreement"),
    )
    canary_runs = counter(
        "ragmonitor_canary_runs",
        "Runs of the canary set that were held against the reference.",
        ("evaluator", "version"),
    )
    canary_tolerance = gauge(
        "ragmonitor_canary_tolerance_ratio",
        "The share of verdicts that may differ from the reference: the judge's own noise and `canary.tolerance`. No"
        " series until the reference is complete.",
        ("evaluator", "version"),
    )
    canary_last_run = gauge(
        "ragmonitor_canary_last_run_timestamp_seconds",
        "When the last run of the canary set began, in this process or before; 0 where there was none.",
    )

    # Human labels, as sums from which PromQL derives the corrected rate and its limits. Gauges: a new labels file
    # may hold fewer labels.
    calibration_labels = gauge(
        "ragmonitor_calibration_labels",
        "Results that a person has judged too, by what the judge and the person say: defect or good.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_label_weight = gauge(
        "ragmonitor_calibration_label_weight",
        "The sum of their weights: the traffic that they stand for.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_label_weight_squares = gauge(
        "ragmonitor_calibration_label_weight_squares",
        "The sum of their squared weights, for limits.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_results = gauge(
        "ragmonitor_calibration_results",
        "The results that the labelled ones were drawn from at random, by what the judge says. No series where they"
        " were chosen in another way (`calibrate` without `--audits`).",
        ("evaluator", "version", "verdict"),
    )
    calibration_result_weight = gauge(
        "ragmonitor_calibration_result_weight",
        "The sum of their weights.",
        ("evaluator", "version", "verdict"),
    )
    calibration_result_weight_squares = gauge(
        "ragmonitor_calibration_result_weight_squares",
        "The sum of their squared weights.",
        ("evaluator", "version", "verdict"),
    )

    # Backfill. It is part of no rate and no alert. For each app, evaluator and source, at every scrape:
    # asked = evaluations + pending.
    backfill_requested = counter(
        "ragmonitor_backfill_requested",
        "Judgements that `rag-monitor backfill` has asked for, those found at the start of the process included."
        " source: kafka, spool, file, missed.",
        ("app", "evaluator", "source"),
    )
    backfill_pending = gauge(
        "ragmonitor_backfill_pending",
        "Judgements that were asked for and are not made yet.",
        ("app", "evaluator", "source"),
    )
    backfill_evaluations = counter(
        "ragmonitor_backfill_evaluations",
        "Judgements that were asked for, by what became of them: defect, passed, skipped, unscored, expired (waited"
        " for too long, or cannot be read), known (there was a verdict by then), forgotten (as somebody asked for). In"
        " no rate and no alert.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_weight = counter(
        "ragmonitor_backfill_weight",
        "Sum of weights of those that are scored.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_weight_squares = counter(
        "ragmonitor_backfill_weight_squares",
        "Sum of squared weights of those that are scored.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_missed = counter(
        "ragmonitor_backfill_missed",
        "Judgements that were due while the judge refused: kept for `rag-monitor backfill --missed`, dropped (for"
        " want of room, or as the queue could not be written), or expired, after they were kept.",
        ("app", "evaluator", "outcome"),
    )
    spool_retained_bytes = gauge(
        "ragmonitor_spool_retained_bytes",
        "What the deliveries take that are done with and kept for `rag-monitor backfill --from spool`.",
    )
    spool_retained_dropped = counter(
        "ragmonitor_spool_retained_dropped",
        "Deliveries of which less than `storage.spool_retention` is kept: for want of room, or of a disk that takes "
        "them.",
    )
    backfill_cost = counter(
        "ragmonitor_backfill_cost_dollars",
        "US dollars that the calls of judging afterwards have cost; not in ragmonitor_judge_cost_dollars_total.",
    )

    # The request log.
    request_log_records = counter(
        "ragmonitor_request_log_records",
        "Records for the request log (`rag-monitor why`): kept; dropped, since too many waited to be written;"
        " failed, since the disk did not take them. No series where `storage.request_log` is 0.",
        ("outcome",),
    )

    # Trials in the UI.
    trials = counter(
        "ragmonitor_trials",
        "Times that an evaluator was tried on a case from the page: verdict, none. In no rate and no other family.",
        ("evaluator", "outcome"),
    )
    trials_cost = counter(
        "ragmonitor_trials_cost_dollars",
        "US dollars that trials from the UI have cost; not in ragmonitor_judge_cost_dollars_total.",
    )

    # Redaction.
    redacted = counter(
        "ragmonitor_redacted",
        "Values of personal data that were masked (`redaction`), each once a case, by type. No series where it is off.",
        ("type",),
    )

    # Apache Kafka. The series of a partition move with it to another replica.
    consumer_lag = gauge(
        "ragmonitor_consumer_lag_messages",
        "Messages of a partition that nobody has taken up yet: its end less the next one to take. Only partitions"
        " assigned to this replica have a series, so the sum over replicas is the group's.",
        ("topic", "partition"),
    )
    consumer_unfinished = gauge(
        "ragmonitor_consumer_unfinished_messages",
        "Messages from the offset that may be committed on: taken and not done with, or behind one that is not.",
    )
    consumer_oldest = gauge(
        "ragmonitor_consumer_oldest_pending_timestamp_seconds",
        "When the oldest message that is not yet done with was written, as its topic says; 0 when there is none.",
        ("topic",),
    )
    consumer_partitions = gauge(
        "ragmonitor_consumer_assigned_partitions",
        "Partitions assigned to this replica.",
        ("topic",),
    )
    consumer_messages = counter(
        "ragmonitor_consumer_messages",
        "Messages by what became of them: taken, empty (no value), dead_letter, discarded (the same where no topic"
        " for dead letters is configured).",
        ("topic", "outcome"),
    )
    consumer_rebalances = counter(
        "ragmonitor_consumer_rebalances",
        "Changes of the assignment: assigned, revoked (given up in order), lost (taken away).",
        ("kind",),
    )
    consumer_rebuilds = counter(
        "ragmonitor_consumer_rebuilds",
        "Consumers given up for a new one: unreachable, unauthorised, fenced, poll_stuck, partition_stuck, error.",
        ("reason",),
    )
    consumer_commits = counter(
        "ragmonitor_consumer_commits",
        "Commits of offsets by outcome: ok, failed. What a failed one said, the next one says again.",
        ("outcome",),
    )
    consumer_expired = counter(
        "ragmonitor_consumer_expired_messages",
        "Messages that the topic's retention deleted before they were read.",
        ("topic",),
    )
    dead_letters = counter(
        "ragmonitor_dead_letters",
        "Messages that could not be read, by the topic they came from and why: invalid, too_large, rejected,"
        " checksum, codec, batch, fault. Also those that no topic for dead letters kept.",
        ("topic", "reason"),
    )
    producer_records = counter(
        "ragmonitor_producer_records",
        "Records sent to Kafka (results, dead letters), by what became of them: delivered (all in-sync replicas have"
        " it), refused (it can never be sent), failed (no acknowledgement in time).",
        ("topic", "outcome"),
    )
    producer_seconds = histogram(
        "ragmonitor_producer_delivery_seconds",
        "How long a record took from being handed over to its acknowledgement.",
        ("topic",),
        buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    )

    # Alerts.
    alert_threshold = gauge(
        "ragmonitor_alert_threshold_ratio",
        "The configured threshold of the defect rate.",
        ("app", "evaluator", "severity"),
    )
    alert_regression_z = gauge(
        "ragmonitor_alert_regression_z",
        "How sure a rise of the defect rate against the week before must be, in standard deviations, by window.",
        ("app", "evaluator", "severity", "window"),
    )
    notifications = counter(
        "ragmonitor_notifications",
        "Alert notifications by receiver and outcome.",
        ("receiver", "outcome"),
    )

    # The process itself.
    queue_items = gauge("ragmonitor_queue_items", "Items waiting in a bounded queue.", ("queue",))
    queue_limit = gauge("ragmonitor_queue_limit_items", "What a bounded queue holds at most.", ("queue",))
    oldest_pending = gauge(
        "ragmonitor_oldest_pending_timestamp_seconds",
        "When the oldest trace that is not yet done arrived; 0 when there is none.",
    )
    open_traces = gauge("ragmonitor_open_traces", "Traces that are not yet complete.")
    open_traces_bytes = gauge("ragmonitor_open_traces_bytes", "Memory held by traces that are not yet complete.")
    spool_bytes = gauge("ragmonitor_spool_bytes", "Bytes of data in the spool.")
    spool_rows = gauge("ragmonitor_spool_records", "Deliveries in the spool.")
    spool_damaged = counter(
        "ragmonitor_spool_damaged_records",
        "Spool records that could not be read back and were given up.",
    )
    telemetry_items = counter(
        "ragmonitor_telemetry_items",
        "The monitor's own spans and log records (`telemetry`), by signal (traces, logs) and outcome: sent, dropped.",
        ("signal", "outcome"),
    )
    events = counter("ragmonitor_events", "Occurrences worth a log line, by name.", ("event",))
    evaluator_info = info(
        "ragmonitor_evaluator",
        "What an evaluator is: version, scale, unit (share, points, score), direction, defect rule; source: own, or"
        " how the verdicts of somebody else's come.",
        ("evaluator",),
    )
    build = info("ragmonitor_build", "Version of the monitor and of Python.")
