"""Takes the sums of the release gate from the history database, or from the counters in Prometheus."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from monitor.alerts.prometheus import release_gate
from monitor.clock import SystemClock
from monitor.errors import ConfigError, MonitorError
from monitor.model.outcome import RateScope
from monitor.model.service_version import SeenVersion, ServiceVersion
from monitor.operations.gate import Release, ResultKey, Side
from monitor.operations.storage_folder import existing_history
from monitor.quantities import format_duration
from monitor.statistics.rates import Sums
from monitor.statistics.session_products import SessionMemory, session_key
from monitor.storage.history.reader import HistoryReader, Search
from monitor.transport.http.client import HttpClient

_MINUTE: Final = 60
_MAX_ROWS: Final = 200_000  # rows are read with their texts, if these are stored
_OVERLAP: Final = 120.0  # seconds after a change in which a judge may still work on earlier answers


class _Part(NamedTuple):
    at: float
    key: ResultKey
    sums: Sums


class _Period(NamedTuple):
    """When a version of the service had its first and its latest result."""

    began: float
    seen: float


class HistorySums:
    """The database `history.db` of a monitor, even while it writes. Whole apps are summed by minute, slices by answer.

    Raises `ConfigError` if there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._reader = HistoryReader(existing_history(path))

    def blocks(
        self, side: Side, evaluator: str, start: float, end: float, length: float
    ) -> Mapping[ResultKey, list[Sums]]:
        """See `SumsSource`. The minute of `start` counts in full."""
        try:
            if side.slice is None:
                first = start // _MINUTE * _MINUTE
                return _blocks(self._minutes(side, evaluator, first, end), first, end, length)
            return _blocks(self._rows(side, evaluator, start, end), start, end, length)
        except MonitorError as error:
            raise ConfigError(str(error)) from None

    def releases(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Release]:
        """See `SumsSource`."""
        try:
            known = self._reader.generations()
        except MonitorError as error:
            raise ConfigError(str(error)) from None
        by_app: dict[str, list[SeenVersion]] = defaultdict(list)
        for one in known:
            if one.evaluator == evaluator and app in (None, one.app):
                by_app[one.app].append(one)
        found = {name: newest(ones, since) for name, ones in by_app.items()}
        # In whole minutes, like the sums: otherwise one minute would count on both sides.
        return {name: one._replace(at=one.at // _MINUTE * _MINUTE) for name, one in found.items() if one is not None}

    def evaluators(self) -> set[str]:
        """Return the evaluators that have scores here. Raises `ConfigError`."""
        try:
            return {one.evaluator for one in self._reader.generations()}
        except MonitorError as error:
            raise ConfigError(str(error)) from None

    def _minutes(self, side: Side, evaluator: str, start: float, end: float) -> Iterator[_Part]:
        for row in self._reader.sums_since(start):
            if row.evaluator == evaluator and side.app in (None, row.app) and row.at < end:
                yield _Part(row.at, ResultKey(row.app, row.version), row.sums)

    def _rows(self, side: Side, evaluator: str, start: float, end: float) -> Iterator[_Part]:
        apps = (side.app,) if side.app is not None else ()
        wanted = Search(apps=apps, evaluator=evaluator, since=start, until=end, order="newest", limit=_MAX_ROWS)
        found = self._reader.search(wanted)
        if len(found) == _MAX_ROWS:
            raise ConfigError(f"since: there are more than {_MAX_ROWS:,} results of {evaluator}; choose a shorter time")
        users = self._reader.users_since(start) if found else {}
        memory = SessionMemory(SystemClock())  # the period is too short for a session to be forgotten
        for row in reversed(found):
            at = min(row["answered_at"] or row["evaluated_at"], row["evaluated_at"])
            value = row["attributes"].get(side.slice, "")
            if row["scope"] == RateScope.LIVE and value == side.value and at >= start:
                yield _Part(at, ResultKey(row["app"], row["version"]), _of_session(memory, row, users))


def _of_session(memory: SessionMemory, row: Mapping[str, Any], users: Mapping[str, str]) -> Sums:
    """Return the sums of a stored score, which is counted by session, or else by user (`users`: their pseudonyms)."""
    weight, defect, products = row["weight"], row["defect"], None
    kind, name = ("session", row["session_id"]) if row["session_id"] else ("user", users.get(row["request_id"]))
    if name:
        session = session_key(row["app"], kind, name)
        products = memory.add(session, (row["evaluator"], row["version"]), weight, defect=defect)
    return Sums.of(weight, defect=defect, products=products)


def newest(known: Iterable[SeenVersion], since: float) -> Release | None:
    """Return the newest version of the service that had results since `since`; None if no other version is known.

    A change of the judge or of an evaluator is not a release. A rollback begins with the last result of the version
    that it replaced.
    """
    spans: dict[ServiceVersion, _Period] = {}
    for one in known:
        parts = one.service_version
        service = ServiceVersion(prompt=parts.prompt, index=parts.index, service=parts.service)
        span = spans.get(service, _Period(one.began, one.seen))
        spans[service] = _Period(min(span.began, one.began), max(span.seen, one.seen))
    running = [one for one in spans if spans[one].seen >= since]
    if len(spans) == 1 or not running:
        return None
    current = max(running, key=lambda one: spans[one].began)
    others = {one: span for one, span in spans.items() if one != current}
    later = [span.seen for span in others.values() if span.began > spans[current].began]
    at = max([spans[current].began, *later])
    before = {one: span for one, span in others.items() if span.began < at}
    if not before:
        return None
    previous = max(before, key=lambda one: before[one].seen)
    note = ""
    if before[previous].seen > at + _OVERLAP:
        note = "the previous version still serves traffic and is part of both rates: use --against stable"
    return Release(at, current.changes_from(previous), note)


def _blocks(parts: Iterable[_Part], start: float, end: float, length: float) -> dict[ResultKey, list[Sums]]:
    found: dict[ResultKey, list[Sums]] = {}
    number = max(int(-(-(end - start) // length)), 1)
    for part in parts:
        blocks = found.setdefault(part.key, [Sums()] * number)
        at = min(int((part.at - start) // length), number - 1)
        blocks[at] += part.sums
    return found


_TIMEOUT: Final = 30.0
_SHOWN: Final = 500  # characters of an error's text


class PrometheusSums:
    """Queries the HTTP API of Prometheus directly, without a proxy.

    `url` is an address such as `http://prometheus:9090`; `token` and `ca_file` as in `HttpClient`. `increase()` does
    not count the first value of a series. Raises `ConfigError` if the address, the token or the file cannot work.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{url!r} is not an address such as http://prometheus:9090")
        self._client = HttpClient(
            url.rstrip("/"), token=token, ca_file=ca_file, timeout=_TIMEOUT, follow_redirects=True
        )

    def blocks(
        self, side: Side, evaluator: str, start: float, end: float, length: float
    ) -> Mapping[ResultKey, list[Sums]]:
        """See `SumsSource`. An incomplete block at the beginning is left out."""
        part = release_gate.GateSubject(evaluator, side.app, side.slice, side.value)
        step = max(round(length), 1)
        ends = [end - step * number for number in range(max(int((end - start) // step), 1))]
        values: dict[ResultKey, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        span = {"start": f"{ends[-1]:.3f}", "end": f"{ends[0] + 0.001:.3f}", "step": f"{step}"}
        top = self._largest(part, step, span) if part.slice is None else {}
        for name, query in release_gate.sums(part, format_duration(step)).items():
            asked = {"query": query, **span}
            for series in self._query("query_range", asked):
                labels = series["metric"]
                for at, value in series["values"]:
                    if math.isfinite(float(value)):
                        values[ResultKey(labels.get("app", ""), labels.get("version", ""))][at][name] = float(value)
        return {
            key: [_sums(one, top.get((key.app, at), 0.0)) for at, one in by_time.items()]
            for key, by_time in values.items()
        }

    def _largest(
        self, part: release_gate.GateSubject, step: int, span: Mapping[str, str]
    ) -> dict[tuple[str, float], float]:
        """Query the largest weight, by app and end of block."""
        found = self._query("query_range", {"query": release_gate.largest(part, format_duration(step)), **span})
        return {
            (series["metric"].get("app", ""), at): float(value) for series in found for at, value in series["values"]
        }

    def releases(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Release]:  # noqa: ARG002 - the contract's
        """See `SumsSource`. A change of the judge also counts: the metric does not distinguish it from a release."""
        found = self._query("query", {"query": release_gate.began(release_gate.GateSubject(evaluator, app))})
        return {one["metric"].get("app", ""): Release(float(one["value"][1]), "the change") for one in found}

    def _query(self, path: str, form: Mapping[str, str]) -> list[Any]:
        url = self._client.url
        try:
            reply = self._client.send(f"/api/v1/{path}", form)
        except MonitorError as error:
            raise ConfigError(f"prometheus: cannot query {url}: {error}") from None
        if reply.status != HTTPStatus.OK:
            raise ConfigError(f"prometheus: {url} responds with {reply.status}: {reply.text[:_SHOWN]}")
        try:
            return list(json.loads(reply.body)["data"]["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"prometheus: cannot read the response of {url}: {error}") from None


def _sums(values: Mapping[str, float], top: float) -> Sums:
    """Return sums in whole answers: `increase` extrapolates to fractions; any fraction of a defect counts as one."""
    weight, defects = values.get("weight", 0.0), values.get("defect_weight", 0.0)
    if weight <= 0:
        return Sums()
    judged = max(round(values.get("judged", 0.0)), 1)
    number = min(max(round(values.get("defects", 0.0)), 1), judged) if defects > 0 else 0
    squares = values.get("defect_weight_squares", 0.0)
    good_squares = max(values.get("weight_squares", 0.0) - squares, 0.0)
    products = (values.get(name, 0.0) for name in ("defect_products", "every_products", "both_products"))
    return Sums(judged, number, weight, defects, squares, good_squares, top, *products)
