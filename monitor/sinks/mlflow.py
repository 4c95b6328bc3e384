"""Sink `mlflow`: results as assessments on traces of MLflow 3.

API: POST /api/3.0/mlflow/traces/{trace_id}/assessments. A trace received over OTLP has the id `tr-` followed by its
OpenTelemetry id. MLflow answers 500 for an existing assessment id, as for any other fault: a GET of the assessment
tells them apart.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import anyio
from pydantic import SecretStr

from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.model.outcome import EvaluationResult
from monitor.sinks._http import Api, HttpSink
from monitor.sinks._plain_result import PlainResult, clean, to_plain

_NOT_THERE, _FAILED = 404, 500
_AGAIN_AFTER: Final = 1.0  # seconds: a trace may arrive after its result, and a fault may pass
_NO_TRACE: Final = "RESOURCE_DOES_NOT_EXIST"


class Mlflow(HttpSink):
    """Write feedback on the trace, named after the evaluator, with the explanation as its rationale.

    The source is `LLM_JUDGE` if a model gave the score, else `CODE`. A result without a score becomes feedback with an
    error. The assessment's id contains the result's id, so a repeated result adds nothing. Results are written for
    cases from traces, and for rows with the id of an MLflow trace; MLflow must have the trace.
    """

    username: str | None = None
    """User name for basic authentication; `api_key` is then the password."""

    api_key: SecretStr | None = None
    """Token, sent as `Authorization: Bearer ...`, or the password of `username`. Use an environment variable:
    `${MLFLOW_TRACKING_TOKEN}`."""

    def headers(self) -> Mapping[str, str]:
        """Authenticate with the token, or with user name and password."""
        if self.api_key is None:
            return {}
        secret = self.api_key.get_secret_value()
        if self.username is None:
            return {"authorization": f"Bearer {secret}"}
        return {"authorization": f"Basic {base64.b64encode(f'{self.username}:{secret}'.encode()).decode()}"}

    async def write(self, api: Api, results: Sequence[EvaluationResult]) -> None:
        """Send each assessment in its own request."""
        for one in results:
            plain = to_plain(one, explanations=self.include_explanations)
            trace = f"tr-{plain.trace_id}" if plain.trace_id else clean(one.case.request_id)
            if trace.startswith("tr-") and not plain.skipped:
                await _assess(api, trace, _assessment(trace, plain, one.evaluated_at))


async def _assess(api: Api, trace: str, assessment: dict[str, Any]) -> None:
    path = f"/api/3.0/mlflow/traces/{quote(trace, safe='')}/assessments"
    for last in (False, True):
        answer = await api.call("POST", path, {"assessment": assessment}, also={_NOT_THERE, _FAILED})
        if answer.status == _FAILED:
            known = await api.call("GET", f"{path}/{assessment['assessment_id']}", also={_NOT_THERE})
            if known.status != _NOT_THERE:
                return
            if last:
                raise Overloaded(f"mlflow: {api.where} answered 500")
        elif answer.status == _NOT_THERE:
            if _NO_TRACE not in answer.text:
                raise MonitorError(f"mlflow: {api.where} answered 404: is `url` the address of an MLflow 3 server?")
            if last:
                raise InvalidData(f"mlflow: unknown trace {trace}")
        else:
            return
        await anyio.sleep(_AGAIN_AFTER)


def _assessment(trace: str, plain: PlainResult, evaluated_at: float) -> dict[str, Any]:
    now = datetime.fromtimestamp(evaluated_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    metadata = {f"rag_monitor.{key}": str(value) for key, value in plain.facts.items()}
    if plain.label:
        metadata["rag_monitor.label"] = plain.label
    if plain.span_id:
        metadata["rag_monitor.span_id"] = plain.span_id
    feedback: dict[str, Any] = {"value": plain.score}
    if plain.score is None:
        feedback = {"error": {"error_code": plain.trouble, "error_message": plain.detail}}
    return {
        "assessment_id": f"a-{plain.facts['result_id']}",
        "assessment_name": plain.name,
        "trace_id": trace,
        "source": {"source_type": "LLM_JUDGE" if plain.by_model else "CODE", "source_id": "rag-monitor"},
        "create_time": now,
        "last_update_time": now,
        "feedback": feedback,
        "rationale": plain.explanation,
        "metadata": metadata,
        "valid": True,
    }
