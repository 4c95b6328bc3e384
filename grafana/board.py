"""The parts that all dashboards share: variables, annotations of alerts and versions, links, and the JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from grafana.expressions import APP, EVALUATOR, JOB, ONE_APP, selector
from grafana.panels import DATASOURCE, Panel
from monitor.alerts.prometheus.rates import SHOWN
from monitor.quantities import format_duration

TAG = "rag-monitor"
SOURCE_UID = "ragmonitor-prometheus"
WINDOWS = tuple(map(format_duration, SHOWN))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of panels; with `repeat`, one per value of a variable."""

    title: str
    panels: Sequence[Panel]
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The variables of a dashboard other than data source and job; their values are label values of the series `of`."""

    of: str = "ragmonitor_evaluations_total"
    many_apps: bool = False
    evaluators: str = ".*"
    """The evaluators to choose from, as a regular expression; empty: no such variable."""
    levels: str = ""
    """Only evaluators with a level that matches this regular expression."""
    slices: bool = False
    instance: bool = False

    @property
    def matcher(self) -> str:
        """Return the matcher of the chosen app or apps."""
        return APP if self.many_apps else ONE_APP


def made(uid: str, title: str, description: str, chosen: Chosen, rows: Sequence[Row]) -> build.Dashboard:
    """Build a dashboard with these rows. Panels of a row with an empty title are shown without a row."""
    found = (
        build.Dashboard(title)
        .uid(f"ragmonitor-{uid}")
        .description(description)
        .tags([TAG])
        .time("now-6h", "now")
        .timezone("browser")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .variables(_variables(chosen))
        .annotations(_annotations(chosen))
        .link(
            build.DashboardLink("rag-monitor")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for row in rows:
        if row.title:
            found.with_row(_row(row))
        for panel in row.panels:
            found.with_panel(panel)
    return found


def to_json(board: build.Dashboard) -> str:
    """Return the dashboard as Grafana's JSON: the same text for the same dashboard, panels numbered from 1."""
    document: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for number, panel in enumerate(document["panels"], 1):
        panel["id"] = number
    for one in (*document["links"], *document["annotations"]["list"]):
        del one["placement"]  # the SDK's default, which would hide it in a menu
    # `kubectl apply` copies a whole config map into an annotation of limited size: so lines have no indent.
    return json.dumps(document, indent=0, ensure_ascii=False, sort_keys=True) + "\n"


def _row(row: Row) -> build.Row:
    found = build.Row(row.title)
    return found.repeat(row.repeat) if row.repeat else found


def _variables(chosen: Chosen) -> list[Any]:
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    found: list[Any] = [
        source.current(model.VariableOption(text="rag-monitor", value=SOURCE_UID)),
        _asked("job", "Job", "label_values(ragmonitor_build_info, job)", many=True),
    ]
    if chosen.instance:
        labels = f"label_values(ragmonitor_build_info{{{JOB}}}, instance)"
        found.append(_asked("instance", "Instance", labels, many=True))
    apps = f"label_values({chosen.of}{{{JOB}}}, app)"
    found.append(_asked("app", "App", apps, many=chosen.many_apps))
    if chosen.evaluators:
        levels = f', level=~"{chosen.levels}"' if chosen.levels else ""
        labels = f"label_values({chosen.of}{{{JOB}, {chosen.matcher}{levels}}}, evaluator)"
        pattern = "" if chosen.evaluators == ".*" else f"/{chosen.evaluators}/"
        some = bool(levels or pattern)
        found.append(_asked("evaluator", "Evaluator", labels, many=True, pattern=pattern, some=some))
    if chosen.slices:
        labels = f"label_values(ragmonitor_slice_evaluations_total{{{JOB}, {chosen.matcher}}}, slice)"
        found.append(_asked("slice", "Slice", labels, many=False))
    window = (
        build.CustomVariable("window")
        .label("Window")
        .description("Each point of a graph is the rate over the window before it. Longer: more certain, slower.")
        .values(",".join(WINDOWS))
        .current(model.VariableOption(selected=True, text="1h", value="1h"))
        .options([model.VariableOption(selected=one == "1h", text=one, value=one) for one in WINDOWS])
    )
    return [*found, window]


def _asked(
    name: str, label: str, query: str, *, many: bool, pattern: str = "", some: bool = False
) -> build.QueryVariable:
    """Build a variable. `some`: not every value is offered, so "all" means those that are."""
    variable = (
        build.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(DATASOURCE)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
    if pattern:
        variable.regex(pattern)
    if not many:
        return variable
    everything = model.VariableOption(selected=True, text=["All"], value=["$__all"])
    variable.multi(True).include_all(True).current(everything)
    return variable if some else variable.all_value(".+")


def _annotations(chosen: Chosen) -> list[Any]:
    evaluator = ', evaluator=~"$evaluator|"' if chosen.evaluators else ""
    firing = f'ALERTS{{alertname=~"Rag.+", alertstate="firing"{evaluator}, '
    alerts = f'{firing}{chosen.matcher}}}\nor\n{firing}app=""}}'  # some are about the monitor, not an app
    found = [_annotation("Alerts", "red", alerts, "{{alertname}} {{severity}}", "{{app}} {{evaluator}}")]
    if chosen.evaluators:
        began = selector("ragmonitor_service_version_start_timestamp_seconds", chosen.matcher, EVALUATOR)
        found.append(
            _annotation(
                "New versions",
                "purple",
                f"max by (app, evaluator) ({began}) * 1000",
                "new version",
                "New version behind the results of {{evaluator}} for {{app}}",
            ).use_value_for_time(True)
        )
    return found


def _annotation(name: str, color: str, expression: str, title: str, text: str) -> build.AnnotationQuery:
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(color)
        .expr(expression)
        .target(prometheus.Dataquery().ref_id("Anno").expr(expression).range())
        .title_format(title)
        .text_format(text)
        .step("60s")
    )
