"""Which addresses alerts may be sent to. They come from the configuration only, so this guards against slips."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})


def receiver_url(url: str) -> str:
    """`url`, if alerts may be posted to it. Raises `ValueError`; what a name resolves to is not looked at."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("an address must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise ValueError("an address must hold no user and password; use `token`")
    if parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("an address must be plain ASCII without spaces and without `#`")
    _ = parts.port  # raises where it is not a port
    try:
        ip: ipaddress.IPv4Address | ipaddress.IPv6Address | None = ipaddress.ip_address(host)
    except ValueError:
        ip = None
        if re.fullmatch(r"\d+|0x[0-9a-f]*", host.rsplit(".", 1)[-1]):
            raise ValueError("an IPv4 address must be written as four decimal numbers") from None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if host in _METADATA_HOSTS or (ip is not None and (ip.is_link_local or ip.is_multicast or ip.is_unspecified)):
        raise ValueError("link-local, multicast and cloud metadata addresses are not receivers")
    return url
