"""Tables: one row per label set, one column per query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import prometheus, table
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.expressions import STATES
from grafana.panels import COUNT, DATASOURCE, GREY, ORANGE, SHARE, Properties, override


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the value of a query or, without a query, a label."""

    name: str
    query: str = ""
    unit: str = COUNT
    properties: Properties | None = None
    label: str = ""
    trend: bool = False
    """Whether to show a small graph over the dashboard's time range instead of the current value."""

    rows: str = ""
    """A query that returns every row, for a column whose own query may return nothing at all. Grafana joins columns by
    the labels that all of them have: a column without rows would leave the table with its first column alone."""


def rows(
    title: str,
    description: str,
    *columns: Column,
    width: int = 24,
    height: int = 8,
    first_of: str = "",
    sort: Sequence[str] = (),
    hide: Sequence[str] = (),
) -> table.Panel:
    """Build a table with one row per label set.

    `sort` names columns, highest first. `first_of` keeps only the first row per value of a label. `hide` names labels
    to leave out.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(COUNT)
        .no_value("-")
        .span(width)
        .height(height)
        .show_header(True)
        .cell_height(common.TableCellHeight.MD)
        .filterable(False)
    )
    asked = [one for one in columns if one.query]
    for one in asked:
        query = f"{one.query}\nor\n({one.rows}) * NaN" if one.rows else one.query
        target = prometheus.Dataquery().ref_id(one.name.replace(" ", "_")).expr(query)
        panel.with_target(target.range() if one.trend else target.instant().format(PromQueryFormat.TABLE))
    trends = {one.name.replace(" ", "_"): one for one in asked if one.trend}
    if trends:
        fields = {ref: {"stat": "lastNotNull", "timeField": "Time"} for ref in trends}
        _transform(panel, "timeSeriesTable", fields)
    _transform(panel, "merge", {})
    found = {_field(one, alone=len(asked) == 1): one for one in columns}
    unwanted = dict.fromkeys(("Time", "job", "instance", *hide), True)
    order = {name: at for at, name in enumerate(found)}
    renamed = {name: one.name for name, one in found.items()}
    _transform(panel, "organize", {"excludeByName": unwanted, "indexByName": order, "renameByName": renamed})
    for name in reversed(sort):
        _transform(panel, "sortBy", {"fields": {}, "sort": [{"field": name, "desc": True}]})
    if first_of:
        kept = {one.name: {"aggregations": ["first"], "operation": "aggregate"} for one in columns}
        _transform(panel, "groupBy", {"fields": {**kept, first_of: {"aggregations": [], "operation": "groupby"}}})
        given = {f"{one.name} (first)": one.name for one in columns if one.name != first_of}
        _transform(panel, "organize", {"excludeByName": {}, "indexByName": {}, "renameByName": given})
    for one in columns:
        shown = {"unit": one.unit, **({"decimals": 2} if one.unit == SHARE else {})} if one.query else {}
        override(panel, one.name, {**shown, **(_NONE if one.rows else {}), **(one.properties or {})})
    return panel


_NONE: Properties = {"mappings": [{"type": "special", "options": {"match": "nan", "result": {"text": "-"}}}]}

UNSET: Properties = {
    "mappings": [{"type": "special", "options": {"match": "empty", "result": {"text": "(none)", "color": GREY}}}]
}
"""The properties of a column of labels that may be empty."""


def as_state() -> Properties:
    """Return properties that show `expressions.state` in words and colours."""
    options = {str(value): {"text": text, "color": color} for value, (text, color) in STATES.items()}
    return {
        "mappings": [{"type": "value", "options": options}],
        "custom.cellOptions": {"type": "color-background", "mode": "basic", "applyToRow": False},
        "custom.width": 150,
    }


def few(below: int) -> Properties:
    """Return properties of a column of counts that mark small ones."""
    steps = [{"value": None, "color": ORANGE}, {"value": below, "color": "text"}]
    return {
        "mappings": [{"type": "value", "options": {"0": {"text": "none", "color": ORANGE}}}],
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom.cellOptions": {"type": "color-text"},
        "decimals": 0,
        "custom.width": 90,
    }


def link(title: str, url: str) -> Properties:
    """Return properties of a cell that links to another dashboard."""
    return {"links": [{"title": title, "url": url, "targetBlank": False}]}


def _field(column: Column, *, alone: bool) -> str:
    if not column.query:
        return column.label or column.name
    ref = column.name.replace(" ", "_")
    if column.trend:
        return f"Trend #{ref}"
    return "Value" if alone else f"Value #{ref}"


def _transform(panel: table.Panel, kind: str, options: Mapping[str, Any]) -> None:
    panel.with_transformation(model.DataTransformerConfig(id_val=kind, options=dict(options)))
