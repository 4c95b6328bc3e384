"""What a running monitor says on its metrics port, for the commands that look at one from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from monitor.errors import ConfigError, MonitorError

DEFAULT_URL: Final = "http://127.0.0.1:9464"
TOKEN_VARIABLE: Final = "RAG_MONITOR_TOKEN"  # noqa: S105 - its name

_SECONDS: Final = 5.0
_MOST: Final = 64 * 1024 * 1024  # bytes of an answer
_LINE: Final = 1024  # bytes of an answer that is shown
_UNAUTHORIZED = 401


class Samples(NamedTuple):
    """One scrape: the samples by name, each with its labels."""

    by_name: Mapping[str, list[tuple[Mapping[str, str], float]]]

    def of(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        """The samples of one name; none where the monitor has no such series."""
        return self.by_name.get(name, [])

    def total(self, name: str, **labels: str) -> float:
        """Their sum, of those that carry `labels`."""
        return sum(value for at, value in self.of(name) if labels.items() <= at.items())


class Port:
    """The metrics port of a monitor. Asks directly: through no proxy, and redirects are not followed.

    Raises `ConfigError` for an address, a token or a file that can never work.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        given = url if "://" in url else f"http://{url}"
        parts = urlsplit(given)
        try:
            named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            named = False
        if not named or "@" in parts.netloc or parts.query or parts.fragment or not (given.isascii() and _plain(given)):
            raise ConfigError(f"--url: {url!r} is not an address such as {DEFAULT_URL}")
        if not (token.isascii() and _plain(token)):
            raise ConfigError("--token: is not plain ASCII without spaces")
        self.base = given.rstrip("/").removesuffix("/metrics").rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=ca_file)
            except (ssl.SSLError, OSError) as error:
                raise ConfigError(f"--ca-file: {str(ca_file)!r} holds no certificate: {error}") from None
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def samples(self, names: Collection[str]) -> Samples:
        """The samples called `names`. Raises `MonitorError` that says in words why there are none."""
        status, body = self._get("/metrics")
        if status == _UNAUTHORIZED:
            told = "the token is not accepted" if self._headers else "a token is needed"
            raise Refused(f"{self.base}: {told}: give it by --token-file or the variable {TOKEN_VARIABLE}")
        text = body.decode("utf-8", "replace")
        if status != http.client.OK or "ragmonitor_build_info" not in text:
            raise Refused(f"{self.base}/metrics: answers with {status}, but not with the metrics of a monitor")
        found: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        try:
            for family in text_string_to_metric_families("".join(_lines(text, names))):
                for sample in family.samples:
                    found[sample.name].append((sample.labels, sample.value))
        except ValueError as error:
            raise Refused(f"{self.base}/metrics: cannot be read: {error}") from None
        return Samples(found)

    def document(self, path: str) -> dict[str, Any] | None:
        """The JSON object at `path`; None where there is none. Raises `MonitorError` where nobody answers."""
        status, body = self._get(path)
        if status != http.client.OK:
            return None
        try:
            found = json.loads(body)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def says(self, path: str) -> tuple[int, str]:
        """Status and text at `path`, one line. Raises `MonitorError` where nobody answers."""
        status, body = self._get(path)
        line = " ".join(body[:_LINE].decode("utf-8", "replace").split())
        return status, "".join(one if one.isprintable() else "?" for one in line)

    def _get(self, path: str) -> tuple[int, bytes]:
        request = urllib.request.Request(self.base + path, headers=self._headers)  # noqa: S310 - the scheme is checked
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return answer.status, answer.read(_MOST)
        except urllib.error.HTTPError as error:
            with error, contextlib.suppress(OSError, http.client.HTTPException):
                return error.code, error.read(_LINE)
            return error.code, b""
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise MonitorError(f"{self.base}: no monitor answers: {_why(error)}") from None


class Refused(MonitorError):  # noqa: N818 - it says what happened
    """Somebody answers, but it makes no sense to ask again."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes where the user has said."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def token_of(token: str | None, token_file: Path | None) -> str:
    """The token as given: in a variable or an option, or as the first line of a file. Raises `ConfigError`."""
    if token_file is None:
        return (token or "").strip()
    try:
        lines = token_file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"--token-file: {token_file} cannot be read: {error}") from None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")


def _lines(text: str, names: Collection[str]) -> Iterator[str]:
    """The lines of the samples called `names`: parsing all takes long where there are many apps."""
    for line in text.splitlines(keepends=True):
        if line.partition("{")[0].partition(" ")[0] in names:
            yield line


def _plain(text: str) -> bool:
    return text.isprintable() and " " not in text


def _why(error: Exception) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return f"nothing within {_SECONDS:g} s"
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__
