"""Read Pydantic AI's own instrumentation, formats 1 to 6: the spans of an agent's run and of its tools.

Keys: https://ai.pydantic.dev/logfire/ and `pydantic_ai/capabilities/instrumentation.py` of the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from monitor.extraction import documents, messages, prompt, values
from monitor.model.case import Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_SCOPE: Final = "pydantic-ai"
_EVENTS: Final = "events"
_EVENTS_OF_RUN: Final = "all_messages_events"
_ALL_MESSAGES: Final = ("pydantic_ai.all_messages", _EVENTS_OF_RUN)
_ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool_arguments")
_RESULT: Final = ("gen_ai.tool.call.result", "tool_response")
_OF_FORMAT_2: Final = ("tool_arguments", "tool_response")
_OUTPUT_FUNCTION: Final = "running output function"
_MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model")
_INPUT_TOKENS: Final = ("gen_ai.aggregated_usage.input_tokens", "gen_ai.usage.input_tokens")
_OUTPUT_TOKENS: Final = ("gen_ai.aggregated_usage.output_tokens", "gen_ai.usage.output_tokens")


class PydanticAI(Convention):
    """Reads the runs of agents and the calls of their tools.

    Its model calls have OpenTelemetry's own keys and nothing else that matters, so `gen_ai` reads them. Only format 1
    has its own key for the messages of a call.
    """

    name: ClassVar[str] = "pydantic_ai"
    precedence: ClassVar[int] = 40

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe a run, a tool, or a model call of format 1; None for any other span."""
        operation = span.attributes.get("gen_ai.operation.name")
        ours = span.origin.scope_name == _SCOPE
        if any(key in span.attributes for key in _ALL_MESSAGES) or (ours and operation == "invoke_agent"):
            return self._run(span)
        if ours and operation == "chat" and _EVENTS in span.attributes:
            return self._call(span)
        if operation not in (None, "execute_tool") or "gen_ai.tool.name" not in span.attributes:
            return None
        return self._tool(span) if ours or any(key in span.attributes for key in _OF_FORMAT_2) else None

    def _run(self, span: Span) -> Observation:
        sent = messages.read(values.first(span.attributes, _ALL_MESSAGES)) or ()
        before = values.count(span.attributes.get("pydantic_ai.new_message_index")) or 0
        # Format 1 does not say where the messages of this run begin.
        at = messages.last_user(sent) if _EVENTS_OF_RUN in span.attributes else _question(sent, before)
        return Observation(
            kind="request",
            convention=self.name,
            span=span,
            query=sent[at].content if at >= 0 else None,
            history=messages.turns(sent[:at]) if at >= 0 else None,
            response=_answer(span.attributes.get("final_result")),
            usage=_usage(span.attributes),
            session_id=_session(span),
            error=values.error_of(span),
        )

    def _call(self, span: Span) -> Observation:
        events = values.elements(values.unfold(span.attributes[_EVENTS])) or ()
        chosen = [one["message"] for one in events if isinstance(one, Mapping) and "message" in one]
        said = messages.read(chosen)
        return Observation(
            kind="generation",
            convention=self.name,
            span=span,
            messages=messages.read([one for one in events if isinstance(one, Mapping) and "message" not in one]),
            response=next((one.content for one in said or () if one.content.strip()), None),
            model=values.text(values.first(span.attributes, _MODEL)),
            usage=_usage(span.attributes),
            session_id=_session(span),
            error=values.error_of(span),
        )

    def _tool(self, span: Span) -> Observation:
        # An output function builds the answer from the model's reply, so its result is not evidence for the answer.
        makes_answer = values.text(span.attributes.get("logfire.msg")).startswith(_OUTPUT_FUNCTION)
        asked = messages.read_request(values.first(span.attributes, _ARGUMENTS))
        error = values.error_of(span)
        # The result of a failed call is an instruction to the model to try again.
        found = None if error or makes_answer else prompt.of_tool(values.first(span.attributes, _RESULT))
        return Observation(
            kind="other" if makes_answer else "tool",
            convention=self.name,
            span=span,
            query=asked.query if asked and not makes_answer else None,
            documents=found,
            documents_without_text=documents.without_text(found or ()),
            session_id=_session(span),
            error=error,
        )


def _question(sent: Sequence[Message], before: int) -> int:
    """Return the index of this run's question; -1 if there is none.

    It comes before the model's first reply: in a later user message the library asks for a correction.
    """
    start = _start(sent, before)
    end = next((at for at, one in enumerate(sent) if at >= start and one.role == "assistant"), len(sent))
    at = messages.last_user(sent[:end])
    return at if at >= 0 else messages.last_user(sent)


def _start(sent: Sequence[Message], before: int) -> int:
    """Return the index of this run's first message, after `before` requests and responses of earlier runs.

    A response is one message; a request may be several in a row (system, tool, user), which count as one.
    """
    passed, in_request = 0, False
    for at, one in enumerate(sent):
        is_request = one.role != "assistant"
        if not (is_request and in_request):
            if passed >= before:
                return at
            passed += 1
        in_request = is_request
    return len(sent)


def _answer(result: Value) -> str | None:
    """Return the answer; a structured output without a known answer field counts as a whole."""
    said = messages.read_answer(result)
    if said is None and isinstance(result, str) and isinstance(values.unfold(result), (list, dict)):
        return result
    return said


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    given = values.count(values.first(attributes, _INPUT_TOKENS))
    put_out = values.count(values.first(attributes, _OUTPUT_TOKENS))
    return Usage(given, put_out) if (given, put_out) != (None, None) else None


def _session(span: Span) -> str:
    return values.text(span.attributes.get("gen_ai.conversation.id")) or values.text(span.attributes.get("session.id"))
