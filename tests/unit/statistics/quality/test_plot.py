"""The picture of curves: two diagrams of 320 pixels side by side, in which every share has its place."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from monitor.statistics.quality.plot import Curve, draw

LEFT, SECOND = 64, 64 + 320 + 84
ONE = Curve(
    "grounded <1>", [(0.0, 0.0), (0.1, 0.55), (1.0, 1.0)], 0.8124, [(0.05, 0.1, 40), (0.7, 0.6, 10), (0.9, 1.0, 1)]
)
NONE = Curve("none", [], None, [])


def elements(curves: list[Curve], tag: str, kind: str | None = None) -> list[dict[str, str]]:
    root = ET.fromstring(draw(curves))
    found = root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [dict(one.attrib) for one in found if kind is None or one.get("class") == kind]


def texts(curves: list[Curve]) -> list[tuple[str, dict[str, str]]]:
    root = ET.fromstring(draw(curves))
    return [(one.text or "", dict(one.attrib)) for one in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_picture_has_room_for_both_diagrams_and_a_line_for_each_curve(number: int) -> None:
    root = ET.fromstring(draw([ONE] * number))
    assert (root.get("width"), root.get("height")) == ("812", str(44 + 320 + 56 + 20 * number + 12))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert elements([ONE] * number, "rect")[0] == {"width": "812", "height": root.get("height"), "fill": "#fff"}


def test_both_diagrams_have_a_frame_a_diagonal_and_a_grid_of_fifths() -> None:
    frames = [(one["x"], one["y"], one["width"], one["height"]) for one in elements([], "rect", "frame")]
    assert frames == [(str(left), "44", "320", "320") for left in (LEFT, SECOND)]
    diagonals = [(one["x1"], one["y1"], one["x2"], one["y2"]) for one in elements([], "line", "even")]
    assert diagonals == [(str(left), "364", str(left + 320), "44") for left in (LEFT, SECOND)]
    grid = [(one["x1"], one["x2"], one["y1"], one["y2"]) for one in elements([], "line", "grid")]
    expected = []
    for left in (LEFT, SECOND):
        for tick in range(6):
            x, y = f"{left + 64 * tick:.1f}", f"{364 - 64 * tick:.1f}"
            expected += [(x, x, "44", "364"), (str(left), str(left + 320), y, y)]
    assert grid == expected


def test_titles_ticks_and_axes_have_their_places() -> None:
    found = texts([])
    for left, title, across, up in (
        (LEFT, "ROC", "good answers flagged", "defective answers flagged"),
        (SECOND, "Reliability", "predicted probability of a defect", "share that is defective"),
    ):
        assert (title, {"class": "title", "x": str(left), "y": "30"}) in found
        assert (across, {"x": str(left + 160), "y": "398", "text-anchor": "middle"}) in found
        turned = f"translate({left - 40} 204) rotate(-90)"
        assert (up, {"transform": turned, "text-anchor": "middle"}) in found
        for tick, label in enumerate(("0", "0.2", "0.4", "0.6", "0.8", "1")):
            x, y = f"{left + 64 * tick:.1f}", f"{368 - 64 * tick:.1f}"
            assert (label, {"class": "tick", "x": x, "y": "380", "text-anchor": "middle"}) in found
            assert (label, {"class": "tick", "x": str(left - 8), "y": y, "text-anchor": "end"}) in found
    assert len(found) == 2 * (3 + 12)


def test_a_curve_is_drawn_by_its_corners_and_its_bins_by_dots_as_large_as_their_numbers() -> None:
    (curve,) = elements([NONE, ONE], "polyline", "curve")
    assert curve["points"] == "64.0,364.0 96.0,188.0 384.0,44.0"
    assert curve["stroke"] == "#d55e00"
    (thin,) = elements([NONE, ONE], "polyline", "thin")
    assert thin["points"] == "484.0,332.0 692.0,172.0 756.0,44.0"
    dots = [(one["cx"], one["cy"], one["r"], one["fill"]) for one in elements([NONE, ONE], "circle")]
    assert dots == [
        ("484.0", "332.0", "5.5", "#d55e00"),
        ("692.0", "172.0", "2.8", "#d55e00"),
        ("756.0", "44.0", "1.5", "#d55e00"),
    ]
    assert "<title>40 answers: predicted 0.05, defective 0.10</title>" in draw([ONE])


def test_corners_on_the_same_pixel_are_drawn_once() -> None:
    (curve,) = elements([ONE._replace(roc=[(0.0, 0.0), (0.00001, 0.0), (1.0, 1.0)])], "polyline", "curve")
    assert curve["points"] == "64.0,364.0 384.0,44.0"


def test_each_curve_has_a_line_of_the_legend_with_its_area_if_that_is_known() -> None:
    legend = texts([ONE, NONE])[-2:]
    assert legend == [
        ("grounded <1>, AUROC 0.812", {"x": "96", "y": "426"}),
        ("none", {"x": "96", "y": "446"}),
    ]
    marks = [one for one in elements([ONE, NONE], "line") if "class" not in one]
    assert [(one["x1"], one["x2"], one["y1"], one["y2"], one["stroke"]) for one in marks] == [
        ("64", "88", "422", "422", "#0072b2"),
        ("64", "88", "442", "442", "#d55e00"),
    ]
    assert {one["stroke-width"] for one in marks} == {"2"}


def test_from_the_eighth_on_curves_share_colours_and_differ_in_dashes() -> None:
    marks = [one for one in elements([NONE] * 22, "line") if "class" not in one]
    strokes = [(one["stroke"], one.get("stroke-dasharray")) for one in marks]
    assert len(set(strokes)) == 21
    assert strokes[21] == strokes[0]
    assert [dash for _, dash in strokes[::7]] == [None, "7 3", "2 3", None]
    assert len({colour for colour, _ in strokes}) == 7
    assert {float(later["y1"]) - float(one["y1"]) for one, later in pairwise(marks)} == {20.0}
