"""Every series that the monitor exports, declared once. `docs/metrics.md` is generated from this table.

Never export a ratio: ratios do not add up across replicas, counters do. Label values come from closed sets or pass
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
    """A family of series, declared as a class attribute. Each instance of `Series` has the family under that name."""

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
    """Declare a gauge that is always 1 and carries information in its labels."""
    return Declared(lambda registry: Info(name, text, labels, registry=registry))


class Series:
    """The table. An instance registers each family and holds it under its attribute's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        for name, declared in vars(Series).items():
            if isinstance(declared, Declared):
                vars(self)[name] = declared.make(registry)

    # Received by sources.
    requests = counter(
        "ragmonitor_receiver_requests",
        "Requests that a source has answered. `code` is the HTTP status or the gRPC status name.",
        ("source", "code"),
    )
    received_bytes = counter(
        "ragmonitor_receiver_bytes", "Bytes received in request bodies, before decompression.", ("source",)
    )
    spans = counter(
        "ragmonitor_spans",
        "Spans by outcome: kept, sampled_out, duplicate, late, invalid, own_telemetry, too_large.",
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

    # The ledger, and data read from the traffic.
    traces_received = counter(
        "ragmonitor_traces_received",
        "Traces seen, each counted once, including those recovered from the spool at start; `app` is the service whose "
        "part of the trace arrived first.",
        ("app", "source"),
    )
    traces = counter(
        "ragmonitor_traces",
        "The ledger: traces by final outcome, exactly one each. Received = the sum of these + pending.",
        ("app", "source", "outcome"),
    )
    traces_pending = gauge(
        "ragmonitor_traces_pending", "Traces that are still open, queued or being evaluated.", ("app", "source")
    )
    requests_found = counter(
        "ragmonitor_requests_found",
        "Requests found in traces that were read: most traces contain one; a batch or a conversation contains several. "
        "A row counts as a trace here, and each of its turns as a request. `app` is the service that answered.",
        ("app", "source"),
    )
    requests_ended = counter(
        "ragmonitor_requests",
        "The ledger of requests: by final outcome, exactly one each. Found = the sum of these + pending.",
        ("app", "source", "outcome"),
    )
    requests_pending = gauge(
        "ragmonitor_requests_pending", "Requests found in traces and still being evaluated.", ("app", "source")
    )
    traces_closed = counter(
        "ragmonitor_traces_closed",
        "Traces by the reason why the monitor stopped waiting for further spans.",
        ("reason",),
    )
    extracted_requests = counter(
        "ragmonitor_extracted_requests",
        "Requests that the service has answered, by the dialect of their traces.",
        ("app", "convention"),
    )
    extracted_fields = counter(
        "ragmonitor_extracted_fields",
        "Extracted requests that have the field: question, context, answer, model, session, tokens.",
        ("app", "convention", "field"),
    )
    context_weight = counter(
        "ragmonitor_context_weight",
        "Sum of the weights (1 / probability of sampling) of answered production requests by the origin of their"
        " context: retrieved, retrieved_nothing, no_retrieval, not_recorded. The shares are those of all traffic.",
        ("app", "status"),
    )
    service_tokens = counter(
        "ragmonitor_service_tokens",
        "Tokens used by the services, estimated for all their traffic: each sampled request counts by its weight.",
        ("app", "direction"),
    )
    service_seconds = histogram(
        "ragmonitor_service_answer_seconds",
        "How long the services took to answer; sampled requests only, excluding times below 0 or above a day.",
        ("app",),
        buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250),
    )

    # Results. `version` is the evaluator's, with its options and the judge's model. A different version is a different
    # instrument: results of two versions are never added up. A process runs one version of each evaluator, so the label
    # adds no series except while a change is rolled out.
    evaluations = counter(
        "ragmonitor_evaluations", "Scored evaluations.", ("app", "evaluator", "version", "level", "defect")
    )
    sessions = counter(
        "ragmonitor_sessions",
        "Conversations (sessions of the service) with at least one answer scored live. Each counts once, and again "
        "after 24 hours without a scored answer or after 100 scored answers. Sampled sessions only, unweighted; "
        "answers without a session are not counted.",
        ("app", "evaluator", "version"),
    )
    sessions_defective = counter(
        "ragmonitor_sessions_defective",
        "Conversations in `ragmonitor_sessions_total` with at least one defective answer. If not every answer is "
        "judged, their share is a lower bound.",
        ("app", "evaluator", "version"),
    )
    evaluation_weight = counter(
        "ragmonitor_evaluation_weight",
        "Sum of the weights (1 / probability of selection) of scored evaluations: the traffic that they represent.",
        ("app", "evaluator", "version", "level", "defect"),
    )
    evaluation_weight_squares = counter(
        "ragmonitor_evaluation_weight_squares",
        "Sum of the squared weights of scored evaluations, for the confidence limits of a rate.",
        ("app", "evaluator", "version", "level", "defect"),
    )
    session_products = counter(
        "ragmonitor_evaluation_session_products",
        "Sum of the products of the weights of all pairs of scored evaluations within one session (or else user), for"
        " confidence limits. `of`: pairs of two defects (`defects`), of any two (`all`), or of a defect with any"
        " (`both`).",
        ("app", "evaluator", "version", "of"),
    )
    evaluation_score_weighted = counter(
        "ragmonitor_evaluation_score_weighted",
        "Sum of weight * (score - lowest score of the scale), for weighted mean scores.",
        ("app", "evaluator", "version"),
    )
    unscored = counter(
        "ragmonitor_unscored",
        "Evaluations that were due but produced no score, by reason. They are not part of any rate.",
        ("app", "evaluator", "reason"),
    )
    skipped = counter(
        "ragmonitor_skipped",
        "Evaluations that do not apply to the case, by reason; handed_over: another replica evaluates the case.",
        ("app", "evaluator", "reason"),
    )
    selected = counter(
        "ragmonitor_evaluations_selected",
        "Evaluations started. Selected = scored + ranking + late + user_disliked + non_production + unscored + skipped"
        " + pending.",
        ("app", "evaluator"),
    )
    evaluations_pending = gauge(
        "ragmonitor_evaluations_pending", "Evaluations queued or in flight.", ("app", "evaluator")
    )
    evaluation_duration = histogram(
        "ragmonitor_evaluation_duration_seconds",
        "Wall-clock time of one evaluation, including the wait for the judge.",
        ("evaluator",),
        buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120),
    )
    evaluation_lag = histogram(
        "ragmonitor_evaluation_lag_seconds",
        "Time from the service's answer to its result, for production traffic, including late results.",
        ("evaluator",),
        buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 10800, 43200, 86400),
    )
    late_evaluations = counter(
        "ragmonitor_late_evaluations",
        "Evaluations that ended more than `traffic.late_after` after the service's answer, by outcome: passed,"
        " defect, unscored, skipped. They are not part of any other rate.",
        ("app", "evaluator", "version", "outcome"),
    )
    late_weight = counter(
        "ragmonitor_late_evaluation_weight",
        "Sum of the weights of late evaluations that passed or are defects.",
        ("app", "evaluator", "version", "outcome"),
    )
    late_weight_squares = counter(
        "ragmonitor_late_evaluation_weight_squares",
        "Sum of the squared weights of late evaluations that passed or are defects.",
        ("app", "evaluator", "version", "outcome"),
    )
    non_production_evaluations = counter(
        "ragmonitor_non_production_evaluations",
        "Evaluations of non-production traffic by class (experiment, synthetic, internal) and outcome: passed,"
        " defect, unscored, skipped. They are not part of any other rate.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    non_production_weight = counter(
        "ragmonitor_non_production_evaluation_weight",
        "Sum of the weights of non-production evaluations that passed or are defects.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    non_production_weight_squares = counter(
        "ragmonitor_non_production_evaluation_weight_squares",
        "Sum of the squared weights of non-production evaluations that passed or are defects.",
        ("app", "evaluator", "version", "traffic", "outcome"),
    )
    rule_evaluations = counter(
        "ragmonitor_rule_evaluations",
        "`ragmonitor_evaluations_total` again, for each alert with its own defect rule: `defect` is by that rule."
        " These are the same evaluations, so do not add the two.",
        ("app", "evaluator", "version", "defect_rule", "defect"),
    )
    rule_weight = counter(
        "ragmonitor_rule_evaluation_weight",
        "`ragmonitor_evaluation_weight_total` again, by an alert's own defect rule.",
        ("app", "evaluator", "version", "defect_rule", "defect"),
    )
    rule_weight_squares = counter(
        "ragmonitor_rule_evaluation_weight_squares",
        "`ragmonitor_evaluation_weight_squares_total` again, by an alert's own defect rule.",
        ("app", "evaluator", "version", "defect_rule", "defect"),
    )
    rule_session_products = counter(
        "ragmonitor_rule_evaluation_session_products",
        "`ragmonitor_evaluation_session_products_total` again, by an alert's own defect rule.",
        ("app", "evaluator", "version", "defect_rule", "of"),
    )
    slice_evaluations = counter(
        "ragmonitor_slice_evaluations",
        "`ragmonitor_evaluations_total` again, by configured slice and its value (20 values per app, then `__other__`;"
        " empty if a case has none). The series of a value starts with its first score.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    slice_weight = counter(
        "ragmonitor_slice_evaluation_weight",
        "`ragmonitor_evaluation_weight_total` again, by slice.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    slice_weight_squares = counter(
        "ragmonitor_slice_evaluation_weight_squares",
        "`ragmonitor_evaluation_weight_squares_total` again, by slice.",
        ("app", "evaluator", "version", "slice", "value", "defect"),
    )
    slice_session_products = counter(
        "ragmonitor_slice_evaluation_session_products",
        "`ragmonitor_evaluation_session_products_total` again, by slice. Includes pairs with answers of the session"
        " that have a different value, so limits computed from it are never too narrow.",
        ("app", "evaluator", "version", "slice", "value", "of"),
    )
    service_version_info = gauge(
        "ragmonitor_service_version_info",
        "1 for each combination of versions that has results: the versions of the evaluator, the judge's model, the"
        " prompt, the index and the service. Removed an hour after the last result.",
        ("app", "evaluator", "fingerprint", "version", "judge", "prompt", "index", "service"),
    )
    service_version_start = gauge(
        "ragmonitor_service_version_start_timestamp_seconds",
        "When the newest combination of versions first had results; no series while there has been only one.",
        ("app", "evaluator"),
    )
    sink_failures = counter(
        "ragmonitor_sink_failures",
        "Failed deliveries. A sink that follows the history gets the results again. For `storage` (the history),"
        " `listeners` and sinks of type `history`, this counts the results that they lost. While the history cannot be"
        " written, results wait (`ragmonitor_database_failing`).",
        ("sink",),
    )
    sink_results = counter(
        "ragmonitor_sink_results",
        "Results in the history by outcome at a sink that follows it: sent; rejected (refused for good);"
        " expired (past the retention before they were sent); forgotten (erased before they were sent); unreadable.",
        ("sink", "outcome"),
    )
    sink_position = gauge(
        "ragmonitor_sink_position", "History number of the last result that a sink has finished with.", ("sink",)
    )
    sink_lag_results = gauge(
        "ragmonitor_sink_lag_results", "Results in the history that a sink has yet to get.", ("sink",)
    )
    sink_lag_seconds = gauge(
        "ragmonitor_sink_lag_seconds",
        "Age of the oldest result that a sink has yet to get; 0 if there is none.",
        ("sink",),
    )

    # External scores and user feedback.
    external_scores = counter(
        "ragmonitor_external_scores",
        "External scores by source (gen_ai_events, openinference, feedback) and outcome: scored, unscored,"
        " duplicate, too_many_names, failed, no_name, no_value, no_request, several_links.",
        ("source", "outcome"),
    )
    feedback_agreement = counter(
        "ragmonitor_feedback_agreement",
        "Requests rated by both a user and an evaluator, each counted once, by the evaluator's verdict"
        " (judge: defect, passed) and the user's rating (user: down, up).",
        ("app", "evaluator", "judge", "user"),
    )
    feedback_boosted = counter(
        "ragmonitor_feedback_boosted_cases",
        "Cases that were more likely to be selected because the user had already disliked the answer.",
        ("app",),
    )
    feedback_buffer = gauge(
        "ragmonitor_feedback_buffer_bytes",
        "Size of the answers that were not selected but are kept in case users dislike them.",
    )
    ranking_evaluations = counter(
        "ragmonitor_ranking_evaluations",
        "Scores of evaluators that only rank answers, such as learned_groundedness. They are not part of any rate.",
        ("app", "evaluator", "version"),
    )
    user_disliked_evaluations = counter(
        "ragmonitor_user_disliked_evaluations",
        "Evaluations of answers that were selected only because users disliked them, by outcome: passed,"
        " defect, unscored, skipped. They are not part of any rate.",
        ("app", "evaluator", "version", "outcome"),
    )

    # The judge.
    judge_requests = counter(
        "ragmonitor_judge_requests",
        "Calls to the judge's provider by outcome: ok, cached, or the reason for the failure.",
        ("model", "outcome"),
    )
    judge_tokens = counter("ragmonitor_judge_tokens", "Tokens used by the judge.", ("model", "direction"))
    judge_cost = counter("ragmonitor_judge_cost_dollars", "US dollars spent on the judge.", ("model",))
    judge_breaker_open = gauge(
        "ragmonitor_judge_breaker_open",
        "1 while the circuit breaker holds back calls to the model after failures.",
        ("model",),
    )
    judge_rechecks = counter(
        "ragmonitor_judge_rechecks",
        "Cases evaluated a second time, by whether both results agree on the defect: same, other, unscored.",
        ("evaluator", "outcome"),
    )
    judge_duration = histogram(
        "ragmonitor_judge_request_duration_seconds",
        "Wall-clock time of one call to the judge's provider.",
        ("model",),
        buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
    )

    # Samplers with a budget.
    sampling_cases = counter(
        "ragmonitor_sampling_cases",
        "Cases to which a sampler with a budget has assigned a probability, selected or not.",
        ("app", "evaluator"),
    )
    sampling_expected = counter(
        "ragmonitor_sampling_expected",
        "Sum of the probabilities assigned by a sampler with a budget: the expected number of evaluations.",
        ("app", "evaluator"),
    )
    sampling_target = counter(
        "ragmonitor_sampling_target",
        "Sum over cases of the mean probability at the time. Divided by the number of cases, this is the target share.",
        ("app", "evaluator"),
    )
    sampling_boosted = counter(
        "ragmonitor_sampling_boosted",
        "Sum of the amounts by which probabilities exceeded the mean at the time: the part of the budget that boosting"
        " moved.",
        ("app", "evaluator"),
    )
    sampling_thinned = counter(
        "ragmonitor_sampling_thinned_cases",
        "Cases whose probability was lowered because the hourly cap was near.",
        ("app", "evaluator"),
    )
    quota_thinned = counter(
        "ragmonitor_quota_thinned_cases",
        "Cases whose probability was lowered because the app's quota (`traffic.quotas`) was nearly used up.",
        ("app", "evaluator"),
    )
    sampling_expected_defects = counter(
        "ragmonitor_sampling_expected_defects",
        "Sum of the defect probabilities that the model predicted. Compare with the weight of defects to see how"
        " accurate the model is.",
        ("app", "evaluator"),
    )
    sampling_learned = counter(
        "ragmonitor_sampling_learned_results", "Results that the model has learned from.", ("app", "evaluator")
    )
    sampling_replayed = counter(
        "ragmonitor_sampling_replayed_results",
        "Results of earlier processes and of other replicas that the model has learned from.",
        ("app", "evaluator"),
    )
    sampling_coefficient = gauge(
        "ragmonitor_sampling_coefficient",
        "How much the model adds to the log odds of a defect per standard deviation of an input (`export_model`).",
        ("app", "evaluator", "input"),
    )
    sampling_bucket = gauge(
        "ragmonitor_sampling_bucket_evaluations",
        "Evaluations that can still be made at once before the hourly cap lowers probabilities.",
        ("evaluator",),
    )
    sampling_bucket_limit = gauge(
        "ragmonitor_sampling_bucket_limit_evaluations",
        "The capacity of the bucket. While it is less than half full, probabilities are lowered.",
        ("evaluator",),
    )
    weight_max = gauge(
        "ragmonitor_evaluation_weight_max",
        "The largest weight of a scored evaluation in the last five to ten minutes; 0 if there was none.",
        ("app", "evaluator"),
    )

    # Evaluator status.
    evaluator_state = gauge(
        "ragmonitor_evaluator_state",
        "1 for the evaluator's current state, 0 for the others: never_run, ok, degraded, overloaded, paused, error."
        " See docs/states.md.",
        ("evaluator", "state"),
    )
    contradictions = counter(
        "ragmonitor_contradictions",
        "Verdicts whose explanation contradicts their score, by how they were counted: defect or passed."
        " The score is not changed.",
        ("app", "evaluator", "counted"),
    )

    claims_not_found = counter(
        "ragmonitor_claims_not_found",
        "Claims that the judge quotes but that are not in the response. They are ignored; if no claim of a verdict is"
        " in the response, the evaluation is unscored.",
        ("app", "evaluator"),
    )

    # The canary set. It measures the judge and is not part of any rate.
    canary_verdicts = counter(
        "ragmonitor_canary_verdicts",
        "Verdicts on the canary set compared with the reference: same, stricter (a defect where the reference has"
        " none), milder, unscored. Except for unscored, counting starts when the reference is complete.",
        ("evaluator", "version", "agreement"),
    )
    canary_runs = counter(
        "ragmonitor_canary_runs",
        "Runs of the canary set that were compared with the reference.",
        ("evaluator", "version"),
    )
    canary_tolerance = gauge(
        "ragmonitor_canary_tolerance_ratio",
        "The share of verdicts that may differ from the reference: the judge's own noise plus `canary.tolerance`."
        " No series until the reference is complete.",
        ("evaluator", "version"),
    )
    canary_last_run = gauge(
        "ragmonitor_canary_last_run_timestamp_seconds",
        "When the last run of the canary set began, in this process or an earlier one; 0 if there was none.",
    )

    # Human labels, as sums from which PromQL derives the corrected rate and its limits. They are gauges because a new
    # labels file may contain fewer labels.
    calibration_labels = gauge(
        "ragmonitor_calibration_labels",
        "Results that a person has labelled too, by the judge's verdict and the person's label: defect or good.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_label_weight = gauge(
        "ragmonitor_calibration_label_weight",
        "Sum of the weights of labelled results: the traffic that they represent.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_label_weight_squares = gauge(
        "ragmonitor_calibration_label_weight_squares",
        "Sum of the squared weights of labelled results, for confidence limits.",
        ("evaluator", "version", "verdict", "truth"),
    )
    calibration_results = gauge(
        "ragmonitor_calibration_results",
        "Results from which the labelled ones were drawn at random, by the judge's verdict. No series if the labelled"
        " ones were chosen in another way (`calibrate` without `--audits`).",
        ("evaluator", "version", "verdict"),
    )
    calibration_result_weight = gauge(
        "ragmonitor_calibration_result_weight",
        "Sum of the weights of the results in `ragmonitor_calibration_results`.",
        ("evaluator", "version", "verdict"),
    )
    calibration_result_weight_squares = gauge(
        "ragmonitor_calibration_result_weight_squares",
        "Sum of the squared weights of the results in `ragmonitor_calibration_results`.",
        ("evaluator", "version", "verdict"),
    )

    judge_as_good = gauge(
        "ragmonitor_judge_as_good_probability",
        "Probability, 0 to 1, of labels as bad as those of the last seven days if the judge is as good as before."
        " 1 while there are too few labels. No series without labels that measure the judge.",
        ("evaluator", "version"),
    )

    # Backfill. It is not part of any rate or alert. For each app, evaluator and source, at every scrape:
    # requested = evaluations + pending.
    backfill_requested = counter(
        "ragmonitor_backfill_requested",
        "Evaluations that `rag-monitor backfill` has requested, including those found when the process started."
        " `source`: kafka, spool, file, missed.",
        ("app", "evaluator", "source"),
    )
    backfill_pending = gauge(
        "ragmonitor_backfill_pending",
        "Backfill evaluations that were requested but are not done yet.",
        ("app", "evaluator", "source"),
    )
    backfill_evaluations = counter(
        "ragmonitor_backfill_evaluations",
        "Backfill evaluations by outcome: defect, passed, skipped, unscored, expired (waited too long, or cannot be"
        " read), known (there already was a result), forgotten (erased on request). They are not part of any rate or"
        " alert.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_weight = counter(
        "ragmonitor_backfill_weight",
        "Sum of the weights of scored backfill evaluations.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_weight_squares = counter(
        "ragmonitor_backfill_weight_squares",
        "Sum of the squared weights of scored backfill evaluations.",
        ("app", "evaluator", "version", "source", "outcome"),
    )
    backfill_missed = counter(
        "ragmonitor_backfill_missed",
        "Evaluations that were due while the judge was paused, by outcome: kept for `rag-monitor backfill --missed`;"
        " dropped, because there was no room or the queue could not be written; expired after they were kept.",
        ("app", "evaluator", "outcome"),
    )
    spool_retained_bytes = gauge(
        "ragmonitor_spool_retained_bytes",
        "Size of the processed deliveries that are kept for `rag-monitor backfill --from spool`.",
    )
    spool_retained_dropped = counter(
        "ragmonitor_spool_retained_dropped",
        "Deliveries deleted before `storage.spool_retention` because there was no room, or not kept at all because the"
        " disk did not accept them.",
    )
    backfill_cost = counter(
        "ragmonitor_backfill_cost_dollars",
        "US dollars spent on backfill evaluations; not included in `ragmonitor_judge_cost_dollars_total`.",
    )

    # The request log.
    request_log_records = counter(
        "ragmonitor_request_log_records",
        "Records for the request log (`rag-monitor why`) by outcome: kept; dropped, because too many were waiting for"
        " the disk; failed, because they could not be written before the process ended. No series if"
        " `storage.request_log` is 0.",
        ("outcome",),
    )

    # Trials in the UI.
    trials = counter(
        "ragmonitor_trials",
        "Trials of an evaluator on a case in the UI, by outcome: scored, none (no score). They are not part of any"
        " rate or other metric.",
        ("evaluator", "outcome"),
    )
    trials_cost = counter(
        "ragmonitor_trials_cost_dollars",
        "US dollars spent on trials in the UI; not included in `ragmonitor_judge_cost_dollars_total`.",
    )

    # Redaction.
    redacted = counter(
        "ragmonitor_redacted",
        "Values of personal data that were masked (`redaction`), each once per case, by type. No series if redaction is"
        " off.",
        ("type",),
    )

    # Apache Kafka. The series of a partition move with it to another replica.
    consumer_lag = gauge(
        "ragmonitor_consumer_lag_messages",
        "Messages of a partition that have not been taken yet: its end minus the next offset to take. Only"
        " partitions assigned to this replica have a series, so the sum over replicas is the group's lag.",
        ("topic", "partition"),
    )
    consumer_unfinished = gauge(
        "ragmonitor_consumer_unfinished_messages",
        "Messages that were taken but whose offsets cannot be committed yet, because they or earlier ones are not"
        " finished.",
    )
    consumer_oldest = gauge(
        "ragmonitor_consumer_oldest_pending_timestamp_seconds",
        "When the oldest unfinished message was written, by its timestamp in the topic; 0 if there is none.",
        ("topic",),
    )
    consumer_partitions = gauge(
        "ragmonitor_consumer_assigned_partitions", "Partitions assigned to this replica.", ("topic",)
    )
    consumer_messages = counter(
        "ragmonitor_consumer_messages",
        "Messages by outcome: taken, empty (no value), dead_letter, discarded (unreadable, and no dead-letter topic is"
        " configured).",
        ("topic", "outcome"),
    )
    consumer_unread_fields = counter(
        "ragmonitor_consumer_rows_with_unread_fields",
        "Rows with a field that is not read because no row format defines it. Each name is logged once per topic.",
        ("topic",),
    )
    consumer_rebalances = counter(
        "ragmonitor_consumer_rebalances",
        "Changes of the partition assignment: assigned, revoked (given up in an orderly way), lost (taken away).",
        ("kind",),
    )
    consumer_rebuilds = counter(
        "ragmonitor_consumer_rebuilds",
        "Consumers that were replaced, by reason: unreachable, unauthorised, fenced, other_assignment, poll_stuck, "
        "partition_stuck, error.",
        ("reason",),
    )
    consumer_commits = counter(
        "ragmonitor_consumer_commits",
        "Commits of offsets by outcome: ok, failed. The next commit includes the offsets of a failed one.",
        ("outcome",),
    )
    consumer_expired = counter(
        "ragmonitor_consumer_expired_messages",
        "Messages that the topic's retention deleted before they were read.",
        ("topic",),
    )
    dead_letters = counter(
        "ragmonitor_dead_letters",
        "Messages that could not be read, by topic and reason: invalid, too_large, rejected, checksum, codec,"
        " batch, fault. Includes messages that no dead-letter topic accepted.",
        ("topic", "reason"),
    )
    producer_records = counter(
        "ragmonitor_producer_records",
        "Records sent to Kafka (results, dead letters) by outcome: delivered (all in-sync replicas have them),"
        " refused (they can never be sent), failed (no acknowledgement in time).",
        ("topic", "outcome"),
    )
    producer_seconds = histogram(
        "ragmonitor_producer_delivery_seconds",
        "Time from handing a record over to its acknowledgement.",
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
        "How certain a rise of the defect rate above the previous week must be, in standard deviations, by window.",
        ("app", "evaluator", "severity", "window"),
    )
    rule_alert_threshold = gauge(
        "ragmonitor_rule_alert_threshold_ratio",
        "The configured threshold of the defect rate, by an alert's own defect rule.",
        ("app", "evaluator", "defect_rule", "severity"),
    )
    rule_alert_regression_z = gauge(
        "ragmonitor_rule_alert_regression_z",
        "`ragmonitor_alert_regression_z` again, by an alert's own defect rule.",
        ("app", "evaluator", "defect_rule", "severity", "window"),
    )
    severe_verdicts = counter(
        "ragmonitor_severe_verdicts",
        "Live answers judged severe, for alerts with `severe`, by the outcome of a second judgement: confirmed,"
        " refuted, unscored. The ratio confirmed / (confirmed + refuted) is how often the judge agrees with itself.",
        ("app", "evaluator", "outcome"),
    )
    severe_confirmed = counter(
        "ragmonitor_severe_confirmed",
        "Sessions with an answer that was judged severe twice; each session counts once a day.",
        ("app", "evaluator"),
    )
    severe_called = counter(
        "ragmonitor_severe_called",
        "Confirmed severe cases that a person has called right or wrong; the first call on each case counts.",
        ("app", "evaluator", "call"),
    )
    severe_unexplained_limit = gauge(
        "ragmonitor_severe_unexplained_limit_sessions",
        "The largest number of confirmed sessions in 30 days, not called right, with which this many `sessions` within"
        " an hour still page; -1: this many never page.",
        ("app", "evaluator", "sessions"),
    )
    notifications = counter(
        "ragmonitor_notifications", "Alert notifications by receiver and outcome.", ("receiver", "outcome")
    )
    digests = counter(
        "ragmonitor_digests",
        "Digests by receiver and outcome: sent; failed (an attempt that will be repeated); missed (given up a day after"
        " the due time).",
        ("receiver", "outcome"),
    )

    # The process itself.
    workers = gauge(
        "ragmonitor_workers",
        "Worker processes that currently read requests: one more than usual while all are slow; 0 if the main process"
        " reads them itself.",
    )
    workers_replaced = counter(
        "ragmonitor_workers_replaced",
        "Worker processes that ended and were replaced, by reason: hung, died, memory (it used too much),"
        " not_started, upgraded (the code on disk is no longer the code that is running).",
        ("reason",),
    )
    worker_busy_seconds = counter(
        "ragmonitor_worker_busy_seconds",
        "Seconds that worker processes spent reading requests, summed over all of them.",
    )
    queue_items = gauge("ragmonitor_queue_items", "Items waiting in a bounded queue.", ("queue",))
    queue_limit = gauge("ragmonitor_queue_limit_items", "Maximum items in a bounded queue.", ("queue",))
    config_reload_successful = gauge(
        "ragmonitor_config_last_reload_successful",
        "1 if the last reload of the configuration succeeded, or there was none; 0 if it failed, and the configuration"
        " from before stays in use.",
    )
    config_reloaded_at = gauge(
        "ragmonitor_config_last_reload_success_timestamp_seconds",
        "When a configuration was last read and put into use, at the start or by a reload.",
    )
    memory_limit = gauge("ragmonitor_memory_limit_bytes", "Memory that the monitor and its worker processes may use.")
    memory_resident = gauge(
        "ragmonitor_memory_resident_bytes", "Resident memory of the monitor and its worker processes."
    )
    memory_refusing = gauge(
        "ragmonitor_memory_refusing", "1 while receivers refuse data because memory is short (`limits.memory`), else 0."
    )
    oldest_pending = gauge(
        "ragmonitor_oldest_pending_timestamp_seconds", "When the oldest unfinished trace arrived; 0 if there is none."
    )
    open_traces = gauge("ragmonitor_open_traces", "Traces that are not yet complete.")
    open_traces_bytes = gauge("ragmonitor_open_traces_bytes", "Memory used by traces that are not yet complete.")
    spool_bytes = gauge("ragmonitor_spool_bytes", "Bytes of data in the spool.")
    spool_rows = gauge("ragmonitor_spool_records", "Deliveries in the spool.")
    spool_damaged = counter(
        "ragmonitor_spool_damaged_records", "Spool records that could not be read back and were dropped."
    )
    database_damaged = counter(
        "ragmonitor_database_damaged",
        "Damaged databases that were set aside and replaced by new ones with all data that could be saved.",
        ("database",),
    )
    database_rows = counter(
        "ragmonitor_database_rows",
        "Rows of damaged databases, by outcome: saved, lost (a lower bound).",
        ("database", "outcome"),
    )
    database_failing = gauge(
        "ragmonitor_database_failing",
        "1 while a database cannot be written: its new records wait in memory and are retried. Else 0.",
        ("database",),
    )
    database_unwritten = counter(
        "ragmonitor_database_unwritten_records",
        "Records that were lost because a database could not be written and too many waited, or the process ended.",
        ("database",),
    )
    telemetry_items = counter(
        "ragmonitor_telemetry_items",
        "The monitor's own spans and log records (`telemetry`), by signal (traces, logs) and outcome: sent, dropped.",
        ("signal", "outcome"),
    )
    events = counter("ragmonitor_events", "Events worth a log line, by name.", ("event",))
    evaluator_info = info(
        "ragmonitor_evaluator",
        "Description of an evaluator: version, scale, unit (share, points, score), direction, defect rule. `source`:"
        " own, or the source of external scores.",
        ("evaluator",),
    )
    build = info("ragmonitor_build", "Versions of the monitor and of Python.")
