"""Labels by people, for tests."""

from __future__ import annotations

from typing import Any

from monitor.model.label import Label, LabelDraw, LabelVerdict


def label(number: int = 0, **fields: Any) -> Label:
    """Make a label for the result `number`: good, by ana, from a stratified draw with probability 0.1."""
    random = fields.get("draw", LabelDraw.STRATIFIED).measures
    defaults: dict[str, Any] = {
        "result_id": f"{number:032x}",
        "request_id": f"request-{number}",
        "app": "shop",
        "evaluator": "groundedness",
        "version": "1",
        "reviewer": "ana",
        "verdict": LabelVerdict.GOOD,
        "judged_defect": False,
        "at": 1000.0 + number,
        "draw": LabelDraw.STRATIFIED,
        "probability": 0.1 if random else None,
    }
    return Label(**{**defaults, **fields})
