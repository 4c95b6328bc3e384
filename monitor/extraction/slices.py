"""Collect short facts of a request by which rates can be sliced: prompt version, model, tenant, deployment.

Inside the monitor a case has every short attribute that is not content, for filters and samplers. Only an allow-list
leaves the monitor with a result: the slices that the configuration names, and the facts in `HARMLESS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from monitor.extraction import values
from monitor.model.case import RESPONSE_ID, Case
from monitor.model.span import Value

MAX_LENGTH: Final = 128
"""Maximum characters of a value; longer values are content, not slices."""

MAX_SLICES: Final = 256
"""Maximum facts of one case; SDKs send at most 128 attributes per span by default."""

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt.version": (
        "gen_ai.prompt.version",
        "llm.prompt_template.version",
        "langfuse.observation.prompt.version",
        "traceloop.prompt.version",
        "metadata.prompt_version",
    ),
    "prompt.name": (
        "gen_ai.prompt.name",
        "langfuse.observation.prompt.name",
        "traceloop.prompt.key",
        "metadata.prompt_name",
    ),
    "index.version": ("metadata.index_version",),
    "tenant": ("tenant.id", "tenant_id", "metadata.tenant", "metadata.tenant_id"),
    "deployment.environment.name": ("deployment.environment",),
}
"""One name for each fact, and the dialects' names for it. `gen_ai.request.model` is also the case's model."""

HARMLESS: Final = frozenset(
    {
        "service.version",
        "service.namespace",
        "deployment.environment.name",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        RESPONSE_ID,
        "http.route",
        "index.version",
        "prompt.name",
        "prompt.version",
        "rag.traffic.class",
    }
)
"""Facts that may leave the monitor with every result: set by operators, libraries and providers, never by users."""

_NAMES: Final = {name: (name, *others) for name, others in SYNONYMS.items()}
_IN_ORDER: Final = sorted(HARMLESS)

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
_NO_CONTENT: Final = frozenset({"gen_ai.prompt.name", "gen_ai.prompt.version", RESPONSE_ID})
_RESOURCE: Final = ("service.version", "service.namespace", "deployment.environment.name", "deployment.environment")
_PROCESS: Final = ("process.", "telemetry.", "os.", "service.name")


def of_attributes(attributes: Mapping[str, Value]) -> dict[str, str]:
    """Return the short attributes that are not content, as texts; keys of a JSON `metadata` as `metadata.<key>`."""
    found: dict[str, str] = {}
    for key, value in attributes.items():
        if len(found) >= MAX_SLICES:
            break
        if key == "metadata":
            inner = values.unfold(value)
            if isinstance(inner, Mapping):
                found |= {f"metadata.{name}": text for name, raw in inner.items() if (text := _short(raw))}
        elif (text := _short(value)) and (key in _NO_CONTENT or not key.startswith(_CONTENT)):
            found[key] = text
    return found


def of_resource(resource: Mapping[str, Value]) -> dict[str, str]:
    """Return a resource's facts about its deployment: version, namespace, environment first; none about the process."""
    keys = [*_RESOURCE, *(key for key in resource if key not in _RESOURCE and not key.startswith(_PROCESS))]
    return {key: text for key in keys[:MAX_SLICES] if (text := _short(resource.get(key)))}


def value(case: Case, name: str) -> str:
    """Return the fact `name` of a case, under any of its synonyms; empty if the case does not have it."""
    for key in _NAMES.get(name) or (name,):
        if found := case.attributes.get(key):
            return found
    return case.model if name == "gen_ai.request.model" else ""


def first_value(case: Case, names: Iterable[str]) -> str:
    """Return the first of the facts `names` that the case has; empty if it has none of them."""
    return next((found for name in names if (found := value(case, name))), "")


def allowed(case: Case, names: Iterable[str]) -> dict[str, str]:
    """Return the facts of a case that may leave the monitor: the slices `names`, and the harmless ones."""
    return {name: found for name in (*names, *_IN_ORDER) if (found := value(case, name))}


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = values.text(value)
    return text if len(text) <= MAX_LENGTH else ""
