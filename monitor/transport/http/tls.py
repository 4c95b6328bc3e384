"""Set up TLS for servers, with client certificates, and rotate certificates without a restart."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.telemetry.events import Events
from monitor.transport.http import files


class Tls(BaseModel):
    """The certificate that a server presents, and the authorities of the clients that it trusts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert_file: Path
    """Certificate chain of this server (PEM). Read again when it changes, for new connections."""

    key_file: Path
    """Private key of the certificate (PEM), without a passphrase. Read again when it changes."""

    client_ca_file: Path | None = None
    """CA certificates (PEM) to verify clients. If set, every client must present a certificate (mTLS)."""

    min_version: Literal["1.2", "1.3"] = "1.2"
    """Lowest accepted TLS version."""

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        return [self.cert_file, self.key_file, *([self.client_ca_file] if self.client_ca_file else [])]

    def context(self) -> ssl.SSLContext:
        """Build a server context from the current files. Raises `ConfigError`."""
        self.material()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if self.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
        load_chain(context, self.cert_file, self.key_file)
        if self.client_ca_file is not None:
            load_authorities(context, self.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
            context.options |= ssl.OP_NO_TICKET  # in a session that is resumed no client shows its certificate
            context.num_tickets = 0
        return context

    def reloading_context(self, clock: Clock, events: Events) -> ssl.SSLContext:
        """Build a context that uses the current content of its files in each handshake. Raises `ConfigError`."""
        return _ReloadingContext(files.Reloaded(self.paths, self.context, clock, events))

    def material(self) -> Material:
        """Read the contents of the files. Raises `ConfigError`."""
        return Material(
            files.read(self.cert_file, "the certificate"),
            files.read(self.key_file, "the private key"),
            files.read(self.client_ca_file, "the client authority") if self.client_ca_file else None,
        )


class _ReloadingContext(ssl.SSLContext):
    """Passes each connection to the context of the current files. Sessions of one before are not resumed."""

    def __new__(cls, current: Callable[[], ssl.SSLContext]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        return made

    _current: Callable[[], ssl.SSLContext]

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Called by the event loop for each connection."""
        return self._current().wrap_bio(*args, **options)


def load_chain(context: ssl.SSLContext, cert_file: Path, key_file: Path, password: str = "") -> None:
    """Load a certificate and its key, both PEM, into `context`. Raises `ConfigError`."""
    files.read(cert_file, "the certificate")
    files.read(key_file, "the private key")
    try:
        # A callback for the passphrase keeps OpenSSL from asking for one on the terminal.
        context.load_cert_chain(cert_file, key_file, password=lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        message = f"{str(cert_file)!r} and {str(key_file)!r} are not a certificate and its key: {error}"
        raise ConfigError(message) from None


def load_authorities(context: ssl.SSLContext, ca_file: Path) -> None:
    """Trust the authorities in a PEM file. Raises `ConfigError`."""
    files.read(ca_file, "the authority")
    try:
        context.load_verify_locations(ca_file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{str(ca_file)!r} contains no certificate: {error}") from None


class Material(NamedTuple):
    """PEM texts, for a TLS library that reads no files."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
