"""The kinds of panels. Each has a unit, and a description that says how it behaves with little data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.heatmap import HeatmapColorOptions, YAxisConfig
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="$datasource")
SHARE, COUNT, SECONDS, BYTES, DOLLARS = "percentunit", "short", "s", "bytes", "currencyUSD"
FEW = 30
"""Below this number of scores, one answer moves the rate by more than three points."""
RED, ORANGE, YELLOW, GREEN, BLUE, GREY = "red", "orange", "yellow", "green", "blue", "#8e8e99"

_LEAST_TOP = {SHARE: 0.02, SECONDS: 0.01, BYTES: 1024.0, DOLLARS: 0.01}

Panel: TypeAlias = timeseries.Panel | table.Panel | stat.Panel | heatmap.Panel
Properties: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One line, or one per label set; `legend` is in Grafana's syntax, with `{{label}}`."""

    expression: str
    legend: str = ""
    exemplars: bool = False
    """Whether to draw scored answers as points that open their trace."""


def curve(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 12,
    height: int = 8,
    stacked: bool = False,
    least: float | None = 0.0,
    most: float | None = None,
    overrides: Mapping[str, Properties] | None = None,
    empty: str = "none in this time",
) -> timeseries.Panel:
    """Build a graph over time. `overrides` are by line name; a name with `*` is a pattern."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .no_value(empty)
        .span(width)
        .height(height)
        .line_width(1.5)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.AUTO)
        .point_size(4)
        .span_nulls(False)
        .axis_border_show(False)
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
        .legend(
            build_common.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .tooltip(
            build_common.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
            .hide_zeros(stacked)
        )
    )
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    else:
        panel.axis_soft_max(_LEAST_TOP.get(unit, 1.0))  # else an axis of zeros reaches to 100
    if stacked:
        stack = build_common.StackingConfig().mode(common.StackingMode.NORMAL).group("A")
        panel.stacking(stack).fill_opacity(60).line_width(0).show_points(common.VisibilityMode.NEVER)
    for query in _targets(queries):
        panel.with_target(query)
    for name, properties in (overrides or {}).items():
        override(panel, name, properties)
    return panel


def band(title: str, description: str, *queries: Query, width: int = 12, height: int = 9) -> timeseries.Panel:
    """Build a graph of a share with its interval: `rate` between `lower` and `upper`, thresholds dashed."""
    dashed = {"custom.lineStyle": {"fill": "dash", "dash": [8, 6]}, "custom.lineWidth": 1, "custom.showPoints": "never"}
    hidden = {"legend": True, "tooltip": False, "viz": False}
    limit = {"custom.lineWidth": 0, "custom.showPoints": "never", "custom.hideFrom": hidden, "color": _fixed(BLUE)}
    return curve(
        title,
        description,
        SHARE,
        *queries,
        width=width,
        height=height,
        empty="nothing scored in this time",
        overrides={
            "rate": {"color": _fixed(BLUE), "custom.lineWidth": 2},
            "lower": limit,
            "upper": {**limit, "custom.fillBelowTo": "lower", "custom.fillOpacity": 22},
            "warning": {**dashed, "color": _fixed(ORANGE)},
            "critical": {**dashed, "color": _fixed(RED)},
            "a week earlier": {"color": _fixed(GREY), "custom.lineStyle": {"fill": "dash", "dash": [2, 4]}},
        },
    )


def heat(title: str, description: str, unit: str, query: Query, *, width: int = 12, height: int = 8) -> heatmap.Panel:
    """Build a heatmap of a histogram over time."""
    (target,) = _targets([query], heatmap=True)
    return (
        heatmap.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(width)
        .height(height)
        .calculate(False)
        .y_axis(YAxisConfig().unit(unit).axis_placement(common.AxisPlacement.LEFT))
        .color(
            HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Blues")
            .scale(HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(32)
            .fill("blue")
        )
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .cell_gap(1)
        .exemplars_color("rgba(255,0,255,0.7)")
        .with_target(target)
    )


def figure(
    title: str,
    description: str,
    unit: str,
    query: Query,
    *,
    width: int = 4,
    height: int = 4,
    steps: Sequence[tuple[float | None, str]] = ((None, BLUE),),
    empty: str = "none",
) -> stat.Panel:
    """Build a panel of one current number; `steps` are (from this value, colour)."""
    (target,) = _targets([query], instant=True)
    thresholds = build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE)
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .no_value(empty)
        .span(width)
        .height(height)
        .thresholds(thresholds.steps([model.Threshold(value=value, color=color) for value, color in steps]))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
        .with_target(target)
    )


def colours(named: Mapping[str, str]) -> dict[str, Properties]:
    """Return overrides for the colours of lines."""
    return {name: {"color": _fixed(color)} for name, color in named.items()}


def _fixed(color: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": color}


def _targets(queries: Sequence[Query], *, instant: bool = False, heatmap: bool = False) -> list[prometheus.Dataquery]:
    found = []
    for number, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + number)).expr(query.expression)
        if query.legend:
            target.legend_format(query.legend)
        if query.exemplars:
            target.exemplar(True)
        if heatmap:
            target.format(PromQueryFormat.HEATMAP)
        found.append(target.instant() if instant else target.range())
    return found


def override(panel: Panel, name: str, properties: Properties) -> None:
    """Set properties of the lines or columns with a name; a name with `*` is a pattern."""
    values = [model.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]
    if not values:
        return
    if "*" in name:
        panel.override_by_regexp(f"/^{name.replace('*', '.*')}$/", values)
    else:
        panel.override_by_name(name, values)
