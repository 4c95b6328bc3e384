"""The boards as files: fresh, about series that exist, and by the rules of Grafana's dashboard linter.

That linter cannot be had from Go's module proxy, so its rules stand here; docs/grafana.md says how it was run by hand.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from grafana import generate
from grafana.board import SOURCE_UID
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.rules import render
from monitor.telemetry.metrics import Metrics
from tests.support.boards import PATHS, ROOT, load, panels, queries, variables

BOARDS = [pytest.param(load(path), id=path.stem) for path in PATHS]
ASKED = [
    pytest.param(one._replace(expression=one.expression.replace("$window{", "1h{")), id=str(one))
    for path in PATHS
    for one in queries(path)
]
UNITS = {"percentunit", "short", "s", "bytes", "currencyUSD", "cps", "reqps"}
"""Those in use, all among the units of `@grafana/data`."""

_SELECTOR = re.compile(r"((?:[a-z_]+:)?ragmonitor_\w+(?::\w+)*|ALERTS|process_\w+)\{([^}]*)\}")
_BARE = re.compile(r"(?:[a-z_]+:)?ragmonitor_\w+(?::\w+)*(?![\w:{])")
_NOT_OF_A_JOB = re.compile(r"ALERTS|.*:.*|ragmonitor_calibration_.*")
"""Recorded by rules, which add up over jobs; or written by `calibrate --metrics` for the node exporter."""


def test_the_committed_boards_are_fresh():
    for path, text in generate.texts():
        assert path.read_text() == text, "make dashboards"
    assert sorted(path for path, _ in generate.texts()) == PATHS


def known_series() -> dict[str, tuple[str, ...]]:
    """Every series with its labels."""
    metrics = Metrics()
    metrics.score("any", (1.0,))
    found: dict[str, tuple[str, ...]] = {}
    for name, kind, labels, _ in metrics.catalogue():
        if kind == "histogram":
            found |= {f"{name}_{part}": (*labels, "le") for part in ("bucket", "sum", "count")}
        else:
            found[name] = labels
    return found


def recorded_series() -> set[str]:
    policy = AlertPolicy.model_validate({"evaluator": "groundedness", "warning": "5%", "regression": True})
    groups = yaml.safe_load(render([policy]))["groups"]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


KNOWN, RECORDED = known_series(), recorded_series()


@pytest.mark.parametrize("one", ASKED)
def test_a_query_asks_for_series_and_labels_that_exist(one):
    asked = _SELECTOR.findall(one.expression)
    assert asked
    assert not _BARE.findall(one.expression), "every series has a selector"
    for name, matchers in asked:
        labels = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers)
        if name.startswith(("ALERTS", "process_")):
            continue
        assert name in RECORDED if ":" in name else name in KNOWN, name
        allowed = {*KNOWN.get(name, ("app", "evaluator", "version", "z")), "job", "instance"}
        assert set(labels) <= allowed, (name, labels)


@pytest.mark.parametrize("one", ASKED)
def test_a_query_adds_up_over_replicas_and_takes_the_chosen_jobs_only(one):
    """`target-job-rule`; a counter is never looked at without `increase` or `rate`, but for the ledger's balance."""
    for name, matchers in _SELECTOR.findall(one.expression):
        if not _NOT_OF_A_JOB.fullmatch(name):
            assert 'job=~"$job"' in matchers, name
    if one.panel != "Unaccounted traces and requests":
        bare = re.findall(
            r"(?<!increase\()(?<!rate\()\b(ragmonitor_\w+_(?:total|bucket))\{[^}]*\}(?!\[)", one.expression
        )
        assert not bare


@pytest.mark.parametrize("one", ASKED)
def test_verdicts_of_two_versions_are_never_added_to_a_rate(one):
    """Where weights are divided by weights, what is summed is summed by version."""
    for by in re.findall(
        r"sum( by \([^)]*\))? \(increase\(ragmonitor_(?:slice_|traffic_)?evaluation_weight", one.expression
    ):
        assert "version" in by, by


@pytest.mark.parametrize("one", ASKED)
def test_rates_over_a_step_use_the_interval_that_grafana_knows_to_hold_samples(one):
    """`target-rate-interval-rule`."""
    for window in re.findall(r"\brate\([^[]*\[([^\]]*)\]", one.expression):
        assert window == "$__rate_interval"


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_is_known_by_a_fixed_uid_and_cannot_be_edited(board):
    """`uneditable-dashboard`: it is changed here, and generated."""
    assert re.fullmatch(r"ragmonitor-[a-z]+", board["uid"])
    assert board["editable"] is False
    assert board["description"].endswith(".")
    assert board["schemaVersion"] >= 41, "an older schema: the wrong release of the SDK"


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_says_what_it_shows_in_which_unit_and_what_if_there_is_nothing(board):
    """`panel-title-description-rule`, `panel-units-rule`, `panel-no-targets-rule`, `panel-datasource-rule`."""
    for panel in panels(board):
        title = panel["title"]
        assert len(panel["description"]) > 40, title
        assert panel["description"].endswith("."), title
        assert panel["targets"], title
        assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}, title
        if panel["type"] == "heatmap":
            assert panel["options"]["yAxis"]["unit"] in UNITS
            continue
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, title
        assert panel["fieldConfig"]["defaults"]["noValue"], title


