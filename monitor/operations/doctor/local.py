"""Checks this machine and the addresses around it: disk, ports, certificates, tokens, receivers."""

from __future__ import annotations

import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.operations.doctor.findings import Finding, failed, ok, warning
from monitor.operations.monitor_client import MonitorClient
from monitor.operations.storage_folder import refuse_newer
from monitor.quantities import number_of
from monitor.stages import type_name
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics
from monitor.transport.http.listener import ListenerOptions, bind, in_words

_DAY: Final = 86_400.0
_SOON: Final = 14 * _DAY
_HISTORY: Final = 1024**3  # maximum size of the history, in addition to the spool
_CONNECT_TIMEOUT: Final = 3.0
_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which `ssl` has no name
_FLIGHTS: Final = 3  # maximum number of messages that each side sends in a TLS handshake


def check_local(config: Config, clock: Clock) -> Iterator[Finding]:
    """Yield all findings of checks that cost nothing."""
    yield check_storage(config)
    parts = list(components(config))
    running = _monitor_runs(config)
    for place, part in parts:
        if isinstance(part, ListenerOptions):
            yield _port(place, part, running=running)
        yield from _tls(place, getattr(part, "tls", None), clock, of_client=not isinstance(part, ListenerOptions))
        yield from _tokens(place, getattr(part, "auth", None))
        url = getattr(part, "url", None) or getattr(part, "endpoint", None)
        if isinstance(url, str):
            yield _address(place, url)


def components(config: Config) -> Iterator[tuple[str, Any]]:
    """Yield everything that listens or sends, with its place in the configuration."""
    for kind, parts in (("sources", config.sources), ("sinks", config.sinks), ("notify", config.notify)):
        for number, part in enumerate(parts):
            name = type(part).__name__.lower() if kind == "notify" else type_name(part)
            yield f"{kind}[{number}] {name}", part
    yield "telemetry", config.telemetry


