"""Check bearer tokens in constant time, and rotate them without a restart."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from monitor.clock import Clock
from monitor.errors import ConfigError, Unauthenticated
from monitor.telemetry.events import Events
from monitor.transport.http import files

_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_SCHEME = "bearer "


class Auth(BaseModel):
    """Tokens that clients send as `Authorization: Bearer TOKEN` (gRPC: metadata `authorization`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

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
        """Return the check. Raises `ConfigError` where the token file cannot be read or holds no token."""
        if self.token_file is None:
            assert self.token is not None  # noqa: S101 - the validator says so
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

        A wrong token is `UNAUTHENTICATED`, as a missing one is: permissions are only for senders that are known.
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
