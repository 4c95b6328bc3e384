"""Giving the rows of an export the field names of the tools that import them.

Field names: Ragas (`SingleTurnSample`), DeepEval (`LLMTestCase`), MLflow 3 (records of `mlflow.genai.datasets`),
Langfuse (dataset items of its public API), Phoenix (examples of its data sets). Every shape also
has the fields that `calibrate` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

Row = Mapping[str, Any]

_LABEL: Final = ("id", "request_id", "evaluator", "verdict", "defect")
_ABOUT: Final = ("app", "version", "score", "explanation", "timestamp", "seen")


def _case(row: Row) -> dict[str, Any]:
    return dict(row)


def _ragas(row: Row) -> dict[str, Any]:
    return {
        "user_input": row["request"]["query"],
        "retrieved_contexts": _contents(row),
        "response": row["response"],
        "reference": None,
        "history": row["request"]["history"],
        **_some(row, _LABEL + _ABOUT),
    }


def _deepeval(row: Row) -> dict[str, Any]:
    return {
        "input": row["request"]["query"],
        "actual_output": row["response"],
        "retrieval_context": _contents(row),
        "expected_output": None,
        "history": row["request"]["history"],
        **_some(row, _LABEL + _ABOUT),
    }


def _mlflow(row: Row) -> dict[str, Any]:
    return {
        "inputs": {**row["request"], "retrieved_context": row["retrieved_context"]},
        "outputs": row["response"],
        "expectations": {},
        "tags": {key: str(row[key]) for key in ("app", "evaluator", "version", "verdict")},
        **_some(row, _LABEL),
    }


def _langfuse(row: Row) -> dict[str, Any]:
    return {
        "input": {**row["request"], "retrieved_context": row["retrieved_context"]},
        "expectedOutput": None,
        "metadata": {"response": row["response"], **_some(row, _ABOUT)},
        "sourceTraceId": row["request_id"],
        **_some(row, _LABEL),
    }


def _phoenix(row: Row) -> dict[str, Any]:
    return {
        "input": {**row["request"], "retrieved_context": row["retrieved_context"]},
        "output": {"response": row["response"]},
        "metadata": _some(row, _ABOUT),
        **_some(row, _LABEL),
    }


SHAPES: Final[Mapping[str, Callable[[Row], dict[str, Any]]]] = MappingProxyType(
    {
        "case": _case,
        "ragas": _ragas,
        "deepeval": _deepeval,
        "mlflow": _mlflow,
        "langfuse": _langfuse,
        "phoenix": _phoenix,
    }
)


def _contents(row: Row) -> list[str]:
    return [one["content"] for one in row["retrieved_context"]]


def _some(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names}
