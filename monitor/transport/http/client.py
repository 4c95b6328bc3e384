"""Check the addresses that the monitor sends to, set up TLS for clients, and send requests with a blocking client.

Addresses come from the configuration, so the checks guard against mistakes: they allow ordinary web addresses, but
never an address that hands out a machine's credentials. When a host name is called, the resolved addresses are checked
against the same list (`pinned.py`).
"""

from __future__ import annotations

import ipaddress
import math
import socket
import ssl
import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from monitor.errors import ConfigError, MonitorError
from monitor.stages import Component
from monitor.transport.http import files
from monitor.transport.http.tls import load_chain

_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_METADATA: Final = tuple(
    ipaddress.ip_network(one)
    for one in ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128")
)
_NAT64: Final = tuple(ipaddress.IPv6Network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48"))


def check_address(
    url: str, *, use_instead: str = "", allow_query: bool = False, allow_link_local: bool | None = None
) -> None:
    """Refuse a URL that is not plain http(s), carries credentials, or names a link-local or metadata address.

    Other spellings of an IP address (decimal, hexadecimal, short, IPv4 within IPv6) are read as the system's resolver
    reads them. `use_instead` names the option for credentials, for the message. Webhooks set `allow_query`.
    `allow_link_local` is the value of that option; None if there is no such option. Raises `ValueError`, whose message
    continues a sentence about the URL and repeats only its scheme and host.
    """
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"has the scheme {parts.scheme!r}; allowed: http, https")
    if not host:
        raise ValueError("has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains credentials" + (f"; use `{use_instead}`" if use_instead else ""))
    if parts.fragment or (parts.query and not allow_query):
        what = "a fragment (`#`)" if allow_query else "a query or a fragment; give only the address of the API"
        raise ValueError(f"contains {what}")
    address = _address(host)
    if address is not None and address.is_unspecified:
        raise ValueError("has no host: 0.0.0.0 and [::] are only for listening; use 127.0.0.1 for this machine")
    if not allow_link_local and _hands_out_credentials(host):
        hint = "" if allow_link_local is None else "; set `allow_link_local: true` to permit it"
        raise ValueError(f"has the host {host!r}, a link-local or metadata address{hint}")


def check_receiver(url: str, *, use_instead: str = "", allow_query: bool = False) -> None:
    """Refuse a URL as `check_address` does, and any that is not plain ASCII without spaces.

    Raises `ValueError`, whose message continues a sentence about the URL.
    """
    check_address(url, use_instead=use_instead, allow_query=allow_query)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be plain ASCII without spaces")


def webhook_url(url: str) -> str:
    """Return `url` if alerts may be posted to it. Raises `ValueError`."""
    try:
        check_receiver(url, use_instead="token", allow_query=True)
    except ValueError as error:
        raise ValueError(f"the address {error}") from None
    return url


def retry_after(said: str, now: float) -> float:
    """Return the seconds that a header `Retry-After` asks for, in either of its forms; 0 where it is no such thing.

    `now` is in wall-clock seconds, for a date.
    """
    try:
        seconds = float(said)
    except ValueError:
        try:
            at = parsedate_to_datetime(said)
        except (ValueError, OverflowError):  # a day or a year of many digits
            return 0.0
        seconds = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() - now
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def hands_out_credentials(url: str) -> bool:
    """Return whether the host of a URL of any scheme is a link-local or metadata address. It is not resolved."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return _hands_out_credentials(host)


class RefusedAddressError(OSError):
    """A host name resolves to an address that hands out credentials: no connection was made."""


def is_metadata_address(address: str) -> bool:
    """Return whether an IP address, as a resolver returns it, is a link-local, multicast or metadata address."""
    found = _address(address)
    return found is not None and _is_metadata(found)


def checked_addresses(host: str) -> tuple[str, ...]:
    """Return the IP addresses of `host`, in the resolver's order; empty if it does not resolve. Blocks.

    Raises `RefusedAddressError` if one of them is a link-local or metadata address.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()  # connecting fails and reports it
    addresses = tuple(dict.fromkeys(str(one[4][0]) for one in found))
    if any(map(is_metadata_address, addresses)):
        raise RefusedAddressError(f"the host name {host} leads to a link-local or metadata address")
    return addresses


_guarded: Final = threading.local()


@contextmanager
def checked_connections() -> Iterator[None]:
    """Refuse connections of this thread to link-local and metadata addresses, whichever library makes them.

    The check applies to the address passed to the socket, after any name resolution. It does not cover threads that a
    library starts, or connections made without Python's sockets, as gRPC does.
    """
    _watch_connections()
    before = getattr(_guarded, "on", False)
    _guarded.on = True
    try:
        yield
    finally:
        _guarded.on = before


