"""Where something is sent, and how this process makes sure of whom it speaks to."""

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
    """`url`, if results may be sent there. Raises `ValueError`; what a name resolves to is not looked at."""
    try:
        check_receiver(url)
    except ValueError as error:
        raise ValueError(f"the address {error}") from None
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(receiver_address)]


class ClientTls(Component):
    """How this process makes sure whom it speaks to, and shows who it is itself. Files are read at start."""

    ca_file: Path | None = None
    """Certificates of the authorities that sign the server, PEM; those that are trusted anyway unless given."""

    cert_file: Path | None = None
    """The certificate that this process shows to the server (mTLS), PEM, with `key_file`."""

    key_file: Path | None = None
    """The private key to the certificate, PEM, without a passphrase."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("`cert_file` and `key_file` are needed together")
        return self

    def context(self) -> ssl.SSLContext:
        """A client's context. Raises `ConfigError` where a file cannot be read or holds something else."""
        for path, what in ((self.ca_file, "the authority"), (self.cert_file, "the certificate")):
            if path is not None:
                files.read(path, what)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{str(self.ca_file)!r} holds no certificate: {error}") from None
        if self.cert_file is not None and self.key_file is not None:
            files.read(self.key_file, "the private key")
            try:
                # A callback for the passphrase keeps OpenSSL from asking for one at the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password=lambda: "")
            except (ssl.SSLError, OSError, ValueError) as error:
                raise ConfigError(
                    f"{str(self.cert_file)!r} and {str(self.key_file)!r} are not a certificate and its key: {error}"
                ) from None
        return context
