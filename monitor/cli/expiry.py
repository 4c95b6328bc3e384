"""Until when certificates are valid: read out of their DER (RFC 5280), for which the standard library has no way."""

from __future__ import annotations

import datetime as dt
import re
import ssl
from typing import Final

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
_LONG_FORM: Final = 0x80
_BEFORE_VALIDITY: Final = 3  # serial number, signature algorithm, issuer
_CENTURY: Final = 50  # two digits below it are of this century


def validity(pem: bytes) -> list[tuple[float, float]]:
    """For each certificate of a PEM file, its first and last second (wall clock). Raises `ValueError`."""
    return [_validity(ssl.PEM_cert_to_DER_cert(found.decode("ascii"))) for found in _PEM.findall(pem)]


def _validity(der: bytes) -> tuple[float, float]:
    try:
        body = _content(_content(der)[1])[1]
        tag, _, end = _element(body, 0)
        at = end if tag == _VERSION else 0
        for _ in range(_BEFORE_VALIDITY):
            at = _element(body, at)[2]
        _, times, _ = _element(body, at)
        first, start, end = _element(times, 0)
        last, finish, _ = _element(times, end)
    except IndexError:
        raise ValueError("the certificate is cut short") from None
    return _seconds(first, start), _seconds(last, finish)


def _content(der: bytes) -> tuple[int, bytes]:
    tag, content, _ = _element(der, 0)
    if tag != _SEQUENCE:
        raise ValueError("it is no certificate")
    return tag, content


def _element(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag, content, and where the next element begins."""
    tag, size, start = der[at], der[at + 1], at + 2
    if size & _LONG_FORM:
        digits = size & ~_LONG_FORM
        size = int.from_bytes(der[start : start + digits])
        start += digits
    if start + size > len(der):
        raise IndexError
    return tag, der[start : start + size], start + size


def _seconds(tag: int, content: bytes) -> float:
    text = content.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _CENTURY else "19") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC).timestamp()
