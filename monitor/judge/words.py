"""The provider's own words about a failed call, safe to show: one short line, no key, no part of the prompt.

A provider may repeat the key or part of it ("Incorrect API key provided: sk-ab***yz"), and a validation error may
repeat what was sent. Both are removed here, before the words reach a log, a page or a result.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

LONGEST: Final = 240
"""Maximum characters of the provider's words that are shown."""
_READ: Final = 4000  # characters of an error that are looked at
_HIDDEN: Final = "[hidden]"
_PART: Final = 4  # characters at either end of a key that must not be shown
_INNER: Final = 6  # characters anywhere in a key that must not be shown
_SHORTEST_SECRET: Final = 8
_ECHO, _ECHO_STEP = 12, 6  # this many letters and digits in a row that are also in the prompt: it is being repeated

# What litellm and the SDKs put around the words: `litellm.APIError: AzureException APIError - ...`.
_PREFIX: Final = re.compile(
    r"(?:(?:litellm\.)?[A-Za-z_]{1,40}(?:Error|Exception)(?: [A-Za-z ]{1,40})?(?::| -)\s{0,4}){1,6}"
)
_SUFFIX: Final = re.compile(
    r"\.? ?Handle with `litellm\.|(?<!\s)\s*+LiteLLM Retried|\nTraceback |(?<!\s)\s*+Learn more:"
)
_BARE: Final = re.compile(r"Error code: \d{3}(?: - (?:\{\}|None))?")
_MESSAGE: Final = re.compile(r'"(?:message|detail|error)"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.)*)"')
_TAG: Final = re.compile(r"<[^<>]*>")
_OBJECT: Final = re.compile(r"(?:ssl:)?<[\w.]+ object at 0x[0-9a-f]+> ?")
_QUOTED: Final = re.compile(r"([\"'`])([^\"'`]{1,200})\1")
_TOKEN: Final = re.compile(r"[^\s\"'`,;:()<>\[\]{}=&?]+")
_SHAPE: Final = re.compile(
    r"\S*\*{2,}\S*|\w[\w-]*(?:\.{3}|…)[\w-]+|(?:sk|pk|rk|gsk|xai|hf|nvapi|ghp|pplx|r8)[-_][\w-]{6,}"
    r"|AIza[\w-]{10,}|ya29\.[\w-]{10,}|eyJ[\w-]{10,}(?:\.[\w-]+)*|(?:AKIA|ASIA)[A-Z0-9]{12,}|[0-9a-fA-F]{24,}"
    r"|(?=[^\W_]*\d)(?=[^\W_]*[a-z])(?=[^\W_]*[A-Z])[A-Za-z0-9+/]{30,}={0,2}"
)
_NAMED: Final = re.compile(
    r"(\b(?:api[ _-]?key|key|token|bearer|password|secret)\b(?: provided| passed)?\s{0,2}[:= ]\s{0,2}[\"'`]?)"
    r"(?=[^\s\"'`]{0,80}[\d*])([^\s\"'`,;)&]{6,})",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(://)[^\s/@]{1,200}@")
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def own_words(error: BaseException, *, secrets: Iterable[str] = (), prompt: Iterable[str] = ()) -> str:
    """Return the message of the provider, or of its client library; empty if it is of no use.

    `secrets` are removed, also in part. A quote from a text of `prompt` is hidden; if the message repeats more of it,
    the whole message is dropped. At most `LONGEST` characters, one line, no control characters.
    """
    text = _of_body(getattr(error, "body", None)) or _of_text(str(error)[:_READ])
    text = _one_line(text)
    sent = [_plain(one) for one in prompt] if text else []
    text = _QUOTED.sub(lambda quoted: _hide_if_sent(quoted, sent), text)
    if not text or _repeats(text, sent):
        return ""
    text = _without_secrets(text, [one for one in secrets if len(one) >= _PART])
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"


def secrets_of(environment: Mapping[str, str], *given: str | None) -> list[str]:
    """Return what must never be shown: the keys `given`, and the values of variables with names like a key's."""
    named = [
        value for name, value in environment.items() if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name)
    ]
    return [*(one for one in given if one), *named]


def _of_body(body: Any) -> str:
    for _ in range(3):
        if not isinstance(body, Mapping):
            break
        found = next((body[key] for key in ("message", "error", "detail") if body.get(key)), None)
        if isinstance(found, str):
            return found[:_READ]
        body = found
    return ""


def _of_text(text: str) -> str:
    text = _SUFFIX.split(text, maxsplit=1)[0]
    prefix = _PREFIX.match(text)
    text = (text[prefix.end() :] if prefix is not None else text).strip()
    if _BARE.fullmatch(text):
        return ""
    if text.startswith(("{", "[")):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        found = found[0] if isinstance(found, list) and found else found
        message = _MESSAGE.search(text)
        return _of_body(found) or (message[1] if message else "")
    return text


def _one_line(text: str) -> str:
    text = _TAG.sub("\n", _OBJECT.sub("", text))
    lines = (" ".join(_visible(line).split()) for line in text.splitlines())
    return next((line for line in lines if line), "").rstrip(".")


def _visible(text: str) -> str:
    return "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text)


def _without_secrets(text: str, secrets: list[str]) -> str:
    text = _LOGIN.sub(rf"\1{_HIDDEN}@", text)
    for one in secrets:
        if len(one) >= _SHORTEST_SECRET:
            text = text.replace(one, _HIDDEN)
    text = _NAMED.sub(rf"\1{_HIDDEN}", text)
    return _TOKEN.sub(lambda token: _HIDDEN if _is_secret(token[0], secrets) else token[0], text)


def _is_secret(token: str, secrets: list[str]) -> bool:
    if _SHAPE.fullmatch(token):
        return True
    for one in secrets:
        if token == one:
            return True
        if len(one) >= _SHORTEST_SECRET and len(token) >= _PART:
            inner = (one[at : at + _INNER] for at in range(len(one) - _INNER + 1))
            if token in (one[: len(token)], one[-len(token) :]) or any(part in token for part in inner):
                return True
    return False


def _hide_if_sent(quoted: re.Match[str], sent: list[str]) -> str:
    """Hide quoted text that was sent, however short: the words around it may still help."""
    plain = _plain(quoted[2])
    return f"{quoted[1]}{_HIDDEN}{quoted[1]}" if plain and any(plain in one for one in sent) else quoted[0]


def _repeats(text: str, sent: list[str]) -> bool:
    """Return whether the text repeats a run of what was sent, or a whole short message; punctuation is ignored."""
    plain = _plain(text)
    windows = [plain[at : at + _ECHO] for at in range(0, max(len(plain) - _ECHO, 0) + 1, _ECHO_STEP)]
    if any(window in one for one in sent for window in windows if len(window) == _ECHO):
        return True
    return any(_PART <= len(one) <= _ECHO and one in plain for one in sent)


def _plain(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())
