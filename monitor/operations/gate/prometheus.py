"""Takes the sums of the release gate from Prometheus: from the counters that all replicas export."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from monitor.alerts.prometheus import release_gate
from monitor.errors import ConfigError, MonitorError
from monitor.operations.gate.decision import Release, ResultKey, Side
from monitor.operations.http_client import HttpClient
from monitor.quantities import format_duration
from monitor.statistics.rates import Sums

_TIMEOUT: Final = 30.0
_SHOWN: Final = 500  # characters of an error's text


class PrometheusSums:
    """Queries the HTTP API of a Prometheus, directly: through no proxy.

    `increase()` does not count the first value of a series.

    Args:
        url: such as `http://prometheus:9090`.
        token: sent as `Authorization: Bearer TOKEN`; never to another server that this one redirects to.
        ca_file: certificates of the authorities that sign the server's, PEM; the system's unless given.

    Raises:
        ConfigError: the address, the token or the file cannot work.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{url!r} is not an address such as http://prometheus:9090")
        if not token.isascii() or (token and not token.isprintable()) or " " in token:
            raise ConfigError("token: must be one word of plain ASCII")
        try:
            self._client = HttpClient(
                url.rstrip("/"), token=token, ca_file=ca_file, timeout=_TIMEOUT, follow_redirects=True
            )
        except ConfigError as error:
            raise ConfigError(f"ca_file: {error}") from None

    def blocks(
        self, side: Side, evaluator: str, start: float, end: float, length: float
    ) -> Mapping[ResultKey, list[Sums]]:
        """See `Source`. An incomplete block at the beginning is left out."""
        part = release_gate.GateSubject(evaluator, side.app, side.slice, side.value)
        step = max(round(length), 1)
        ends = [end - step * number for number in range(max(int((end - start) // step), 1))]
        values: dict[ResultKey, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for name, query in release_gate.sums(part, format_duration(step)).items():
            asked = {"query": query, "start": f"{ends[-1]:.3f}", "end": f"{ends[0] + 0.001:.3f}", "step": f"{step}"}
            for series in self._query("query_range", asked):
                labels = series["metric"]
                for at, value in series["values"]:
                    if math.isfinite(float(value)):
                        values[ResultKey(labels.get("app", ""), labels.get("version", ""))][at][name] = float(value)
        return {key: [_sums(one) for one in by_time.values()] for key, by_time in values.items()}

    def releases(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Release]:  # noqa: ARG002 - the contract's
        """See `Source`. A change of the judge counts as well: the metric does not tell it from a release."""
        found = self._query("query", {"query": release_gate.began(release_gate.GateSubject(evaluator, app))})
        return {one["metric"].get("app", ""): Release(float(one["value"][1]), "the change") for one in found}

    def _query(self, path: str, form: Mapping[str, str]) -> list[Any]:
        url = self._client.url
        try:
            reply = self._client.post(f"/api/v1/{path}", form)
        except MonitorError as error:
            raise ConfigError(f"prometheus: cannot query {url}: {error}") from None
        if reply.status != HTTPStatus.OK:
            raise ConfigError(f"prometheus: {url} responds with {reply.status}: {reply.text[:_SHOWN]}")
        try:
            return list(json.loads(reply.body)["data"]["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"prometheus: cannot read what {url} responds: {error}") from None


def _sums(values: Mapping[str, float]) -> Sums:
    """`increase` extrapolates to fractions of answers: any fraction of a defect counts as one."""
    weight, defects = values.get("weight", 0.0), values.get("defect_weight", 0.0)
    if weight <= 0:
        return Sums()
    judged = max(round(values.get("judged", 0.0)), 1)
    number = min(max(round(values.get("defects", 0.0)), 1), judged) if defects > 0 else 0
    return Sums(judged, number, weight, defects, values.get("defect_weight_squares", 0.0))
