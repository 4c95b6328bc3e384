"""Checks addresses to send to, and builds the client's TLS context."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from monitor.errors import ConfigError
from monitor.stages import Component
from monitor.transport.http import files
from monitor.transport.http.address_guard import check_receiver


def receiver_address(url: str) -> str:
    """Return `url` if results may be sent there. Raises `ValueError`. Host names are not resolved."""
    try:
        check_receiver(url)
    except ValueError as error:
        raise ValueError(f"the address {error}") from None
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(receiver_address)]


class ClientTls(Component):
    """TLS of a client: how it verifies the server and identifies itself. Files are read at start."""

    ca_file: Path | None = None
    """CA bundle (PEM) that verifies the server. Default: the system's."""

    cert_file: Path | None = None
    """Client certificate (PEM) for mTLS, with `key_file`."""

    key_file: Path | None = None
    """Private key of the client certificate (PEM), without a passphrase."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("set both `cert_file` and `key_file`, or neither")
        return self

    def context(self) -> ssl.SSLContext:
        """Build the client's context. Raises `ConfigError` if a file cannot be read or has the wrong content."""
        for path, what in ((self.ca_file, "the authority"), (self.cert_file, "the certificate")):
            if path is not None:
                files.read(path, what)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{str(self.ca_file)!r} contains no certificate: {error}") from None
        if self.cert_file is not None and self.key_file is not None:
            files.read(self.key_file, "the private key")
            try:
                # The callback keeps OpenSSL from asking for a passphrase on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password=lambda: "")
            except (ssl.SSLError, OSError, ValueError) as error:
                raise ConfigError(
                    f"{str(self.cert_file)!r} and {str(self.key_file)!r} are not a certificate and its key: {error}"
                ) from None
        return context
