"""Checks the URLs that the monitor calls: ordinary web addresses, never those that hand out a machine's credentials.

The URLs come from the configuration, so this guards against mistakes. A host name is not resolved.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(one)
    for one in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)


def check_address(
    url: str, *, use_instead: str = "", allow_query: bool = False, allow_link_local: bool | None = None
) -> None:
    """Refuse a URL that is not plain http(s), carries credentials, or names a link-local or metadata address.

    Other spellings of an IP address (decimal, hexadecimal, short, IPv4 within IPv6) are read as the system's resolver
    reads them.

    Args:
        url: the address to check.
        use_instead: the option that takes credentials, for the message; empty where there is none.
        allow_query: whether a query is allowed, as webhooks often have one.
        allow_link_local: the value of that option; None where it does not exist.

    Raises:
        ValueError: continues a sentence about the URL and repeats only its scheme and host.
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
    if not allow_link_local and _hands_out_credentials(host.rstrip(".").lower()):
        hint = "" if allow_link_local is None else "; set `allow_link_local: true` to permit it"
        raise ValueError(f"has the host {host!r}, a link-local or metadata address{hint}")


def check_receiver(url: str, *, use_instead: str = "", allow_query: bool = False) -> None:
    """Refuse a URL that nothing may be sent to: as `check_address`, and anything but plain ASCII without spaces.

    Raises `ValueError`, which continues a sentence about the URL.
    """
    check_address(url, use_instead=use_instead, allow_query=allow_query)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be plain ASCII without spaces")


def webhook_url(url: str) -> str:
    """`url`, if alerts may be posted to it. Raises `ValueError`."""
    try:
        check_receiver(url, use_instead="token", allow_query=True)
    except ValueError as error:
        raise ValueError(f"the address {error}") from None
    address = _address(urlsplit(url).hostname or "")
    if address is not None and address.is_unspecified:
        raise ValueError("the address has no host: 0.0.0.0 and [::] are only for listening")
    return url


def _hands_out_credentials(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host in _METADATA_NAMES
    return address.is_link_local or address.is_multicast or address in _METADATA_ADDRESSES


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))  # 2852039166, 0xa9fea9fe, 169.254.43518
        except OSError:
            return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address
