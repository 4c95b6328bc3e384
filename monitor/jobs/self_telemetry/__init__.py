"""The monitor's own telemetry: its work as spans, its events as log records. Off unless configured."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator

from monitor.quantities import Rate
from monitor.transport.http.client import Address
from monitor.transport.otlp.exporter_settings import OtlpSettings


class TelemetrySettings(OtlpSettings):
    """The monitor's own traces and logs, sent over OTLP to your receiver. Off without `endpoint`.

    They never contain a question, a context, an answer or an explanation, and no monitor evaluates them: their
    `service.name` is `rag-monitor`. An unreachable receiver slows nothing down and is reported once.
    """

    endpoint: Address | None = None
    """URL of the OTLP receiver: `http://collector:4317` for gRPC, `http://collector:4318` for HTTP (`/v1/traces` and
    `/v1/logs` are appended). Default: send nothing."""

    traces: Rate = 0.01
    """Share of the monitor's own traces to record: deliveries, and cases with their evaluations."""

    logs: bool = True
    """Whether to send the monitor's log events as log records."""

    @model_validator(mode="after")
    def _of_no_signal(self) -> Self:
        path = urlsplit(self.endpoint or "").path
        if path.endswith(("/v1/traces", "/v1/logs")):
            raise ValueError("`endpoint` must not end in `/v1/traces` or `/v1/logs`: these are appended")
        return self
