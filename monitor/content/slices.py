"""Short facts of a span by which rates can be sliced: prompt version, model, tenant, deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.content import values
from monitor.model.span import Value

MAX_LENGTH: Final = 128
"""Characters of a value; longer ones are content, not slices."""

MAX_SLICES: Final = 64
"""Slices of one case."""

_CONTENT: Final = (
    "input.",
    "output.",
    "retrieval.",
    "reranker.",
    "embedding.",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompts",
    "llm.token_count",
    "llm.tools",
    "llm.prompt_template.template",
    "llm.prompt_template.variables",
    "message.",
    "document.",
    "gen_ai.input",
    "gen_ai.output",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.usage",
    "gen_ai.retrieval.query",
    "gen_ai.retrieval.documents",
    "gen_ai.response.id",
    "gen_ai.system_instructions",
    "gen_ai.tool.call",
    "gen_ai.conversation.id",
    "gen_ai.task.",
    "gen_ai.aggregated_usage",
    "gen_ai.agent.call.id",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "mlflow.traceRequestId",
    "mlflow.chat.",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.observation.usage_details",
    "langfuse.observation.cost_details",
    "langfuse.observation.status_message",
    "langfuse.observation.completion_start_time",
    "langfuse.trace.input",
    "langfuse.trace.output",
    "haystack.",
    "pydantic_ai.",
    "logfire.",
    "final_result",
    "tool_arguments",
    "tool_response",
    "model_request_parameters",
    "operation.cost",
    "ai.prompt",
    "ai.response.",
    "ai.result.",
    "ai.toolCall.",
    "ai.usage.",
    "ai.value",
    "ai.documents",
    "ai.ranking",
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    "session.id",
    "user.id",
    "enduser.",
    "exception.",
    "server.",
    "client.",
    "network.",
    "url.full",
    "url.query",
    "thread.",
    "code.",
)
_RESOURCE: Final = ("service.version", "service.namespace", "deployment.environment.name", "deployment.environment")


def of_attributes(attributes: Mapping[str, Value]) -> dict[str, str]:
    """The attributes that are short and no content, as texts; those of a JSON `metadata` as `metadata.<key>`."""
    found: dict[str, str] = {}
    for key, value in attributes.items():
        if len(found) >= MAX_SLICES:
            break
        if key == "metadata":
            inner = values.unfold(value)
            if isinstance(inner, Mapping):
                found |= {f"metadata.{name}": text for name, raw in inner.items() if (text := _short(raw))}
        elif (text := _short(value)) and not key.startswith(_CONTENT):
            found[key] = text
    return found


def of_resource(resource: Mapping[str, Value]) -> dict[str, str]:
    """What a resource says of a deployment: version, namespace, environment."""
    return {key: text for key in _RESOURCE if (text := _short(resource.get(key)))}


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = values.text(value)
    return text if len(text) <= MAX_LENGTH else ""
