"""Define the source `otlp_http`: OTLP over HTTP, protobuf and JSON, plain or gzip; also rows and feedback."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from monitor.quantities import Duration
from monitor.stages import Intake, Runtime
from monitor.transport.http.auth import HostName, WebsiteGuard
from monitor.transport.http.listener import ListenerOptions, is_loopback
from monitor.transport.otlp.receiver import OtlpReceiver, Reception


class OtlpHttp(OtlpReceiver):
    """Receive traces and logs over OTLP/HTTP. Overload is answered with 503 and `Retry-After`; SDKs retry."""

    needs_restart: ClassVar[frozenset[str]] = ListenerOptions.needs_restart | {
        "head_timeout",
        "body_timeout",
        "write_timeout",
        "idle_timeout",
    }

    port: int = Field(default=4318, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""

    traces_path: str = "/v1/traces"
    """Path for traces."""

    logs_path: str = "/v1/logs"
    """Path for log records, which some instrumentations use for prompts and answers."""

    cases_path: str = "/v1/cases"
    """Path for rows: requests with their answers as JSON, for services without traces."""

    feedback_path: str = "/v1/feedback"
    """Path for user feedback as JSON (docs/feedback.md)."""

    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may send (CORS), such as `https://app.example.com`; `*` allows any. Default: none."""

    hosts: tuple[HostName, ...] = ()
    """Host names under which requests may arrive if no token is required and `host` is an address that only this
    machine can reach. An example is a reverse proxy that passes on its own name. Names without a dot, and names that
    end in `.svc`, `.cluster.local`, `.internal` or `.localhost`, need not be listed. Other names are refused (403),
    because a website could send under its own name, through a visitor's browser. Requests from a browser must always
    use a known name."""

    head_timeout: Duration = Field(default=60.0, gt=0)
    """How long the headers of a request may take to arrive before the connection is closed."""

    body_timeout: Duration = Field(default=60.0, gt=0)
    """How long the body of a request may take to arrive before the connection is closed."""

    write_timeout: Duration = Field(default=30.0, gt=0)
    """How long a sender may take to read an answer before the connection is closed."""

    idle_timeout: Duration = Field(default=60.0, gt=0)
    """How long to keep an idle connection open."""

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, found, host = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not found or not host or "/" in host):
                raise ValueError(f"{origin!r} is not an origin; use one such as `https://app.example.com`, or `*`")
        return origins

    @model_validator(mode="after")
    def _paths(self) -> Self:
        paths = (self.traces_path, self.logs_path, self.cases_path, self.feedback_path)
        if len(set(paths)) < len(paths) or not all(path.startswith("/") for path in paths):
            raise ValueError(
                "traces_path, logs_path, cases_path and feedback_path must start with / and differ from each other"
            )
        return self

    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Serve until cancelled. Raises `ConfigError` if the port is taken or a file cannot be read."""
        from monitor.sources import _posted  # noqa: PLC0415
        from monitor.transport.http import http_server  # noqa: PLC0415
        from monitor.transport.otlp import http_app  # noqa: PLC0415 - uvicorn is slow to import

        reception = Reception("otlp_http", self, intake, runtime, http_app.CODES)
        routes = {
            self.traces_path: http_app.export(reception, "traces"),
            self.logs_path: http_app.export(reception, "logs"),
            self.cases_path: _posted.row_route(reception, intake),
            self.feedback_path: _posted.feedback_route(reception, intake),
        }
        guard = None
        if self.auth is None and self.tls is None:  # no website has the token, or a certificate of ours
            guard = WebsiteGuard(self.hosts, self.cors_origins, any_host=not is_loopback(self.host))
        app = http_app.HttpApp(reception, routes, frozenset(self.cors_origins), guard)
        timeouts = http_server.Timeouts(self.head_timeout, self.body_timeout, self.write_timeout, self.idle_timeout)
        await runtime.doors.serve(self.door_key, app, http_server.server(self, timeouts, runtime), listening)
