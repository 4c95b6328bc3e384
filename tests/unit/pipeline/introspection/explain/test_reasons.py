"""Every place where a request can end, and every reason of an evaluator, has a sentence of its own."""

from __future__ import annotations

import pytest

from monitor.judge.setup import MAY_COST, REDIRECTED
from monitor.model.outcome import SkippedReason, UnscoredReason
from monitor.pipeline.introspection.explain import Cause, EvaluatorSetup, MonitorSetup, reasons
from monitor.pipeline.ledger import RequestOutcome, TraceOutcome

EVALUATOR = EvaluatorSetup(
    name="groundedness",
    place="evaluators[1]",
    cost="judge",
    judge_place="judges.small",
    judge={"model": "m", "timeout": 30.0, "max_concurrency": 16, "max_characters": 400_000},
)
SETUP = MonitorSetup(evaluators=[EVALUATOR])
NO_SETTING = {UnscoredReason.SHUTDOWN, UnscoredReason.ERROR}


def test_every_fate_of_the_ledger_is_explained_and_has_its_cause():
    ends = {one.value for one in TraceOutcome if one is not TraceOutcome.READ} | {one.value for one in RequestOutcome}
    assert set(reasons.OUTCOMES) == ends
    told = {outcome: reasons.of_outcome(outcome, "traffic.drop[0]", SETUP).text for outcome in reasons.CAUSE_OF_OUTCOME}
    assert len(set(told.values())) == len(told)
    assert set(reasons.CAUSE_OF_OUTCOME) == ends - {"evaluated"}


@pytest.mark.parametrize("reason", list(UnscoredReason))
def test_every_reason_without_a_verdict_has_a_sentence_and_names_the_setting_of_its_judge(reason):
    told = reasons.of_unscored(reason.value, "", EVALUATOR)
    assert " " in told.text
    if reason in NO_SETTING:
        assert not told.setting
    else:
        assert told.setting.startswith(("judges.small.", "assembly."))
        assert "{" not in told.setting


def test_no_two_reasons_are_told_alike():
    told = [reasons.of_unscored(reason.value, "", EVALUATOR).text for reason in UnscoredReason]
    assert len(set(told)) == len(told)


def test_every_reason_to_skip_has_a_sentence():
    told = [reasons.of_skipped(reason.value).text for reason in SkippedReason]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("cap", ["dollars_per_day", "dollars_per_hour", "evaluations_per_day"])
def test_a_spent_budget_names_the_cap_that_is_spent(cap):
    told = reasons.of_unscored("budget", f"{cap} (20) is spent until 00:00 UTC", EVALUATOR)
    assert told.setting == f"judges.small.budget.{cap}: higher"
    assert "until 00:00 UTC" in told.text


def test_a_budget_below_the_price_of_one_call_is_too_small_and_not_spent():
    told = reasons.of_unscored("budget", f"{MAY_COST} $0.00075, more than dollars_per_day (0.0005)", EVALUATOR)
    assert told.text.startswith("the judge's budget is too small (one call may cost up to $0.00075")
    assert told.setting == "judges.small.budget.dollars_per_day: higher"


def test_a_redirect_asks_for_the_address_that_it_leads_to():
    told = reasons.of_unscored("provider_error", f"{REDIRECTED} (HTTP 308)", EVALUATOR)
    assert told.text == f"{REDIRECTED} (HTTP 308)"
    assert told.setting == "judges.small.api_base: the address that this one redirects to"


def test_a_setting_that_is_a_number_says_what_it_is_now():
    assert reasons.of_unscored("timeout", "", EVALUATOR).setting == "judges.small.timeout: longer than 30 s"
    assert reasons.of_unscored("overloaded", "", EVALUATOR).setting == "judges.small.max_concurrency: higher than 16"


