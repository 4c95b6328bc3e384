"""Define the options of everything that sends OTLP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from monitor import __version__
from monitor.errors import ConfigError
from monitor.quantities import Duration
from monitor.stages import Component
from monitor.transport.http.client import Address, ClientTls
from monitor.transport.otlp.exporter import Target

SERVICE: Final = "rag-monitor"
"""The `service.name` of everything sent. Our own receivers recognise it and never evaluate it."""

RESOURCE: Final = {"service.name": SERVICE, "service.version": __version__}

_HEADER: Final = re.compile(r"[A-Za-z0-9_.-]+")


class OtlpSettings(Component):
    """Options of an OTLP exporter."""

    endpoint: Address | None = None
    """URL of the OTLP receiver: `http://collector:4317` for gRPC, `http://collector:4318` for HTTP (`/v1/logs` and
    `/v1/traces` are appended)."""

    protocol: Literal["grpc", "http"] = "grpc"
    """`grpc`, or `http` for protobuf over HTTP."""

    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Headers to send with each request, such as `{authorization: "Bearer ${OTLP_TOKEN}"}`. Default: the environment
    variable `OTEL_EXPORTER_OTLP_HEADERS`."""

    tls: ClientTls | None = None
    """TLS options for an `https://` endpoint."""

    compression: Literal["none", "gzip"] = "gzip"
    """Compression of requests."""

    timeout: Annotated[Duration, Field(gt=0, le=60)] = 5.0
    """Time limit of one delivery, including retries; at most `60s`."""

    @field_validator("headers")
    @classmethod
    def _plain(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        for name, value in headers.items():
            text = value.get_secret_value()
            if not _HEADER.fullmatch(name) or not text.isascii() or not text.isprintable():
                raise ValueError(f"the header {name!r} is not plain ASCII")
        return headers

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        endpoint = self.endpoint or ""
        if self.tls is not None and not endpoint.startswith("https://"):
            raise ValueError("`tls` needs an `endpoint` that begins with https://")
        if self.protocol == "grpc" and urlsplit(endpoint).path:
            raise ValueError(
                "`endpoint` must not have a path with gRPC: `http://collector:4317`, or set `protocol: http`"
            )
        return self

    def target(self, place: str = "") -> Target:
        """Return an exporter's target. Raises `ConfigError`, prefixed with `place`, if a `tls` file cannot be used."""
        if self.tls is not None:
            try:
                self.tls.context()
            except ConfigError as error:
                raise ConfigError(f"{place}{'.' if place else ''}tls: {error}") from None
        tls = self.tls or ClientTls()
        return Target(
            self.endpoint or "",
            self.protocol,
            {name: value.get_secret_value() for name, value in self.headers.items()},
            self.timeout,
            self.compression == "gzip",
            tls.ca_file,
            tls.cert_file,
            tls.key_file,
        )
