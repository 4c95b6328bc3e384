"""What `rag-monitor doctor` looks at on this machine and at its doors: disk, ports, certificates, tokens, addresses."""

from __future__ import annotations

import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from monitor.cli.expiry import validity
from monitor.cli.findings import Finding, failed, ok, warning
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.serving.listener import Listener, bind, in_words
from monitor.stages import type_name
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

_DAY: Final = 86_400.0
_SOON: Final = 14 * _DAY
_HISTORY: Final = 1024**3  # what the history may take beside the spool
_PATIENCE: Final = 3.0  # seconds, for a connection


def local(config: Config, clock: Clock) -> Iterator[Finding]:
    """All of it, without spending anything."""
    yield storage(config)
    parts = list(placed(config))
    running = _monitor_answers(config)
    for place, part in parts:
        if isinstance(part, Listener):
            yield _port(place, part, running=running)
        yield from _tls(place, getattr(part, "tls", None), clock)
        yield from _tokens(place, getattr(part, "auth", None))
        url = getattr(part, "url", None) or getattr(part, "endpoint", None)
        if isinstance(url, str):
            yield _address(place, url)


def placed(config: Config) -> Iterator[tuple[str, Any]]:
    """Everything that listens or sends, with its place in the configuration."""
    for kind, parts in (("sources", config.sources), ("sinks", config.sinks), ("notify", config.notify)):
        for number, part in enumerate(parts):
            name = type(part).__name__.lower() if kind == "notify" else type_name(part)
            yield f"{kind}[{number}] {name}", part
    yield "telemetry", config.telemetry


def storage(config: Config) -> Finding:
    """Whether the folder can be written, and has room for what it may hold."""
    path = config.storage.path
    there = next(one for one in (path, *path.parents) if one.exists())
    mend = "give `storage.path` a folder that this user may write"
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"probe")
        free = shutil.disk_usage(there).free
    except OSError as error:
        return failed("storage", f"{there} cannot be written: {error.strerror}", mend)
    used = sum(one.stat().st_size for one in path.glob("*.db*")) if path.is_dir() else 0
    wanted = max(config.storage.max_size + _HISTORY - used, 0)
    if free < wanted:
        return warning(
            "storage",
            f"{path} has {_mib(free)} free, and the spool and the history may come to take {_mib(wanted)} more",
            "make room, or lower `storage.max_size`",
        )
    return ok("storage", f"{path} can be written and has {_mib(free)} free")


def _mib(size: float) -> str:
    return f"{size / 1024**2:,.0f} MiB"


def _monitor_answers(config: Config) -> bool:
    """Whether a monitor serves the port that this configuration gives to the sink `prometheus`."""
    for sink in config.sinks:
        if type_name(sink) == "prometheus" and isinstance(sink, Listener) and sink.port:
            scheme = "https" if sink.tls is not None else "http"
            url = f"{scheme}://{in_words(_reachable(sink.host), sink.port)}/-/nothing"
            return _is_ours(url) if sink.tls is None else connects(_reachable(sink.host), sink.port)
    return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where a server on all of them is found


def _is_ours(url: str) -> bool:
    """Only a monitor answers so: its own words for what is not there, or its own realm."""
    try:
        urllib.request.urlopen(url, timeout=_PATIENCE).close()  # noqa: S310 - made by the line above
    except urllib.error.HTTPError as error:
        with error:
            told = error.read(1000).decode("utf-8", "replace") + str(error.headers.get("www-authenticate", ""))
        return "rag-monitor" in told
    except (OSError, ValueError):
        return False
    return False


def _port(place: str, part: Listener, *, running: bool) -> Finding:
    where = in_words(part.host, part.port)
    if part.port == 0:
        return ok(place, f"takes any free port on {part.host}")
    try:
        bind(part.host, part.port).close()
    except ConfigError as error:
        if running and connects(_reachable(part.host), part.port):
            return ok(place, f"{where} is in use, and a monitor with these ports is running")
        mend = "end what listens there, or give another `port`"
        if "is not an address" in str(error):
            mend = "give `host` an address of this machine"
        elif "ermission" in str(error):
            mend = "give a `port` above 1023, or the right to take this one"
        return failed(place, str(error), mend)
    return ok(place, f"{where} is free")


def connects(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError:
        return False
    return True


def _tls(place: str, tls: Any, clock: Clock) -> Iterator[Finding]:
    """The files of a section `tls`, whatever it is of, and until when their certificates are valid."""
    if tls is None:
        return
    if hasattr(tls, "context"):
        try:
            tls.context()
        except ConfigError as error:
            yield failed(f"{place} tls", str(error), "put a certificate and its key there, readable by this user")
            return
    for option in ("cert_file", "ca_file", "client_ca_file"):
        path = getattr(tls, option, None)
        if path is not None:
            yield certificate(f"{place} tls", option, path, clock.now())


def certificate(place: str, option: str, path: Path, now: float) -> Finding:
    """Until when all certificates of a file are valid."""
    mend = f"put a valid certificate at {path}"
    try:
        found = validity(path.read_bytes())
    except (OSError, ValueError) as error:
        return failed(place, f"{option}: {path} cannot be read: {error}", mend)
    if not found:
        return failed(place, f"{option}: {path} holds no certificate", mend)
    begins, ends = max(first for first, _ in found), min(last for _, last in found)
    days = (ends - now) / _DAY
    if days < 0:
        return failed(place, f"{option}: {path} expired {-days:.0f} days ago", mend)
    if begins > now:
        return failed(place, f"{option}: {path} is not valid yet", f"{mend}; or set this machine's clock")
    if days * _DAY < _SOON:
        return warning(place, f"{option}: {path} expires in {days:.0f} days", mend)
    return ok(place, f"{option}: {path} is valid for {days:.0f} days")


def _tokens(place: str, auth: Any) -> Iterator[Finding]:
    if auth is None:
        return
    try:
        auth.gate(SystemClock(), Events(Metrics()))
    except ConfigError as error:
        yield failed(f"{place} auth", str(error), "put a token there, one a line, readable by this user")
    else:
        yield ok(f"{place} auth", "the tokens can be read")


def _address(place: str, url: str) -> Finding:
    """Whether somebody listens there. Nothing is sent: a key is tried with the first result."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    where = in_words(parts.hostname or "", port)
    try:
        socket.create_connection((parts.hostname or "", port), _PATIENCE).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        return failed(place, f"{where} cannot be reached: {why}", "is the address right, and does the service run?")
    return ok(place, f"{where} can be reached; nothing was sent, so a key is not tried")
