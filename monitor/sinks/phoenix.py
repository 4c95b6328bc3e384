"""Sink `phoenix`: results as annotations on spans in Phoenix (Arize).

API: POST /v1/span_annotations, `sync=true` (without it, annotations of unknown spans are dropped silently).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import anyio
from pydantic import SecretStr

from monitor.errors import MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.sinks._http import Api, HttpSink
from monitor.sinks._plain_result import PlainResult, to_plain

_PATH: Final = "/v1/span_annotations?sync=true"
_NOT_THERE: Final = 404
_MISSING: Final = re.compile(r"\b[0-9a-f]{16}\b")
_SPANS_COME_WITHIN: Final = 1.0  # seconds; a span usually arrives before its result


class Phoenix(HttpSink):
    """Annotate the span with score, label and explanation, named after the evaluator.

    The annotator is `LLM` if a model gave the score, else `CODE`. The identifier is the result's id, so a repeated
    result replaces the annotation. Only scores of cases from traces are written; Phoenix must have the span.
    """

    api_key: SecretStr | None = None
    """API key, sent as `Authorization: Bearer ...`. Use an environment variable: `${PHOENIX_API_KEY}`."""

    at_once: ClassVar[int] = 100
    in_flight: ClassVar[int] = 4

    def headers(self) -> Mapping[str, str]:
        """See `HttpSink`."""
        return {"authorization": f"Bearer {self.api_key.get_secret_value()}"} if self.api_key is not None else {}

    async def write(self, api: Api, results: Sequence[EvaluationResult]) -> None:
        """See `HttpSink`."""
        plain = [to_plain(one, explanations=self.include_explanations) for one in results]
        absent = await _annotate(api, [one for one in plain if one.span_id and one.score is not None])
        if absent:
            await anyio.sleep(_SPANS_COME_WITHIN)
            absent = await _annotate(api, absent)
        if absent:
            ids = {str(one.facts["result_id"]) for one in absent}
            raise ResultsRefused(f"phoenix: unknown span {absent[0].span_id}", ids)


async def _annotate(api: Api, plain: list[PlainResult]) -> list[PlainResult]:
    """Write these results; return those whose span is missing."""
    if not plain:
        return []
    answer = await api.call("POST", _PATH, {"data": [_annotation(one) for one in plain]}, also={_NOT_THERE})
    if answer.status != _NOT_THERE:
        return []
    named = set(_MISSING.findall(answer.text))
    absent = [one for one in plain if one.span_id in named]
    if not absent:
        raise MonitorError(f"phoenix: {api.where} answered 404: is `url` the address of a Phoenix server?")
    return absent + await _annotate(api, [one for one in plain if one.span_id not in named])


def _annotation(plain: PlainResult) -> dict[str, Any]:
    result = {"score": plain.score, "label": plain.label or None, "explanation": plain.explanation or None}
    return {
        "span_id": plain.span_id,
        "name": plain.name,
        "annotator_kind": "LLM" if plain.by_model else "CODE",
        "identifier": plain.facts["result_id"],
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": dict(plain.facts),
    }
