"""Secrets in the configuration: kept out of every message, and found if they are written into a readable file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from monitor.errors.explanation import SECRETS

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHOWN: Final = "[hidden]"
_SHORTEST: Final = 4
"""The fewest characters of a value worth hiding: shorter values occur inside other words."""
_CUT: Final = 24
"""Messages cut long values, so text that begins with this many characters of a secret is hidden too."""
_SECRET: Final = frozenset({"api_key", "secret_key", "token", "password", "key_password", "urls", "headers"})
_WORD: Final = re.compile(r"^[^\s'\"]*")
_LOGIN: Final = re.compile(r"([\w.+-]{1,200}:)[^\s/@'\"]{1,500}@")
# Keys of well-known providers, JSON Web Tokens, and long words of mixed characters.
_SHAPE: Final = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|nvapi|ghp|gho|glpat|pplx|r8|xox[a-z])[-_][\w-]{6,}|AIza[\w-]{10,}|eyJ[\w-]{10,}(?:\.[\w-]+)*"
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|[0-9a-fA-F]{32,}|(?=[^\W_]{0,99}\d)(?=[^\W_]{0,99}[a-z])(?=[^\W_]{0,99}[A-Z])[A-Za-z0-9+]{24,}={0,2})"
)


def without_secrets(message: str, data: object) -> str:
    """Return an error message without the secrets in `data`, the configuration as written.

    Secrets are the values of environment variables, the values of secret options, passwords in addresses, and texts
    that look like a key.
    """
    for value, shown in sorted(_values(data), key=lambda one: -len(one[0])):
        if len(value) >= _SHORTEST:
            message = message.replace(value, shown)
        if len(value) > _CUT:
            first, *cut = message.split(value[:_CUT])
            message = shown.join((first, *(_WORD.sub("", rest) for rest in cut)))
    return hide(message)


def hide(text: str) -> str:
    """Return `text` without passwords in addresses and without texts that look like a key."""
    return _SHAPE.sub(_SHOWN, _LOGIN.sub(rf"\1{_SHOWN}@", text))


def _values(data: object, *, secret: bool = False) -> Iterator[tuple[str, str]]:
    """Yield every text that must not be shown, and the text to show instead."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _values(value, secret=secret or key in SECRETS)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _values(value, secret=secret)
    elif isinstance(data, str):
        for name in VARIABLE.findall(data):
            found = os.environ.get(name, "")
            if found and not _is_word(found):
                yield found, f"${{{name}}}"
        if secret and not VARIABLE.search(data) and "://" not in data:
            yield data, _SHOWN


def _is_word(value: str) -> bool:
    """Return whether a variable's value is like a level or a number; hiding it would hide parts of other words."""
    return len(value) < _SHORTEST or (value.isalpha() and value.islower() and len(value) <= 8) or value.isdigit()  # noqa: PLR2004


def literal_secrets(path: Path, data: object) -> Iterator[str]:
    """Yield a warning for each secret written literally in `data`, the content of a file that others can read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        for place in _literal(data, ""):
            yield (
                f"{place} is written in {path}, which other users can read (mode {mode:04o}): use an environment"
                f" variable, `${{NAME}}`, or a separate file; or run `chmod 600 {path}`"
            )


def _literal(data: object, place: str, *, secret: bool = False) -> Iterator[str]:
    if isinstance(data, Mapping):
        kind = data.get("type")
        for key, value in data.items():
            also = key in _SECRET or (key == "url" and kind == "slack")
            yield from _literal(value, f"{place}.{key}" if place else str(key), secret=secret or also)
    elif isinstance(data, (list, tuple)):
        for index, value in enumerate(data):
            yield from _literal(value, f"{place}[{index}]", secret=secret)
    elif secret and isinstance(data, str) and data.strip() and not VARIABLE.search(data):
        yield place
