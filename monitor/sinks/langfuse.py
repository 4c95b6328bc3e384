"""Sink `langfuse`: results as scores. API: POST /api/public/scores, which creates a score or replaces it by id."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field, SecretStr

from monitor.model.outcome import EvaluationResult
from monitor.sinks._http import Api, HttpSink
from monitor.sinks._plain_result import clean, to_plain

_ENVIRONMENT: Final = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")


class LangfuseSink(HttpSink):
    """Write a numeric score on the observation, named after the evaluator, with the explanation as its comment.

    The score's id is the result's id, so a repeated result replaces the score. The metadata has level, label and
    version; the environment is the service's `deployment.environment.name`. Only scores are written. A case from a row
    is scored under its `request_id`, which must be the id of a trace in Langfuse.
    """

    public_key: str = Field(examples=["pk-lf-1"])
    """Public key of the project, `pk-lf-...`."""

    secret_key: SecretStr = Field(examples=["sk-lf-1"])
    """Secret key of the project. Use an environment variable: `${LANGFUSE_SECRET_KEY}`."""

    def headers(self) -> Mapping[str, str]:
        """Authenticate with the key pair."""
        pair = f"{self.public_key}:{self.secret_key.get_secret_value()}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    async def write(self, api: Api, results: Sequence[EvaluationResult]) -> None:
        """Send each score in its own request."""
        for one in results:
            score = self._score(one)
            if score is not None:
                await api.call("POST", "/api/public/scores", score)

    def _score(self, result: EvaluationResult) -> dict[str, Any] | None:
        plain = to_plain(result, explanations=self.include_explanations)
        if plain.score is None:
            return None
        environment = result.case.attributes.get("deployment.environment.name", "").lower()
        score = {
            "id": result.id,
            "traceId": plain.trace_id or clean(result.case.request_id),
            "observationId": plain.span_id or None,
            "name": plain.name,
            "value": plain.score,
            "dataType": "NUMERIC",
            "comment": plain.explanation or None,
            "environment": environment if _ENVIRONMENT.fullmatch(environment) else None,
            "metadata": {**plain.facts, **({"label": plain.label} if plain.label else {})},
        }
        return {key: value for key, value in score.items() if value is not None}
