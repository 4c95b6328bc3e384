"""Check who sends a request: bearer tokens, compared in constant time and rotated without a restart, and websites.

Without a token, a website could send too, through the browser of a visitor who has access: from its own address, or
under its own name pointed at this port (DNS rebinding).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, model_validator

from monitor.clock import Clock
from monitor.errors import ConfigError, Unauthenticated
from monitor.telemetry.events import Events
from monitor.transport.http import files

_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_SCHEME = "bearer "
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_PRIVATE: Final = (".localhost", ".internal", ".svc", ".cluster.local")
"""Suffixes of names that no website can have: they are not in the public DNS."""


class Auth(BaseModel):
    """Tokens that clients send as `Authorization: Bearer TOKEN` (gRPC: metadata `authorization`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr | None = None
    """The token. Use `${NAME}` to read it from an environment variable. Set either this or `token_file`."""

    token_file: Path | None = None
    """File with one valid token per line, read again when it changes. A line may instead contain `sha256:` and the
    hexadecimal SHA-256 of a token. Empty lines and lines starting with `#` are ignored."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.token is None) == (self.token_file is None):
            raise ValueError("set exactly one of `token` and `token_file`")
        if self.token is not None and not self.token.get_secret_value().strip():
            raise ValueError("`token` is empty")
        return self

    def gate(self, clock: Clock, events: Events) -> Gate:
        """Return the check. Raises `ConfigError` if the token file cannot be read or contains no token."""
        if self.token_file is None:
            assert self.token is not None  # noqa: S101 - ensured by the validator
            digests = _digests([self.token.get_secret_value()])
            return Gate(lambda: digests)
        path = self.token_file
        return Gate(files.Reloaded([path], lambda: _read(path), clock, events))


class Gate:
    """Lets a request pass or raises `Unauthenticated`."""

    def __init__(self, digests: Callable[[], tuple[bytes, ...]]) -> None:
        self._digests = digests

    def __call__(self, authorization: str | None) -> None:
        """Check the value of the `authorization` header.

        A wrong token is `UNAUTHENTICATED`, like a missing one: permission errors are for known senders only.
        """
        if authorization is None:
            raise Unauthenticated("a bearer token is required", 'Bearer realm="rag-monitor"')
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise Unauthenticated("the authorization scheme must be Bearer", 'Bearer realm="rag-monitor"')
        shown = hashlib.sha256(authorization[len(_SCHEME) :].strip().encode()).digest()
        # All tokens are compared even after a match, and hashing hides their lengths.
        fitting = [hmac.compare_digest(shown, digest) for digest in self._digests()]
        if not any(fitting):
            raise Unauthenticated("the token is not valid", 'Bearer realm="rag-monitor", error="invalid_token"')


def _host_name(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError(f"{name!r} is not a host name such as `rag-monitor.example.com`: no port, no `*`")
    return name.rstrip(".").lower()


HostName = Annotated[str, AfterValidator(_host_name)]


def is_named(host: str, names: Collection[str]) -> bool:
    """Return whether a `host` header is an address, a name that no website can have, or one of `names` (lower case)."""
    name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.split(":", 1)[0]
    name = name.rstrip(".").lower()
    if "." not in name and ":" not in name:
        return True
    if name in names or name.endswith(_PRIVATE):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class WebsiteGuard:
    """Refuses requests without a token that a website may have sent.

    `names` are host names of this port besides its addresses. `origins` are the origins of pages that may send. With
    `any_host`, programs may use any name for this port: they are recognised because they send neither `Origin` nor
    `Sec-Fetch-Site`, while browsers send one of them with each POST.
    """

    def __init__(self, names: Collection[str], origins: Collection[str] = (), *, any_host: bool = False) -> None:
        self._names = frozenset(names)
        self._origins = frozenset(origins)
        self._any_host = any_host

    def why_refused(self, host: str, origin: str | None, site: str | None) -> str:
        """Return the reason for a refusal, empty if there is none. Takes three headers; a missing one is None."""
        is_program = origin is None and site is None
        if not (is_program and self._any_host) and not is_named(host, self._names):
            return f"the host name {host[:100]!r} may be a website's: connect by address, or add it to `hosts`"
        if is_program or "*" in self._origins or origin in self._origins:
            return ""
        if site is not None and site != "same-origin":
            return "the request comes from another website: add its origin to `cors_origins` if it may send"
        if origin is not None and not _is_of(origin, host):
            return f"the origin {origin[:100]!r} may not send: add it to `cors_origins`"
        return ""


def _is_of(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def open_gate(authorization: str | None) -> None:
    """Accept every request: the gate of a receiver that requires no token."""


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = files.read(path, "the token file").decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"the token file {str(path)!r} is not UTF-8") from None
    digests = _digests(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not digests:
        raise ConfigError(f"the token file {str(path)!r} contains no token")
    return digests


def _digests(tokens: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(
        bytes.fromhex(hashed[1]) if (hashed := _HASHED.fullmatch(token)) else hashlib.sha256(token.encode()).digest()
        for token in tokens
    )
