"""The options of the monitor's own telemetry."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator

from monitor.quantities import Rate
from monitor.transport.http.client import Address
from monitor.transport.otlp.exporter_settings import OtlpSettings


class TelemetrySettings(OtlpSettings):
    """The monitor's own traces and logs, sent by OTLP to a receiver of yours. Off without `endpoint`.

    They never hold a question, a context, an answer or a reason, and no monitor judges them: their `service.name` is
    `rag-monitor`. A receiver that cannot be reached slows nothing down; it is said once.
    """

    endpoint: Address | None = None
    """The receiver, `http://` or `https://`: `http://collector:4317` for gRPC; for HTTP `http://collector:4318`, to
    which `/v1/traces` and `/v1/logs` are added. Without it nothing is sent."""

    traces: Rate = 0.01
    """Share of the monitor's own traces that are recorded: of deliveries, and of cases with what is done for them."""

    logs: bool = True
    """Whether its events, as they stand in its log, are sent as log records too."""

    @model_validator(mode="after")
    def _of_no_signal(self) -> Self:
        path = urlsplit(self.endpoint or "").path
        if path.endswith(("/v1/traces", "/v1/logs")):
            raise ValueError("`endpoint` is without `/v1/traces` or `/v1/logs`: these are added")
        return self
