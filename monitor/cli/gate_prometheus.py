"""The sums of a release gate from Prometheus, over the counters that all replicas export."""

from __future__ import annotations

import http.client
import json
import math
import os
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from monitor.alerts.prometheus import release_gate
from monitor.cli.gated import Began, Key, Side
from monitor.errors import ConfigError
from monitor.outgoing.client import ClientTls
from monitor.quantities import format_duration
from monitor.statistics.rates import Sums

TOKEN: Final = "RAG_MONITOR_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable
_SECONDS: Final = 30.0
_MOST: Final = 64 * 1024 * 1024


class Prometheus:
    """Asks its HTTP API, directly: through no proxy. `increase()` does not see what a series began with.

    Args:
        token: shown as `Authorization: Bearer TOKEN`, to this address alone: not to where it may send on.
        ca_file: certificates of the authorities that sign it, PEM; those that are trusted anyway unless given.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"--prometheus: {url!r} is not an address such as http://prometheus:9090")
        self._base = url.rstrip("/")
        self._token = token
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if ca_file is not None:
            if parts.scheme != "https":
                raise ConfigError("--ca-file: needs an address of --prometheus that begins with https://")
            try:
                handlers.append(urllib.request.HTTPSHandler(context=ClientTls(ca_file=ca_file).context()))
            except ConfigError as error:
                raise ConfigError(f"--ca-file: {error}") from None
        self._opener = urllib.request.build_opener(*handlers)

    def blocks(self, side: Side, evaluator: str, start: float, end: float, length: float) -> Mapping[Key, list[Sums]]:
        """As `gated.Source` says; of stretches that are not whole only those that are."""
        part = release_gate.Part(evaluator, side.app, side.slice, side.value)
        step = max(round(length), 1)
        ends = [end - step * number for number in range(max(int((end - start) // step), 1))]
        values: dict[Key, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for name, query in release_gate.sums(part, format_duration(step)).items():
            asked = {"query": query, "start": f"{ends[-1]:.3f}", "end": f"{ends[0] + 0.001:.3f}", "step": f"{step}"}
            for series in self._ask("query_range", asked):
                labels = series["metric"]
                for at, value in series["values"]:
                    if math.isfinite(float(value)):
                        values[Key(labels.get("app", ""), labels.get("version", ""))][at][name] = float(value)
        return {key: [_sums(one) for one in by_time.values()] for key, by_time in values.items()}

    def began(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Began]:  # noqa: ARG002 - the contract's
        """As `gated.Source` says; a change on the judging side counts, too, as the monitor exports no other."""
        found = self._ask("query", {"query": release_gate.began(release_gate.Part(evaluator, app))})
        return {one["metric"].get("app", ""): Began(float(one["value"][1]), "the change") for one in found}

    def _ask(self, path: str, query: Mapping[str, str]) -> list[Any]:
        address = f"{self._base}/api/v1/{path}"
        request = urllib.request.Request(address, urlencode(query).encode())  # noqa: S310 - http or https, see above
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                body = json.loads(answer.read(_MOST))
            return list(body["data"]["result"])
        except urllib.error.HTTPError as error:
            with error:
                told = error.read(500).decode("utf-8", "replace")
            raise ConfigError(f"--prometheus: {self._base} answers with {error.code}: {told}") from None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"--prometheus: {self._base}: cannot be asked: {error}") from None


def token(file: Path | None) -> str:
    """The token in `file`, or in the variable `RAG_MONITOR_PROMETHEUS_TOKEN`; empty: none. Raises `ConfigError`."""
    if file is None:
        found = os.environ.get(TOKEN, "").strip()
        where = TOKEN
    else:
        try:
            found = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--token-file: {file} cannot be read: {error}") from None
        where = f"--token-file: {file}"
        if not found:
            raise ConfigError(f"{where} is empty")
    if not found.isascii() or not found.isprintable() or " " in found:
        raise ConfigError(f"{where}: a token is one word of plain ASCII")
    return found


def _sums(values: Mapping[str, float]) -> Sums:
    """`increase` reckons with parts of answers: a defect counts from any part of one on."""
    weight, defects = values.get("weight", 0.0), values.get("defect_weight", 0.0)
    if weight <= 0:
        return Sums()
    judged = max(round(values.get("judged", 0.0)), 1)
    number = min(max(round(values.get("defects", 0.0)), 1), judged) if defects > 0 else 0
    return Sums(judged, number, weight, defects, values.get("defect_weight_squares", 0.0))
