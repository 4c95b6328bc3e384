"""How everything stands: states with their reasons, rates, where traces ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.self_alert import self_alerts
from monitor.alerts.state import AlertStatus, AlertTracker, ConditionResult, Subject
from monitor.model.service_version import VersionChange
from monitor.pipeline.ledger import Ledger, RequestOutcome, TraceOutcome
from monitor.web import overview
from monitor.web.counters import read_counters
from monitor.web.overview import MAX_RATES
from monitor.web.rates import rate_view
from tests.support.page import NOW, Site

pytestmark = pytest.mark.anyio
PAIR = ("shop", "overlap_groundedness")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


async def seen(site, app=""):
    site.look()
    return await overview.overview(site.context, window="24h", app=app, started_at=NOW - 100)


async def rate(site):
    (app,) = (await seen(site)).apps
    return next(one for one in app.rates if one.evaluator == PAIR[1])


async def test_a_rate_above_its_threshold_is_critical_and_says_why(site):
    site.judge(*PAIR, good=50, bad=50)
    found = await rate(site)
    assert found.state == "critical"
    assert "50 % of the answers from shop" in found.why
    assert {one.name for one in found.firing} == {"RagDefectRateHigh"}
    assert [one.severity for one in found.firing] == ["critical", "warning"]


async def test_a_rate_of_somebody_elses_verdicts_is_shown_with_its_source_and_is_not_ours(site):
    site.judge(*PAIR, good=490, bad=10)
    site.judge("shop", "user_feedback", good=1, bad=3)
    site.runtime.metrics.evaluator_info.labels("user_feedback").info({"source": "feedback"})
    (app,) = (await seen(site)).apps
    shown = {one.evaluator: (one.source, one.state, one.evaluated, one.defects) for one in app.rates}
    assert shown == {PAIR[1]: ("own", "ok", 500, 10), "user_feedback": ("feedback", "no_alert", 4, 3)}
    assert app.state == "ok"


async def test_a_rate_below_its_threshold_is_ok_with_its_interval(site):
    site.judge(*PAIR, good=490, bad=10)
    found = await rate(site)
    assert (found.state, found.evaluated, found.defects) == ("ok", 500, 10)
    assert found.lower < found.rate == 0.02 < found.upper
    assert found.thresholds == {"critical": 0.25, "warning": 0.1}


async def test_too_few_judged_is_neither_ok_nor_an_alert(site):
    site.judge(*PAIR, good=2, bad=1)
    found = await rate(site)
    assert found.state == "not_enough_data"
    assert "Not enough data" in found.why


async def test_a_rate_without_an_alert_is_not_called_ok(tmp_path):
    site = Site(tmp_path, evaluators=("refusal_pattern",))
    site.judge("shop", "refusal_pattern", good=500, bad=1)
    (app,) = (await seen(site)).apps
    assert [(one.state, one.why) for one in app.rates] == [("no_alert", "No alert is configured for this rate.")]


@pytest.mark.parametrize(("policy", "state"), [({}, "no_alert"), ({"regression": True}, "not_enough_data")])
async def test_alerts_on_the_monitor_itself_do_not_make_a_rate_ok(tmp_path, policy, state):
    policies = [AlertPolicy(evaluator="refusal_pattern", **policy)] if policy else []
    site = Site(tmp_path, evaluators=("refusal_pattern",), policies=policies)
    site.judge("shop", "refusal_pattern", good=500, bad=1)
    site.look()
    (unscored,) = (one for one in self_alerts() if one.name == "RagUnscoredHigh")
    finding = ConditionResult(AlertStatus.OK, "1 % of the evaluations have no score.", threshold=0.2)
    subject = Subject(unscored.name, Severity.WARNING, "shop", "refusal_pattern")
    site.states.append(AlertTracker("").advance(subject, finding, summary=unscored.summary, hold=0.0, now=NOW))
    (app,) = (await overview.overview(site.context, window="24h", app="", started_at=NOW - 100)).apps
    assert [one.state for one in app.rates] == [state]


async def test_before_its_alerts_are_checked_a_new_app_is_neither_ok_nor_without_an_alert(site):
    site.look()
    site.judge(*PAIR, good=490, bad=10)
    (app,) = (await overview.overview(site.context, window="24h", app="", started_at=NOW - 100)).apps
    (found,) = app.rates
    assert (app.state, found.state) == ("not_enough_data", "not_enough_data")
    assert found.why == "Its alerts have not been checked yet."
    assert (await rate(site)).state == "ok"


async def test_no_verdict_is_explained_by_what_came_in_its_place(site):
    Ledger(site.runtime.metrics).received("shop", "otlp_http")
    site.runtime.metrics.selected.labels(*PAIR).inc(5)
    site.runtime.metrics.unscored.labels(*PAIR, "timeout").inc(4)
    found = await rate(site)
    assert (found.state, found.why) == ("no_scores", "No answer was scored: 4 timeout.")
    assert found.unscored == {"timeout": 4}


async def test_why_there_is_no_score_is_told_on_both_sides_of_a_gateway(site):
    ledger = Ledger(site.runtime.metrics)
    ledger.received("gateway", "otlp_http")
    ledger.found("shop", "otlp_http", 2)
    for _ in range(2):
        ledger.request_ended("shop", "otlp_http", RequestOutcome.CONTENT_MISSING)
    ledger.ended("gateway", "otlp_http", TraceOutcome.READ)
    counters = read_counters(site.runtime.metrics)
    told = {
        app: rate_view(site.context, (app, PAIR[1]), [], counters, None, window="24h", now=NOW).why
        for app in ("gateway", "shop", "cart")
    }
    assert told == {
        "gateway": "1 trace began here; other services answered.",
        "shop": "None of 2 requests was evaluated: 2 content_missing.",
        "cart": "No trace of this app has arrived since the monitor started.",
    }


async def test_an_app_that_was_never_judged_has_no_rates_but_its_ledger(site):
    ledger = Ledger(site.runtime.metrics)
    for outcome in (TraceOutcome.NO_REQUEST, TraceOutcome.NO_REQUEST, TraceOutcome.INCOMPLETE):
        ledger.received("cart", "otlp_http")
        ledger.ended("cart", "otlp_http", outcome)
    ledger.received("cart", "otlp_http")
    (app,) = (await seen(site)).apps
    assert (app.state, app.rates, app.received, app.pending) == ("no_scores", [], 4, 1)
    assert app.ended == {"no_request": 2, "incomplete": 1}


async def test_an_app_has_the_shares_of_its_answers_by_how_their_context_came_about(site):
    Ledger(site.runtime.metrics).received("cart", "otlp_http")
    site.judge(*PAIR, good=5, bad=0)
    for status, weight in (("retrieved", 60.0), ("no_retrieval", 15.0), ("not_recorded", 0.0)):
        site.runtime.metrics.context_weight.labels("shop", status).inc(weight)
    found = {one.app: one.contexts for one in (await seen(site)).apps}
    assert found == {"shop": {"retrieved": 0.8, "no_retrieval": 0.2, "not_recorded": 0.0}, "cart": {}}


async def test_the_gravest_comes_first(site):
    site.judge("calm", PAIR[1], good=500, bad=1)
    site.judge("zoo", PAIR[1], good=50, bad=50)
    found = await seen(site)
    assert [(one.app, one.state) for one in found.apps] == [("zoo", "critical"), ("calm", "ok")]
    assert found.state == "critical"


async def test_one_app_can_be_asked_for(site):
    site.judge("calm", PAIR[1], good=500, bad=1)
    site.judge("zoo", PAIR[1], good=50, bad=50)
    assert [one.app for one in (await seen(site, app="calm")).apps] == ["calm"]


async def test_of_very_many_rates_the_gravest_are_shown_and_the_others_counted(site):
    for number in range(MAX_RATES + 20):
        site.judge(f"app-{number:03}", PAIR[1], good=20, bad=0)
    site.judge("zoo", PAIR[1], good=50, bad=50)
    found = await seen(site)
    assert sum(len(one.rates) for one in found.apps) == MAX_RATES
    assert (found.apps[0].app, found.left_out) == ("zoo", 21)


async def test_the_trend_ends_now_and_has_gaps_where_nothing_was_judged(site):
    site.judge(*PAIR, good=900, bad=100, at=NOW - 60)
    site.judge(*PAIR, good=500, bad=500, at=NOW - 7200)
    found = await rate(site)
    assert [one.rate for one in found.trend if one.rate is not None] == [0.5, 0.1]
    assert found.trend[-1].at <= NOW < found.trend[-1].at + 1800
    assert len(found.trend) == 48


async def test_a_trend_of_few_verdicts_is_drawn_in_fewer_steps_and_loses_none(site):
    for hour in range(20):
        site.judge(*PAIR, good=3, bad=1, at=NOW - hour * 3600)
    found = await rate(site)
    assert len(found.trend) == 6
    assert sum(one.evaluated for one in found.trend) == found.evaluated


async def test_a_rate_is_set_against_the_week_before_once_that_is_known(site):
    now = site.clock.now()
    site.clock.jump(-9 * 86400)
    for hour in range(9 * 24):
        site.judge(*PAIR, good=19, bad=1, at=site.clock.now())
        site.clock.jump(3600 if hour < 9 * 24 - 1 else now - site.clock.now())
    site.judge(*PAIR, good=300, bad=300, at=now - 60)
    found = await rate(site)
    assert found.week_before is not None
    assert found.week_before.base_rate == pytest.approx(0.05, abs=0.005)
    assert found.week_before.ratio > 5


async def test_a_change_behind_the_verdicts_is_told_for_a_week(tmp_path):
    site = Site(tmp_path, changes={PAIR: VersionChange(NOW - 3600, "prompt 3 -> 4")})
    site.judge(*PAIR, good=10, bad=0)
    assert (await rate(site)).changed.text == "prompt 3 -> 4"
    site.clock.advance(8 * 86400)
    site.judge(*PAIR, good=10, bad=0, at=site.clock.now())
    assert (await rate(site)).changed is None


async def test_an_evaluator_that_is_off_is_shown_as_off_and_has_no_rates(tmp_path):
    site = Site(tmp_path, idle=("groundedness",))
    site.judge(*PAIR, good=10, bad=0)
    found = await seen(site)
    assert [(one.name, one.works) for one in found.evaluators] == [
        ("overlap_groundedness", True),
        ("groundedness", False),
    ]
    assert [one.evaluator for one in found.apps[0].rates] == ["overlap_groundedness"]


async def test_an_evaluator_that_only_ranks_has_no_row_among_the_rates(tmp_path):
    site = Site(tmp_path, evaluators=("overlap_groundedness", "learned_groundedness"))
    site.judge(*PAIR, good=10, bad=0)
    site.judge("shop", "learned_groundedness", good=10, bad=0)
    found = await seen(site)
    assert [one.evaluator for one in found.apps[0].rates] == ["overlap_groundedness"]
    assert "learned_groundedness" in {one.name for one in found.evaluators}


async def test_what_fires_stands_before_what_is_quiet(site):
    site.judge("calm", PAIR[1], good=500, bad=1)
    site.judge("zoo", PAIR[1], good=50, bad=50)
    site.look()
    stated = overview.alerts(site.context).alerts
    assert [(one.app, one.status, one.severity) for one in stated[:3]] == [
        ("zoo", "firing", "critical"),
        ("zoo", "firing", "warning"),
        ("calm", "not_enough_data", "warning"),
    ]
    assert stated[0].runbook_url == "https://runbooks.example/RagDefectRateHigh.md"


async def test_an_alert_about_no_app_stands_by_itself(site):
    site.judge(*PAIR, good=50, bad=50)
    site.look()
    site.states = [replace(site.states[0], app="", evaluator="")]
    found = await overview.overview(site.context, window="1h", app="", started_at=NOW)
    assert [one.name for one in found.alerts] == ["RagDefectRateHigh"]
    assert found.state == "critical"


async def test_the_rate_by_an_own_rule_of_an_alert_is_shown_beside_that_of_the_evaluator(tmp_path):
    site = Site(tmp_path)
    pair = ("shop", "groundedness")
    site.judge(*pair, good=980, bad=20)
    by_rule = site.ruled.of("groundedness", "mostly_ungrounded or lower")
    for number in range(1000):
        by_rule.add(*pair, NOW - 60, 1.0, number < 60)
    (app,) = (await seen(site)).apps
    (shown,) = [one for one in app.rates if one.evaluator == "groundedness"]
    assert (shown.defects, shown.rate) == (20, 0.02)
    assert shown.defect == "level mostly_ungrounded or lower (below 3)"
    (own,) = shown.by_rule
    assert (own.defect_rule, own.state, own.defects, own.rate) == ("mostly_ungrounded or lower", "critical", 60, 0.06)
    assert own.thresholds == {"critical": 0.01}
    assert shown.state == "critical"
    assert [one.defect_rule for one in shown.firing] == ["mostly_ungrounded or lower"]


async def test_an_own_rule_with_too_little_data_leaves_the_state_of_the_rate_alone(tmp_path):
    site = Site(tmp_path)
    pair = ("shop", "groundedness")
    site.judge(*pair, good=980, bad=20)
    site.ruled.of("groundedness", "mostly_ungrounded or lower").add(*pair, NOW - 60, 1.0, False)
    (app,) = (await seen(site)).apps
    (shown,) = [one for one in app.rates if one.evaluator == "groundedness"]
    assert (shown.state, shown.by_rule[0].state) == ("ok", "not_enough_data")