@cache
def _watch_connections() -> None:
    """Install the hook that checks each connection before it is made; once per process, as it cannot be removed."""
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto") or not getattr(_guarded, "on", False):
        return
    address = args[1]
    if not isinstance(address, tuple) or not address:
        return  # a socket of this machine
    host = str(address[0])
    if is_metadata_address(host):
        raise RefusedAddressError(f"{host} is a link-local or metadata address")
    if _address(host) is None:
        checked_addresses(host)


def _hands_out_credentials(host: str) -> bool:
    address = _address(host)
    return _plain(host) in _METADATA_NAMES if address is None else _is_metadata(address)


def _is_metadata(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_link_local or address.is_multicast or any(address in network for network in _METADATA)


def _plain(host: str) -> str:
    """Normalise a host as resolvers do: full-width digits and dots become plain ones, and a final dot is removed."""
    return unicodedata.normalize("NFKC", host).replace("\N{IDEOGRAPHIC FULL STOP}", ".").rstrip(".").lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    host = _plain(host)
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))  # 2852039166, 0xa9fea9fe, 169.254.43518
        except OSError:
            return None
    return _within(address) if isinstance(address, ipaddress.IPv6Address) else address


def _within(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address embedded in an IPv6 address, else the address itself."""
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _NAT64):
        return last
    if int(address) >> 32 == 0 and int(address) > 1:  # IPv4-compatible, which `::` and `::1` are not
        return last
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo is not None else address)


_MAX_BYTES: Final = 64 * 1024 * 1024


def receiver_address(url: str) -> str:
    """Return `url` if results may be sent there. Raises `ValueError`. Host names are not resolved."""
    try:
        check_receiver(url)
    except ValueError as error:
        raise ValueError(f"the address {error}") from None
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(receiver_address), Field(examples=["http://127.0.0.1:8080"])]


class ClientTls(Component):
    """TLS options of a client: how it verifies the server and identifies itself. Files are read at start."""

    ca_file: Path | None = None
    """CA bundle (PEM) to verify the server. Default: the system's."""

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
        if self.ca_file is not None:
            files.read(self.ca_file, "the authority")
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{str(self.ca_file)!r} contains no certificate: {error}") from None
        if self.cert_file is not None and self.key_file is not None:
            load_chain(context, self.cert_file, self.key_file)
        return context


class FetchedResponse(NamedTuple):
    """An HTTP response: its status, its headers, and as much of its body as was allowed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")


class HttpClient:
    """Sends requests to one server, bounded in time and size. Uses no proxy, no `.netrc`, a new connection per request.

    Args:
        url: the address that paths are appended to, without a trailing slash.
        token: sent as `Authorization: Bearer TOKEN`, to this server only.
        ca_file: CA certificates (PEM) to verify the server; by default the system's.
        timeout: seconds to connect, and seconds between two parts of the response.
        follow_redirects: whether to follow redirects. The token is not sent to another server.

    Raises:
        ConfigError: the token is not a single word, or `ca_file` is set and cannot be read or `url` is not https.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ca_file: Path | None = None,
        timeout: float = 5.0,
        follow_redirects: bool = False,
    ) -> None:
        secure = urlsplit(url).scheme == "https"
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ConfigError("token: must be one word of plain ASCII")
        if ca_file is not None and not secure:
            raise ConfigError("ca_file: needs an address that begins with https://")
        try:
            self._tls = ClientTls(ca_file=ca_file).context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        except ConfigError as error:
            raise ConfigError(f"ca_file: {error}") from None
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._follow_redirects = follow_redirects

    def send(
        self, path: str, form: Mapping[str, str] | None = None, *, document: Mapping[str, Any] | None = None
    ) -> FetchedResponse:
        """Send a GET request, or a POST request with a form or a JSON document.

        Raises `MonitorError`, with the reason, if there is no response. The body is cut at 64 MiB.
        """
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most commands send nothing

        body = bytearray()
        direct = httpx.Client(
            verify=self._tls, trust_env=False, timeout=self._timeout, follow_redirects=self._follow_redirects
        )
        method, url = ("GET" if form is None and document is None else "POST"), self.url + path
        try:
            with (
                direct as client,
                client.stream(method, url, data=form, json=document, headers=self._headers) as response,
            ):
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) >= _MAX_BYTES:
                        break
        except httpx.TimeoutException:
            raise MonitorError(f"no response within {self._timeout:g} s") from None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise MonitorError(_reason(error)) from None
        return FetchedResponse(response.status_code, response.headers, bytes(body[:_MAX_BYTES]))


def _reason(error: BaseException) -> str:
    """Return the operating system's error if that is the cause, else the library's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