@pytest.mark.parametrize(
    ("detail", "setting"),
    [
        ("the sender dropped 7 attributes (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
        ("the sender cuts attribute values at 64 characters (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT)", "VALUE_LENGTH_LIMIT"),
        ("the texts of answer were not sent", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ("the row has no answer", "the rows that are sent"),
    ],
)
def test_missing_texts_name_what_keeps_the_sender_from_sending_them(detail, setting):
    assert setting in reasons.of_outcome("content_missing", detail, SETUP).setting


def test_an_unknown_word_of_a_later_version_is_shown_as_it_is():
    assert "quantum" in reasons.of_unscored("quantum", "", None).text
    assert "quantum" in reasons.of_skipped("quantum").text
    assert "quantum" in reasons.of_outcome("quantum", "", SETUP).text


def test_every_cause_is_a_word_of_its_own():
    assert len({cause.value for cause in Cause}) == len(Cause)


@pytest.mark.parametrize(
    ("outcome", "detail", "setting"),
    [
        ("sampled_out", "traffic.rates.synthetic", "traffic.rates.synthetic: at least 0.25"),
        ("sampled_out", "", ""),
        ("filtered", "traffic.health_checks", "traffic.health_checks: true"),
        ("filtered", "traffic.drop[0]", "traffic.drop[0]: remove this rule"),
        ("filtered", "traffic.zebra", "traffic.zebra: remove this rule"),
        (
            "incomplete",
            "the parent of 3 spans never arrived",
            "extraction.orphans_are_roots: true, if that span is only sent to another backend",
        ),
        (
            "incomplete",
            "",
            "assembly.idle_timeout: longer than 1 min, if the missing spans arrive later than that",
        ),
        ("expired", "", "storage.retention: longer"),
        ("of_a_later_version", "", ""),
    ],
)
def test_what_was_left_out_names_the_rule_or_rate_that_did_it(outcome, detail, setting):
    assert reasons.of_outcome(outcome, detail, SETUP, draw=0.25).setting == setting


def test_the_detail_of_an_end_follows_its_sentence():
    assert reasons.of_outcome("failed_request", "HTTP 500", SETUP).text.endswith("nothing to evaluate: HTTP 500")
    assert reasons.of_outcome("failed_request", "", SETUP).text.endswith("nothing to evaluate")
    assert reasons.of_outcome("filtered", "traffic.drop[0]", SETUP).text.endswith(": traffic.drop[0] matches it")


def test_the_detail_of_a_reason_follows_its_sentence_in_brackets():
    assert reasons.of_unscored("refusal", "a policy", EVALUATOR).text == "the judge refused to evaluate it (a policy)"
    assert reasons.of_unscored("quantum", "a policy", None).text == "it produced no score: quantum (a policy)"
    assert reasons.of_unscored("quantum", "", None).text == "it produced no score: quantum"


def test_a_number_that_is_not_known_is_left_out():
    assert reasons.of_unscored("timeout", "", None).setting == "judge.timeout: longer"
    assert reasons.of_unscored("overloaded", "", None).setting == "judge.max_concurrency: higher"
    assert reasons.of_unscored("budget", "", None).setting == "judge.budget: higher"
    large = reasons.of_unscored("too_large", "", EVALUATOR).setting
    assert large == "judges.small.max_characters: higher than 400,000, if the model's context window has room"
    assert reasons.of_unscored("too_large", "", None).setting.startswith("judge.max_characters: higher, if")


def test_without_any_evaluator_none_is_configured():
    assert reasons.not_configured("x", MonitorSetup(evaluators=[])).text.endswith("configured: none")


def test_a_score_of_an_unknown_tool_is_an_external_score():
    assert reasons.external("of_a_later_version") == "an external score"
    assert reasons.expected_source("user_feedback") == "feedback"
    assert reasons.expected_source("judged") == ""


@pytest.mark.parametrize(
    ("detail", "setting"),
    [
        ("the monitor refused 1 span larger than max_span_bytes", "max_span_bytes of its source: larger"),
        ("the monitor refused 1 span of a resource larger than max_resource_bytes", "max_resource_bytes of"),
        ("the monitor refused 1 span that cannot be read", "in the service: its exporter says why"),
        ("the root span never arrived (closed: idle)", "assembly.idle_timeout: longer"),
    ],
)
def test_what_is_missing_of_a_trace_says_what_to_change(detail, setting):
    found = reasons.of_outcome("incomplete", detail, SETUP)
    assert found.text == f"part of the trace is missing: {detail}"
    assert found.setting.startswith(setting)
