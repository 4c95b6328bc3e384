"""What is posted to the page: only from the page itself, or by a program that says what it sends; never by a website.

A website that somebody visits can make their browser post a form here, with their token. It can neither hide where the
form stands (`Sec-Fetch-Site`, `Origin`) nor read the token of the forms of this page; and before it may send JSON the
browser asks here whether it may, which nobody answers.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_FIELDS: Final = ("case", "evaluator", "times", "token")
MOST_TIMES: Final = 5


class RefusedError(Exception):
    """It is not taken. The message says why, and what would be; `headers` go along with it."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Wanted(BaseModel):
    """A try that is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    trace_id: Annotated[str, Field(min_length=1, max_length=512)]
    """The id of the trace, or of the row that brought the case; its texts must be kept."""
    evaluator: Annotated[str, Field(min_length=1, max_length=256)]
    """The name of an evaluator that is at work."""
    times: Annotated[int, Field(ge=1, le=MOST_TIMES)]
    """How often it is asked, past every cache."""


class Posted(NamedTuple):
    """What was asked for, and in which form the answer is awaited."""

    wanted: Wanted
    kind: Literal["form", "json"]


class Door:
    """Lets in what may be posted. `names` are those of the page, beside its addresses."""

    def __init__(self, names: Collection[str]) -> None:
        self.token = secrets.token_urlsafe(24)
        """That of the forms of this process."""
        self._names = {name.lower() for name in names}

    def admit(self, headers: Mapping[str, str], body: bytes, *, json: bool) -> Wanted:
        """What is asked for, as JSON or by a form. Raises `RefusedError`."""
        self._look_at_origin(headers)
        kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        allowed = _JSON if json else _FORM
        if kind != allowed:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"content-type: {kind!r:.80} is not {allowed}")
        return _read_json(body) if json else self._read_form(body)

    def _look_at_origin(self, headers: Mapping[str, str]) -> None:
        """A program sends neither header, every browser at least one."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            known = site == "same-origin"
        elif origin is not None:
            known = self._is_own(origin, headers.get("host", ""))
        else:
            known = True
        if not known:
            message = "this was sent by another website; where the page has a name of its own, ui.url must say it"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return False
        return parts.netloc.lower() == host.lower() or parts.hostname in self._names

    def _read_form(self, body: bytes) -> Wanted:
        try:
            pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict")
        except ValueError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "this is no form that can be read") from None
        found = dict(pairs)
        if len(found) != len(pairs) or not found.keys() <= set(_FIELDS):
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"a form has each of {', '.join(_FIELDS)} once, and no other")
        if not hmac.compare_digest(found.pop("token", "").encode(), self.token.encode()):
            message = "the form is not of this page, or from before the monitor was started anew: load the page again"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)
        return _valid({"trace_id" if name == "case" else name: value for name, value in found.items()})


def _read_json(body: bytes) -> Wanted:
    try:
        return Wanted.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, _told(error)) from None


def _valid(fields: Mapping[str, str]) -> Wanted:
    try:
        return Wanted.model_validate(fields)
    except ValidationError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, _told(error)) from None


def _told(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
