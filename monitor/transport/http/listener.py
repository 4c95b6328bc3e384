"""Where a server listens, and for whom: on this machine only, unless it is guarded or told to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Self

from pydantic import Field, model_validator

from monitor.errors import ConfigError
from monitor.stages import Component
from monitor.transport.http.auth import Auth
from monitor.transport.http.tls import Tls


class ListenerOptions(Component):
    """The options of a server: where it listens, and for whom."""

    host: str = "127.0.0.1"
    """The address to listen on. One beyond this machine needs `tls` together with `auth` or client certificates, or an
    explicit `insecure: true`."""

    port: int = Field(ge=0, le=65535)
    """The port to listen on; 0 takes any free one."""

    tls: Tls | None = None
    """Encryption, and client certificates (mTLS). Without it traffic is plain."""

    auth: Auth | None = None
    """Tokens that clients must show. Without it every client is served."""

    insecure: bool = False
    """Listen beyond this machine although traffic is plain or clients are unknown: for a network that is closed."""

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        known_clients = self.tls is not None and (self.auth is not None or self.tls.client_ca_file is not None)
        if not self.insecure and not known_clients and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host!r} can be reached from other machines: set `tls` and `auth` (or "
                "`tls.client_ca_file`), or `insecure: true`, or listen on 127.0.0.1"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`. A name other than localhost might be any machine's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the first address of `host`. Raises `ConfigError`: the port is taken, the host unknown."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host {host!r} is not an address of this machine: {error.strerror}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise cannot_listen(host, port, error.strerror or str(error)) from None
    return bound


def cannot_listen(host: str, port: int, why: str) -> ConfigError:
    """The port is taken, or not ours to take."""
    return ConfigError(f"cannot listen on {in_words(host, port)}: {why}")


def in_words(host: str, port: int) -> str:
    """`127.0.0.1:4318`, `[::1]:4318`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
