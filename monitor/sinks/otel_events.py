"""Results as OpenTelemetry events: `gen_ai.evaluation.result` log records on the scored span.

Definition: OpenTelemetry semantic conventions for generative AI, event `gen_ai.evaluation.result` (development). Sent
by the SDK's own OTLP exporters, but not through its batch processor, which drops what does not fit into its queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, ClassVar, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from pydantic import Field

from monitor import __version__
from monitor.errors import MonitorError, Overloaded, ResultsRefused
from monitor.model.case import RESPONSE_ID
from monitor.model.outcome import EvaluationResult
from monitor.quantities import Duration
from monitor.sinks._plain_result import clean, to_plain
from monitor.stages import Deliver, Runtime, Sink
from monitor.transport.http.client import Address
from monitor.transport.otlp.exporter import OtlpSender, PartlyRejected
from monitor.transport.otlp.exporter_settings import RESOURCE, SERVICE, OtlpSettings

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord

EVENT: Final = "gen_ai.evaluation.result"
_LAST: Final = 2**64 - 1


class OtelEvents(OtlpSettings, Sink):
    """Send each result over OTLP as an event `gen_ai.evaluation.result` on the trace and span that was scored.

    | attribute | meaning |
    |---|---|
    | `gen_ai.evaluation.name` | the evaluator |
    | `gen_ai.evaluation.score.value`, `gen_ai.evaluation.score.label` | the score; its label, else its level |
    | `gen_ai.evaluation.explanation` | the reason, unless `include_explanations` is off |
    | `gen_ai.response.id` | the provider's id of the answer, if the scored span has it |
    | `error.type` | the reason if there is no score, such as `timeout` |
    | `rag_monitor.result_id` | unique id of the result; a repeat after a restart has the same |
    | `rag_monitor.outcome`, `rag_monitor.reason`, `rag_monitor.detail` | `score`, `unscored` or `skipped`; the reason |
    | `rag_monitor.app`, `.version`, `.model` | the service; the evaluator's version; the judge model |
    | `rag_monitor.defect`, `.level`, `.weight`, `.scope` | as in the other sinks |
    | `rag_monitor.score_source` | where an external score came from, such as `feedback` |
    | `rag_monitor.request_id` | the id of a case without a trace, received as a row |

    The timestamp is the time of the answer, the observed timestamp the time of the result; `service.name` is
    `rag-monitor`.
    """

    endpoint: Address
    """URL of the OTLP receiver: `http://collector:4317` for gRPC, `http://collector:4318` for HTTP (`/v1/logs` is
    appended)."""

    timeout: Annotated[Duration, Field(gt=0, le=60)] = 5.0
    """Time limit of one attempt to deliver a batch; at most `60s`."""

    at_once: ClassVar[int] = 128
    in_flight: ClassVar[int] = 4

    include_explanations: bool = True
    """Whether to send explanations. They may quote the question, the context and the answer."""

    def external_copies(self) -> str:
        """Name the receiver."""
        return f"otel_events {self.endpoint}"

    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:  # noqa: ARG002 - the contract's
        """Open the exporter. Raises `ConfigError` for an unusable file; delivering raises `MonitorError` on failure."""
        target, where = self.target(), urlsplit(self.endpoint).netloc
        write = await anyio.to_thread.run_sync(_writer)
        idle = [await anyio.to_thread.run_sync(OtlpSender, target) for _ in range(self.in_flight)]

        async def deliver(results: Sequence[EvaluationResult]) -> None:
            records = [write(one, self.include_explanations) for one in results]
            sender = idle.pop()
            try:
                await sender.send(records)
            except PartlyRejected as error:  # it does not say which results
                refused = [one.id for one in results[: error.number]]
                raise ResultsRefused(f"otel_events: {where}: {error}", refused) from None
            except Overloaded as error:
                raise Overloaded(f"otel_events: {where}: {error}", retry_after=error.retry_after) from None
            except MonitorError as error:
                raise type(error)(f"otel_events: {where}: {error}") from None
            finally:
                idle.append(sender)

        try:
            yield deliver
        finally:
            for sender in idle:
                sender.close()


def _writer() -> Callable[[EvaluationResult, bool], ReadableLogRecord]:
    """Return a function that builds the record of a result. Imports the SDK, which takes 0.2 s."""
    from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: PLC0415
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.sdk._logs import ReadableLogRecord  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context  # noqa: PLC0415

    resource = Resource.create(RESOURCE)
    scope = InstrumentationScope(SERVICE, __version__)

    def write(result: EvaluationResult, explanations: bool) -> ReadableLogRecord:
        plain = to_plain(result, explanations=explanations)
        trace_id = int(plain.trace_id or "0", 16)
        span = SpanContext(
            trace_id,
            int(plain.span_id or "0", 16) if trace_id else 0,
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if trace_id else TraceFlags.DEFAULT),
        )
        record = LogRecord(
            timestamp=_nanoseconds(result.case.answered_at or result.evaluated_at),
            observed_timestamp=_nanoseconds(result.evaluated_at),
            context=set_span_in_context(NonRecordingSpan(span), Context()),
            severity_number=SeverityNumber.INFO,
            severity_text="INFO",
            event_name=EVENT,
            attributes=attributes(result, explanations=explanations),
        )
        return ReadableLogRecord(record, resource, scope)

    return write


def attributes(result: EvaluationResult, *, explanations: bool) -> dict[str, str | float | bool]:
    """Return the attributes of a result's event; see `OtelEvents`."""
    plain = to_plain(result, explanations=explanations)
    found: dict[str, str | float | bool | None] = {
        "gen_ai.evaluation.name": plain.name,
        "gen_ai.evaluation.score.value": plain.score,
        "gen_ai.evaluation.score.label": plain.label,
        "gen_ai.evaluation.explanation": plain.explanation,
        RESPONSE_ID: clean(result.case.attributes.get(RESPONSE_ID, "")),
        "error.type": "" if plain.skipped else plain.trouble,
        "rag_monitor.reason": plain.trouble,
        "rag_monitor.detail": plain.detail,
        "rag_monitor.request_id": "" if plain.trace_id else clean(result.case.request_id),
    }
    found |= {f"rag_monitor.{key}": value for key, value in plain.facts.items()}
    return {key: value for key, value in found.items() if value is not None and value != ""}


def _nanoseconds(seconds: float) -> int:
    """Return the time as OTLP writes it, which ends in the year 2554: later ones of a sender's clock are its end."""
    return min(max(0, round(seconds * 1e6) * 1000), _LAST)  # a float of seconds holds no more than microseconds
