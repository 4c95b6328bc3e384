"""Built-in evaluators, as the configuration reads them, and a judge's answers to their rubrics."""

from __future__ import annotations

from typing import Any

from monitor import registry
from monitor.stages import Evaluator, Question


def shipped(name: str, **options: Any) -> Evaluator:
    return registry.read("evaluators", {"type": name, **options}, Evaluator, "evaluators[0]")


def verdict(question: Question, *, good: bool, value: float | None = None) -> dict[str, Any]:
    """Return an answer in the requested format; `value` if the judge gives the score."""
    properties: Any = question.schema["properties"]
    quoted = next(iter(question.material.get("response", "").strip().splitlines()), "")
    holds = "supported" if good else "contradicted"
    parts: dict[str, Any] = {
        "observations": ["seen"],
        "claims": [{"quote": quoted, "verdict": holds, "note": "document 1"}],
        "intents": [{"intent": "How many moons?", "documents": ["1", "2"] if good else [], "note": "two"}],
        "documents": {
            number: {"note": "moons", "relevant": good}
            for number in properties.get("documents", {}).get("required", ())
        },
        "explanation": "because",
        "score": value,
    }
    return {name: parts[name] for name in properties}