def check_storage(config: Config) -> Finding:
    """Check that no newer version wrote the storage folder, that it is writable, and that it has enough free space."""
    path = config.storage.path
    try:
        refuse_newer(path)
    except ConfigError as error:
        return failed("storage", str(error), "start the newer version again, or use another folder")
    there = next(one for one in (path, *path.parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"probe")
        free = shutil.disk_usage(there).free
    except OSError as error:
        fix = "set `storage.path` to a folder that this user can write to"
        return failed("storage", f"cannot write to {there}: {error.strerror}", fix)
    used = sum(one.stat().st_size for one in path.glob("*.db*")) if path.is_dir() else 0
    wanted = max(config.storage.max_size + _HISTORY - used, 0)
    if free < wanted:
        return warning(
            "storage",
            f"{path} has {_mib(free)} free; spool and history may need {_mib(wanted)} more",
            "free some space, or lower `storage.max_size`",
        )
    return ok("storage", f"{path} is writable and has {_mib(free)} free")


def _mib(size: float) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def _monitor_runs(config: Config) -> bool:
    """Return whether a monitor serves the port that this configuration gives to the sink `prometheus`."""
    for sink in config.sinks:
        if type_name(sink) == "prometheus" and isinstance(sink, ListenerOptions) and sink.port:
            host = _reachable(sink.host)
            if sink.tls is not None:
                return connects(host, sink.port)
            return MonitorClient(f"http://{in_words(host, sink.port)}").is_monitor()
    return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a server on all addresses is on these


def _port(place: str, part: ListenerOptions, *, running: bool) -> Finding:
    where = in_words(part.host, part.port)
    if part.port == 0:
        return ok(place, f"uses any free port on {part.host}")
    try:
        bind(part.host, part.port).close()
    except ConfigError as error:
        if running and connects(_reachable(part.host), part.port):
            return ok(place, f"{where} is in use by a running monitor")
        fix = "stop the process using this port, or set another `port`"
        if "is not an address" in str(error):
            fix = "set `host` to an address of this machine"
        elif "ermission" in str(error):
            fix = "set a `port` above 1023, or grant the right to use this one"
        return failed(place, str(error), fix)
    return ok(place, f"{where} is free")


def connects(host: str, port: int) -> bool:
    """Return whether something accepts connections there."""
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True


def _tls(place: str, tls: Any, clock: Clock, *, of_client: bool) -> Iterator[Finding]:
    """Check the files of a section `tls`, and how long their certificates are valid."""
    if tls is None:
        return
    place = f"{place} tls"
    if hasattr(tls, "context"):
        try:
            tls.context()
        except ConfigError as error:
            yield failed(place, str(error), "put a certificate and its key there, readable by this user")
            return
    for option in ("cert_file", "ca_file", "client_ca_file"):
        path = getattr(tls, option, None)
        if path is None:
            continue
        name = f"{option}: {path}"
        fix = f"put a valid certificate at {path}"
        try:
            found = authorities(path)
            if option == "cert_file":
                secret = getattr(tls, "key_password", None)
                password = secret.get_secret_value() if secret is not None else ""
                own = own_certificate(path, tls.key_file, password=password, of_client=of_client)
                found = [own, *found]
        except ValueError as error:
            yield failed(place, f"{name} cannot be used: {error}", fix)
            continue
        yield expiry(place, name, found, clock.now(), fix)


def expiry(place: str, name: str, found: list[Validity], now: float, fix: str) -> Finding:
    """Return a finding on how long all certificates of a file are valid."""
    if not found:
        return ok(place, f"{name} can be read")
    begins, ends = max(one.begins for one in found), min(one.ends for one in found)
    days = (ends - now) / _DAY
    if days < 0:
        return failed(place, f"{name} expired {number_of(-days, 'day')} ago", fix)
    if begins > now:
        return failed(place, f"{name} is not valid yet", f"{fix}; or set this machine's clock")
    if days * _DAY < _SOON:
        return warning(place, f"{name} expires in {number_of(days, 'day')}", fix)
    return ok(place, f"{name} is valid for {number_of(days, 'day')}")


def _tokens(place: str, auth: Any) -> Iterator[Finding]:
    if auth is None:
        return
    try:
        auth.gate(SystemClock(), Events(Metrics()))
    except ConfigError as error:
        yield failed(f"{place} auth", str(error), "put a token there, one per line, readable by this user")
    else:
        yield ok(f"{place} auth", "the tokens can be read")


def _address(place: str, url: str) -> Finding:
    """Check whether something listens at `url`. Sends nothing, so a key stays unverified until the first result."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    where = in_words(parts.hostname or "", port)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT_TIMEOUT).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        return failed(place, f"cannot connect to {where}: {reason}", "check the address, and that the service runs")
    return ok(place, f"{where} accepts connections (nothing sent, key not verified)")


class Validity(NamedTuple):
    """The first and the last second in which a certificate is valid (wall clock)."""

    begins: float
    ends: float


def authorities(path: Path) -> list[Validity]:
    """Return the validity of each CA certificate in a PEM file; other certificates are left out.

    Raises `ValueError` if the file cannot be read or contains no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(_reason(error)) from None
    return [_validity(one) for one in context.get_ca_certs()]


def own_certificate(cert_file: Path, key_file: Path, *, password: str = "", of_client: bool = False) -> Validity:
    """Return the validity of the certificate that this process presents as a server or, with `of_client`, as a client.

    Makes a TLS handshake in memory, in which the other side verifies the certificate except for its dates. Raises
    `ValueError` if a file cannot be read, key and certificate do not match, or the certificate is not for this purpose.
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
        sides = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
        for _ in range(_FLIGHTS):
            for side in sides:
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        shown = sides[of_client].getpeercert()
    except (ssl.SSLError, OSError) as error:
        raise ValueError(_reason(error)) from None
    if not shown:
        raise ValueError("the certificate was not presented in a handshake")
    return _validity(shown)


def _validity(certificate: Any) -> Validity:
    begins, ends = certificate["notBefore"], certificate["notAfter"]
    return Validity(float(ssl.cert_time_to_seconds(begins)), float(ssl.cert_time_to_seconds(ends)))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.strerror or str(error)
