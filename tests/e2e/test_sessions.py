"""Bad answers that come in sessions, the whole way: rows in, counters, page and API, and an alert that stays silent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.statistics.rates import Estimate, Sums, estimate
from monitor.web.texts import interval
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

CONFIG = {
    "evaluators": [{"type": "refusal_pattern"}],
    "slices": ["tenant"],
    "alerts": [
        {"evaluator": "refusal_pattern", "warning": "2%"},
        {"evaluator": "refusal_pattern", "defect": {"at_least": 0.5}, "warning": "2%"},
    ],
}
BAD, GOOD = "I'm sorry, but I cannot help with that.", "The parcel left the warehouse on Monday and arrives on Friday."


def send(monitor: MonitorProcess, app: str, *, in_sessions: bool) -> None:
    """Send ten conversations of ten answers, of which one is bad; or the same answers, each by itself."""
    rows = [
        {
            "request_id": f"{app}-{number}",
            "app": app,
            "request": "Where is my parcel?",
            "response": BAD if number < 10 else GOOD,
            "attributes": {"tenant": "north"},
            **({"session_id": f"{app}-{number // 10}"} if in_sessions else {}),
        }
        for number in range(100)
    ]
    assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
    monitor.wait_for_total(len(rows), "ragmonitor_requests_total", app=app, outcome="evaluated")


def scraped(monitor: MonitorProcess, app: str, family: str = "ragmonitor_evaluation", **labels: str) -> Sums:
    """The sums that Prometheus would add up."""

    def total(name: str, **more: str) -> float:
        return monitor.total(f"{family}{name}_total", app=app, **labels, **more)

    weight, bad = total("_weight"), total("_weight", defect="true")
    squares, good_squares = (total("_weight_squares", defect=one) for one in ("true", "false"))
    products = (total("_session_products", of=one) for one in ("defects", "all", "both"))
    number, defects = round(total("s")), round(total("s", defect="true"))
    return Sums(number, defects, weight, bad, squares, good_squares, 1.0, *products)


def limits(sums: Sums) -> Estimate:
    found = estimate(sums, usual=sums.typical_weight)
    assert found is not None
    return found


def test_a_session_of_bad_answers_is_one_fact_in_counters_page_and_api_and_fires_no_alert(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, CONFIG) as monitor:
        send(monitor, "sessions", in_sessions=True)
        send(monitor, "singles", in_sessions=False)
        by_session, by_answer = Sums.counted(100, 10, per_session=10), Sums.counted(100, 10)
        assert scraped(monitor, "singles") == by_answer
        for family, labels in (
            ("ragmonitor_evaluation", {}),
            ("ragmonitor_rule_evaluation", {"defect_rule": rule_name(monitor)}),
            ("ragmonitor_slice_evaluation", {"slice": "tenant", "value": "north"}),
        ):
            assert scraped(monitor, "sessions", family, **labels) == by_session, family
        assert monitor.total("ragmonitor_sessions_total", app="sessions") == 10
        assert monitor.total("ragmonitor_sessions_defective_total", app="sessions") == 1
        wide, narrow = limits(by_session), limits(by_answer)
        assert wide.lower < narrow.lower / 10

        wait_until(lambda: firing(monitor, "singles") == 2, 60, "the alerts on the same answers, each by itself")
        assert firing(monitor, "sessions") == 0
        for app, expected in (("sessions", wide), ("singles", narrow)):
            rate = rate_of(monitor, app)
            shown = [rate, *rate["by_rule"], *(value for one in rate["slices"] for value in one["values"])]
            assert len(shown) == 3
            for one in shown:
                assert (one["lower"], one["upper"]) == pytest.approx((expected.lower, expected.upper), rel=1e-6)
        assert interval(wide.lower, wide.upper) in monitor.get("/")
        assert_balanced(monitor.samples())
        assert monitor.terminate(20) == 0


def rate_of(monitor: MonitorProcess, app: str) -> dict[str, Any]:
    apps = json.loads(monitor.get("/api/v1/overview"))["apps"]
    (rate,) = next(one["rates"] for one in apps if one["app"] == app)
    return rate


def firing(monitor: MonitorProcess, app: str) -> int:
    alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return sum(one["app"] == app and one["status"] == "firing" for one in alerts)


def rule_name(monitor: MonitorProcess) -> str:
    (name,) = {labels["defect_rule"] for labels, _ in monitor.samples()["ragmonitor_rule_evaluations_total"]}
    return name
