"""MLflow's own trace JSON, as its store returns it, with the facts beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mlflow
from library import DOCUMENTS

_OF_THIS_MACHINE = ("mlflow.artifactLocation", "mlflow.source.name")
_PATHS = {sys.prefix: "/srv/venv", str(Path(__file__).parents[4]): "/srv/app"}


def keep(folder: str, told: list[tuple[str, dict[str, Any], str]], prefix: str, with_session: set[str]) -> None:
    """Write NAME.trace.json for each (name, case, MLflow's trace id), and add their facts to expected.json.

    Paths of the machine are replaced in stack traces, and two tags that are such paths are left out.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    expected = target / "expected.json"
    facts = json.loads(expected.read_text(encoding="utf-8"))["traces"] if expected.exists() else {}
    for flavour, case, trace_id in told:
        trace = json.loads(mlflow.get_trace(trace_id).to_json())
        for places in (trace["info"]["tags"], trace["info"].get("trace_metadata", {})):
            for key in _OF_THIS_MACHINE:
                places.pop(key, None)
        text = json.dumps(trace, ensure_ascii=False)
        for own, neutral in _PATHS.items():
            text = text.replace(own, neutral)
        path = target / f"{prefix}{flavour}_{case['name']}.trace.json"
        path.write_text(f"{text}\n", encoding="utf-8")
        facts[trace_id.removeprefix("tr-")] = {
            "case": case["name"],
            "flavour": flavour,
            "question": case["question"],
            "answer": case["answer"],
            "history": case["history"],
            "contexts": [DOCUMENTS[one]["text"] for one in case["documents"]],
            "model": "gpt-4o-mini-2024-07-18",
            "request_model": "gpt-4o-mini",
            "session_id": case["session"] if flavour in with_session else None,
            "error": bool(case.get("error")),
            "total_tokens": None if case.get("stream") else 115,
            "status": None,
        }
    expected.write_text(json.dumps({"traces": facts}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
