"""Reads a running monitor from outside: its metrics, its health and its JSON API, on its metrics port."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from monitor.errors import ConfigError, MonitorError
from monitor.transport.http.client import FetchedResponse, HttpClient

DEFAULT_URL: Final = "http://127.0.0.1:9464"
TOKEN_VARIABLE: Final = "RAG_MONITOR_TOKEN"  # noqa: S105 - its name

_LINE: Final = 1024  # characters of a text that are shown


class Samples(NamedTuple):
    """One scrape: the samples by name, each with its labels."""

    by_name: Mapping[str, list[tuple[Mapping[str, str], float]]]

    def of(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        """Return the samples of one name; an empty list if the monitor has no such series."""
        return self.by_name.get(name, [])

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels."""
        return sum(value for at, value in self.of(name) if labels.items() <= at.items())


class ServerRefused(MonitorError):  # noqa: N818 - it says what happened
    """The server responds, but a retry would not help: wrong token, or not a monitor."""


class MonitorClient:
    """The metrics port of a monitor. Connects directly, without a proxy, and follows no redirects.

    `url` is an address such as `http://127.0.0.1:9464`; `http://` and the path `/metrics` are optional. `token` and
    `ca_file` as in `HttpClient`. Raises `ConfigError` if the address, the token or the file cannot work.
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: str = "", ca_file: Path | None = None) -> None:
        given = url if "://" in url else f"http://{url}"
        parts = urlsplit(given)
        try:
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        one_word = given.isascii() and given.isprintable() and " " not in given
        if not valid or "@" in parts.netloc or parts.query or parts.fragment or not one_word:
            raise ConfigError(f"url: {url!r} is not an address such as {DEFAULT_URL}")
        self._has_token = bool(token)
        self._client = HttpClient(given.rstrip("/").removesuffix("/metrics").rstrip("/"), token=token, ca_file=ca_file)

    @property
    def url(self) -> str:
        """The address that paths are appended to."""
        return self._client.url

    def samples(self, names: Collection[str]) -> Samples:
        """Return the samples called `names`. Raises `MonitorError` that says why there are none."""
        reply = self._get("/metrics")
        if reply.status == HTTPStatus.UNAUTHORIZED:
            problem = "the token is not accepted" if self._has_token else "a token is needed"
            raise ServerRefused(f"{self.url}: {problem}: use --token-file or the variable {TOKEN_VARIABLE}")
        text = reply.text
        if reply.status != HTTPStatus.OK or "ragmonitor_build_info" not in text:
            raise ServerRefused(
                f"{self.url}/metrics: responds with {reply.status}, but not with the metrics of a monitor"
            )
        found: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        try:
            for family in text_string_to_metric_families("".join(_lines(text, names))):
                for sample in family.samples:
                    found[sample.name].append((sample.labels, sample.value))
        except ValueError as error:
            raise ServerRefused(f"{self.url}/metrics: cannot be parsed: {error}") from None
        return Samples(found)

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the JSON object at `path`; None if there is none. Raises `MonitorError` without a response."""
        reply = self._get(path)
        if reply.status != HTTPStatus.OK:
            return None
        try:
            found = json.loads(reply.body)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def health(self, *, ready: bool = False) -> tuple[bool, str]:
        """Return whether the monitor is healthy, or `ready` for traffic, and what it says about it in one line.

        Raises `MonitorError` without a response.
        """
        reply = self._get("/-/ready" if ready else "/-/healthy")
        line = " ".join(reply.text[:_LINE].split())
        shown = "".join(one if one.isprintable() else "?" for one in line)
        return reply.status == HTTPStatus.OK, shown or f"{self.url}: responds with {reply.status}"

    def is_monitor(self) -> bool:
        """Return whether a rag-monitor responds at this address; it is recognised without a token."""
        try:
            reply = self._get("/-/nothing")
        except MonitorError:
            return False
        said = reply.text[:_LINE] + reply.headers.get("www-authenticate", "")
        return reply.status >= HTTPStatus.BAD_REQUEST and "rag-monitor" in said

    def _get(self, path: str) -> FetchedResponse:
        try:
            return self._client.send(path)
        except MonitorError as error:
            raise MonitorError(f"{self.url}: no monitor responds: {error}") from None


def token_of(token: str | None, token_file: Path | None) -> str:
    """Return the given token, or the first line of the file that is not a comment. Raises `ConfigError`."""
    if token_file is None:
        return (token or "").strip()
    try:
        lines = token_file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"token_file: cannot read {token_file}: {error}") from None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")


def _lines(text: str, names: Collection[str]) -> Iterator[str]:
    """Yield the lines of the samples called `names`: with many apps, parsing all of them takes long."""
    for line in text.splitlines(keepends=True):
        if line.partition("{")[0].partition(" ")[0] in names:
            yield line
