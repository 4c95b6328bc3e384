"""Reads how long certificates are valid. OpenSSL reads them: no certificate is parsed here."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which `ssl` has no name
_FLIGHTS: Final = 3  # messages that each side of a TLS handshake sends, at most


class Validity(NamedTuple):
    """The first and the last second in which a certificate is valid (wall clock)."""

    begins: float
    ends: float


def authorities(path: Path) -> list[Validity]:
    """Return the validity of each certificate of an authority in a PEM file; of others there is none.

    Raises `ValueError` where the file cannot be read or holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(_reason(error)) from None
    return [_validity(one) for one in context.get_ca_certs()]


def own_certificate(cert_file: Path, key_file: Path, *, password: str = "", of_client: bool = False) -> Validity:
    """Return the validity of the certificate that this process shows, as a server or `of_client`.

    Makes a TLS handshake in memory, in which the other side verifies the certificate, but for its dates. Raises
    `ValueError` where a file cannot be read, key and certificate do not match, or it is not for this purpose.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    verifier = server if of_client else client
    try:
        for one in (server, client):
            # A callback for the passphrase keeps OpenSSL from asking for one at the terminal.
            one.load_cert_chain(cert_file, key_file, password=lambda: password)
        verifier.load_verify_locations(cert_file)
        verifier.verify_mode = ssl.CERT_REQUIRED
        verifier.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = (
            client.wrap_bio(to_client, to_server),
            server.wrap_bio(to_server, to_client, server_side=True),
        )
        for _ in range(_FLIGHTS):
            for side in sides:
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        shown = sides[of_client].getpeercert()
    except (ssl.SSLError, OSError) as error:
        raise ValueError(_reason(error)) from None
    if not shown:
        raise ValueError("the certificate was not shown in a handshake")
    return _validity(shown)


def _validity(certificate: Any) -> Validity:
    begins, ends = certificate["notBefore"], certificate["notAfter"]
    return Validity(float(ssl.cert_time_to_seconds(begins)), float(ssl.cert_time_to_seconds(ends)))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.strerror or str(error)
