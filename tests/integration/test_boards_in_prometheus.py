"""Every query of every board, over a real Prometheus that scrapes a real monitor with everything on."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grafana.expressions import EVALUATOR, Rate
from monitor import config
from monitor.alerts.prometheus.rules import render
from monitor.statistics.rates import Sums, estimate
from tests.support.boards import PATHS, Asked, filled, load, panels, queries
from tests.support.fed import LOCAL, Fed, unfinished_trace
from tests.support.kafka import Broker
from tests.support.kafka_traces import Traffic
from tests.support.llm import LLMServer
from tests.support.prometheus import await_scrapes, get_json, prometheus
from tests.support.tools import wait_until

VALUES = {
    "job": "rag-monitor",
    "instance": ".+",
    "app": "shop",
    "evaluator": ".+",
    "slice": "request.attack",
    "window": "30m",
    "__rate_interval": "1m",
}
ASKED = [one for path in PATHS for one in queries(path)]


class Watched:
    """The address of Prometheus, and the monitor that it watches."""

    def __init__(self, address: str, fed: Fed) -> None:
        self.address, self.fed = address, fed

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        moment = {} if at is None else {"time": f"{at:.3f}"}
        found = get_json(f"{self.address}/api/v1/query", query=expression, **moment)
        return list(found["data"]["result"])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("boards")
    kafka.create_topics("boards.spans", "boards.dead", "boards.results", partitions=1)
    with LLMServer() as llm, Traffic(kafka.address) as traffic:
        fed = Fed(folder, llm, kafka=kafka.address, canary="200ms")
        fed.label()
        with fed.monitor as monitor:
            rules = render(config.load(folder / "config.yaml").alerts, interval=1.0)
            with prometheus(folder / "prometheus", [fed.target], rules=rules) as address:
                for prompt in "1122":
                    traffic.traces("boards.spans", 3)
                    traffic.poison("boards.spans")
                    fed.round(prompt=prompt)
                    wait_until(lambda: monitor.total("ragmonitor_evaluations_pending") == 0, 30, "all verdicts")
                    await_scrapes(address)  # what is there at the first one, `increase` cannot see
                wait_until(lambda: monitor.total("ragmonitor_canary_runs_total") > 0, 60, "a canary run to compare")
                firing = f'{address}/api/v1/query?query=ALERTS{{alertname="RagDefectRateHigh"}}'
                wait_until(lambda: get_json(firing)["data"]["result"], 30, "an alert")
                assert monitor.post(unfinished_trace()) == 200
                traffic._send("boards.spans", "a trace without its end", unfinished_trace())
                traffic.flush()
                oldest = "ragmonitor_consumer_oldest_pending_timestamp_seconds"
                wait_until(lambda: monitor.total(oldest) > 0, 30, "what waits in Kafka")
                await_scrapes(address, 4)
                yield Watched(address, fed)


def as_asked(one: Asked) -> str:
    """The query with its variables filled in, over what a test of seconds can have."""
    of_many = one.expression.replace('app=~"$app', 'app=~".+')
    text = filled(of_many, VALUES).replace("offset 1w", "offset 2s")
    return re.sub(r"\s> 0$", " >= 0", text)  # which only hides what is 0, and many a fault must not occur here


@pytest.mark.parametrize("one", ASKED, ids=str)
def test_every_query_of_every_board_finds_series(watched: Watched, one: Asked) -> None:
    def numbers() -> bool:
        """Whether any series has a value that is a number: after a scrape that took too long there are none."""
        return any(not math.isnan(float(series["value"][1])) for series in watched.query(as_asked(one)))

    wait_until(numbers, 10, as_asked(one))


TABLES = [
    pytest.param(target["expr"], id=f"{path.stem}: {panel['title']}: {target['refId']}")
    for path in PATHS
    for panel in panels(load(path))
    if panel["type"] == "table"
    for target in panel["targets"]
    if target.get("instant")
]


@pytest.mark.parametrize("expression", TABLES)
def test_every_column_of_a_table_has_rows_also_where_no_rules_record_its_limits(
    watched: Watched, expression: str
) -> None:
    """Grafana joins columns by the labels that all of them have: one without a row leaves only the first column."""
    asked = filled(expression.replace('app=~"$app', 'app=~".+'), {**VALUES, "window": "41m"})
    wait_until(lambda: watched.query(asked), 10, asked)


def test_limits_that_are_computed_on_a_board_are_those_of_the_estimate(watched: Watched) -> None:
    """Written another way than in the rules, they come to the same."""
    rate = Rate(matchers=(EVALUATOR, 'level!="none"'), defect='defect="true",level!=""')
    at = time.time() - 3  # what Prometheus has by now

    def value(expression: str) -> dict[tuple[str, ...], float]:
        found = watched.query(filled(expression, VALUES), at)
        return {tuple(one["metric"][key] for key in ("app", "evaluator", "version")): float(one["value"][1])
                for one in found}  # fmt: skip

    judged, weight, defects = value(rate.scored), value(rate.weight), value(rate.defects)
    squares = value(rate.defects.replace("_weight_total", "_weight_squares_total"))
    every = value(rate.weight.replace("_weight_total", "_weight_squares_total"))
    rates, lower, upper = value(rate.rate), value(rate.lower), value(rate.upper)
    assert {(app, name) for app, name, _ in rates} >= {
        ("shop", LOCAL[0]),
        ("support", LOCAL[0]),
        ("shop", "violence"),
    }
    assert {0.0} < set(defects.values()), "some with defects, some without"
    for key in rates:
        number = 1000 + math.ceil(judged[key])  # `increase` extrapolates: more than it may count of either kind
        good = 0 if weight[key] == defects[key] else number
        bad = number if defects[key] else 0
        sums = Sums(good + bad, bad, weight[key], defects[key], squares[key], every[key] - squares[key])
        expected = estimate(sums)
        assert expected is not None
        assert (rates[key], lower[key], upper[key]) == pytest.approx(
            (expected.rate, expected.lower, expected.upper), rel=1e-6, abs=1e-9
        ), key


def test_the_worst_state_is_that_of_the_alert_that_fires(watched: Watched) -> None:
    (state,) = (one for one in ASKED if (one.board, one.panel, one.ref) == ("overview", "Apps", "state"))

    def found() -> dict[tuple[str, str], float]:
        return {
            (one["metric"]["app"], one["metric"]["evaluator"]): float(one["value"][1])
            for one in watched.query(as_asked(state))
        }

    def shown() -> bool:
        """Whether the alert is there, and `relevance`, which has no threshold, is fine."""
        states = found()
        return (states["shop", LOCAL[0]], states["shop", "relevance"]) == (4, 0)

    wait_until(shown, 30, "the alert on the board")


def test_exemplars_of_the_dots_carry_trace_ids(watched: Watched) -> None:
    dotted = [
        target["expr"]
        for path in PATHS
        for panel in _panels(path)
        for target in panel["targets"]
        if target.get("exemplar")
    ]
    assert dotted
    for expression in dotted:
        found = get_json(
            f"{watched.address}/api/v1/query_exemplars",
            query=filled(expression, VALUES), start="0", end=f"{time.time() + 60:.0f}",
        )  # fmt: skip
        labels = [one["labels"] for series in found["data"] for one in series["exemplars"]]
        assert labels, expression
        assert all(one.keys() == {"trace_id"} for one in labels)


def test_variables_offer_what_there_is(watched: Watched) -> None:
    offered = get_json(f"{watched.address}/api/v1/label/app/values", **{"match[]": "ragmonitor_evaluations_total"})
    assert {"shop", "support"} <= set(offered["data"])
    for path in PATHS:
        for variable in _variables(path):
            given = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
            assert given is not None, variable["query"]
            matching = filled(given[1], {**VALUES, "job": ".+"})
            found = get_json(f"{watched.address}/api/v1/label/{given[2]}/values", **{"match[]": matching})["data"]
            kept = [one for one in found if re.search((variable.get("regex") or "/.*/").strip("/"), one)]
            assert kept, (path.stem, variable["name"])


def _panels(path: Path) -> list[dict[str, Any]]:
    from tests.support.boards import load, panels

    return panels(load(path))


def _variables(path: Path) -> list[dict[str, Any]]:
    from tests.support.boards import load, variables

    return [one for one in variables(load(path)).values() if one["type"] == "query"]
