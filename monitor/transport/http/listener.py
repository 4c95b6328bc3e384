"""Options of a server's listening address, which must be protected if other machines can reach it."""

from __future__ import annotations

import ipaddress
import socket
from typing import ClassVar, Self

from pydantic import Field, model_validator

from monitor.errors import ConfigError
from monitor.stages import Component
from monitor.transport.http.auth import Auth
from monitor.transport.http.tls import Tls


class ListenerOptions(Component):
    """Options of a server: its address, and who may connect."""

    needs_restart: ClassVar[frozenset[str]] = frozenset({"host", "port", "tls"})
    """Options of the server itself, which keeps running when the configuration is reloaded."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach requires `tls` with `auth` or client certificates,
    or `insecure: true`."""

    port: int = Field(ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""

    tls: Tls | None = None
    """TLS, with optional client certificates (mTLS). Default: unencrypted."""

    auth: Auth | None = None
    """Bearer tokens that clients must send. Default: any client is served."""

    insecure: bool = False
    """Allow other machines to connect without encryption or authentication. Only for a closed network."""

    @property
    def door_key(self) -> tuple[str, str, int]:
        """The key that identifies this server within the process."""
        return type(self).__name__, self.host, self.port

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
    """Return whether only this machine can reach a server on `host`. The only host name accepted is `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to the first address of `host`. Raises `ConfigError` for a taken port or an unknown host."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host: {host!r} is not an address of this machine: {error.strerror}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise cannot_listen(host, port, error.strerror or str(error)) from None
    return bound


def cannot_listen(host: str, port: int, why: str) -> ConfigError:
    """Return the error for a port that is taken or not permitted."""
    return ConfigError(f"port: cannot listen on {in_words(host, port)}: {why}")


def in_words(host: str, port: int) -> str:
    """Format an address: `127.0.0.1:4318`, `[::1]:4318`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
