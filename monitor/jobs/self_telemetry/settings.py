"""The options of the monitor's own telemetry."""

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
    """The receiver, `http://` or `https://`: `http://collector:4317` for gRPC, or `http://collector:4318` for HTTP,
    where `/v1/traces` and `/v1/logs` are appended. Without it nothing is sent."""

    traces: Rate = 0.01
    """The share of the monitor's own traces to record: of deliveries, and of cases with the work on them."""

    logs: bool = True
    """Whether to send the events of its log as log records too."""

    @model_validator(mode="after")
    def _of_no_signal(self) -> Self:
        path = urlsplit(self.endpoint or "").path
        if path.endswith(("/v1/traces", "/v1/logs")):
            raise ValueError("`endpoint` must not end in `/v1/traces` or `/v1/logs`: these are appended")
        return self
