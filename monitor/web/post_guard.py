"""Checks what is posted to the UI: forms of its own pages, and JSON from programs; nothing from another website.

A website can make a visitor's browser post a form here, along with the visitor's token. It can neither hide where the
form comes from (`Sec-Fetch-Site`, `Origin`) nor read the token in the forms of these pages. Before a browser sends
JSON to another origin, it asks for permission (CORS), which is never given.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.jobs.trial.queue import MAX_TIMES

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_LONGEST_NOTE: Final = 4_000

T = TypeVar("T", bound=BaseModel)


class RefusedError(Exception):
    """The request is refused; the message says why, and what would be accepted."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class TrialRequest(BaseModel):
    """A trial to start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    trace_id: Annotated[str, Field(min_length=1, max_length=512)]
    """The id of the trace, or of the row that contained the case; its texts must be stored."""
    evaluator: Annotated[str, Field(min_length=1, max_length=256)]
    """The name of a configured evaluator."""
    times: Annotated[int, Field(ge=1, le=MAX_TIMES)]
    """How many times to run it, bypassing caches."""


class NoteRequest(BaseModel):
    """A note on an incident."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    incident: Annotated[str, Field(pattern=r"^[0-9]{8}-[0-9a-f]{8}$")]
    """The id of the incident."""
    text: Annotated[str, Field(min_length=1, max_length=_LONGEST_NOTE)]
    """What to note."""


_FIELDS: Final[Mapping[type[BaseModel], Mapping[str, str]]] = {
    TrialRequest: {"case": "trace_id", "evaluator": "evaluator", "times": "times"},
    NoteRequest: {"incident": "incident", "text": "text"},
}
"""The names of form fields, mapped to those of the model; other forms use the names of the model."""


class PostGuard:
    """Checks what is posted. `names` are the host names of the UI, in addition to its addresses."""

    def __init__(self, names: Collection[str]) -> None:
        self.token = secrets.token_urlsafe(24)
        """Included in the forms that this process renders."""
        self._names = {name.lower() for name in names}

    def admit(self, headers: Mapping[str, str], body: bytes, kind: type[T], *, json: bool) -> T:
        """Return the request of this kind, from JSON or from a form. Raises `RefusedError`."""
        if json:
            self._check(headers, _JSON)
            return _read_json(body, kind)
        given, is_own = self.admit_form(headers, body, kind)
        if not is_own:
            message = "the form is not from this page, or the monitor has restarted since: reload the page"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)
        return given

    def admit_form(self, headers: Mapping[str, str], body: bytes, kind: type[T]) -> tuple[T, bool]:
        """Return the request of a form of this origin, and whether this process rendered the form.

        Raises `RefusedError`. A form that another process rendered may only be shown again.
        """
        self._check(headers, _FORM)
        return self._read_form(body, kind)

    def _check(self, headers: Mapping[str, str], allowed: str) -> None:
        self._check_origin(headers)
        content = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        if content != allowed:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"content-type: {content!r:.80} is not {allowed}")

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse posts of other websites. A program sends neither header, every browser at least one."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            allowed = site == "same-origin"
        elif origin is not None:
            allowed = self._is_own(origin, headers.get("host", ""))
        else:
            allowed = True
        if not allowed:
            message = "the request comes from another website; if the UI has its own host name, set ui.url to it"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return False
        return parts.netloc.lower() == host.lower() or parts.hostname in self._names

    def _read_form(self, body: bytes, kind: type[T]) -> tuple[T, bool]:
        try:
            pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
        except ValueError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "the body is not a valid form") from None
        found = dict(pairs)
        fields = _FIELDS.get(kind) or {name: name for name in kind.model_fields}
        names = {**fields, "token": "token"}
        if len(found) != len(pairs) or not found.keys() <= names.keys():
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"a form has the fields {', '.join(names)}, each once")
        token = found.pop("token", "")
        try:
            given = kind.model_validate({names[name]: text for name, text in found.items()})
        except ValidationError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, _message(error)) from None
        return given, hmac.compare_digest(token.encode(), self.token.encode())


def _read_json(body: bytes, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, _message(error)) from None


def _message(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