@pytest.mark.parametrize("board", BOARDS)
def test_a_panel_with_a_share_says_what_few_numbers_do_to_it(board):
    said = re.compile(r"[Ff]ew|wide|rough|about 3\.7")
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        unit = defaults.get("unit")
        of_sums = unit == "percentunit" and panel["title"] not in WHOLE
        if of_sums:
            assert said.search(panel["description"]), panel["title"]


WHOLE = {"Queue usage", "Requests with each field", "Unscored"}  # fmt: skip
"""Shares of what is counted in full: no sample, so no chance."""


@pytest.mark.parametrize("board", BOARDS)
def test_panels_have_numbers_of_their_own_and_do_not_overlap(board):
    numbers = [one["id"] for one in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("board", BOARDS)
def test_variables_are_asked_anew_and_multiple_ones_begin_with_all(board):
    """`template-datasource-rule`, `template-job-rule`, `template-on-time-change-reload-rule`."""
    found = variables(board)
    source = found["datasource"]
    assert (source["type"], source["query"], source["label"]) == ("datasource", "prometheus", "Data source")
    assert source["current"]["value"] == SOURCE_UID
    for name in {"job", "instance"} & found.keys():
        assert found[name]["label"] == name.capitalize()
        assert found[name]["multi"], name
    assert "job" in found
    for one in found.values():
        if one["type"] == "query":
            assert one["refresh"] == 2, one["name"]
            assert one["datasource"]["uid"] == "$datasource"
            narrow = "level=~" in one["query"] or one.get("regex")
            assert not one.get("multi") or one.get("allValue") == (None if narrow else ".+"), one["name"]


@pytest.mark.parametrize("board", BOARDS)
def test_a_query_uses_the_variables_of_its_board_and_every_variable_is_used(board):
    found = set(variables(board))
    texts = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    texts += [one["expr"] for one in board["annotations"]["list"]]
    texts += [one["query"] for one in found_queries(board)]
    used = {name for text in texts for name in re.findall(r"\$\{?(\w+)", text)} - {"__rate_interval"}
    assert used <= found
    assert found - used <= {"datasource"}, "which no query names, but every panel"


def found_queries(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in variables(board).values() if one["type"] == "query"]


@pytest.mark.parametrize("board", BOARDS)
def test_alerts_are_annotated(board):
    names = [one["name"] for one in board["annotations"]["list"]]
    assert names[0] == "Alerts"
    assert ("New versions" in names) == ("evaluator" in variables(board))


def test_provisioning_and_boards_name_the_same_sources():
    folder = ROOT / "grafana" / "provisioning"
    (sources,) = (yaml.safe_load(path.read_text()) for path in (folder / "datasources").glob("*.yaml"))
    by_uid = {one["uid"]: one for one in sources["datasources"]}
    prometheus = by_uid[SOURCE_UID]
    assert prometheus["type"] == "prometheus"
    (traces,) = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    assert traces["name"] == "trace_id", "the label of exemplars"
    assert traces["datasourceUid"] in by_uid
    (boards,) = (yaml.safe_load(path.read_text()) for path in (folder / "dashboards").glob("*.yaml"))
    (provider,) = boards["providers"]
    assert provider["type"] == "file"
    assert provider["allowUiUpdates"] is False


def test_links_between_boards_lead_to_boards():
    uids = {load(path)["uid"] for path in PATHS}
    for path in PATHS:
        assert set(re.findall(r"/d/([\w-]+)", path.read_text())) <= uids


def test_the_page_about_the_boards_names_each():
    text = (ROOT / "docs" / "grafana.md").read_text()
    for board in map(load, PATHS):
        assert board["title"].rpartition("/ ")[2] in text


def test_a_row_that_stands_for_an_app_has_the_values_of_one_evaluator():
    """`firstNotNull` would fill a column that the worst evaluator leaves empty with the value of another one."""
    grouped = [
        of
        for path in PATHS
        for panel in panels(load(path))
        for one in panel.get("transformations", ())
        if one["id"] == "groupBy"
        for of in one["options"]["fields"].values()
    ]
    assert grouped
    assert all(of["aggregations"] == ["first"] for of in grouped if of["operation"] == "aggregate")
