"""Which addresses the monitor may call: ordinary web addresses, not those that hand out a machine's credentials."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(one)
    for one in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)


def check_address(url: str, *, allow_link_local: bool = False) -> None:
    """Refuse a URL that is not plain http(s), carries credentials, or names a link-local or metadata address.

    Spellings of an address (decimal, hexadecimal, short, IPv4 within IPv6) are read as the system's resolver would. A
    name is not looked up. Raises `ValueError`, with a message that repeats nothing of the URL but its scheme and host.
    """
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"has the scheme {parts.scheme!r}; allowed: http, https")
    if not host:
        raise ValueError("names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("carries credentials; use `api_key`")
    if parts.query or parts.fragment:
        raise ValueError("carries a query or a fragment; give the address of the API only")
    if not allow_link_local and _hands_out_credentials(host.rstrip(".").lower()):
        raise ValueError(f"names {host!r}, a link-local or metadata address; `allow_link_local: true` permits it")


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
