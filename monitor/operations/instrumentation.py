"""Measures how complete a service's telemetry is: the share of requests with each field, and how to send the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from monitor.extraction import coverage
from monitor.extraction.coverage import FIELDS, Coverage
from monitor.extraction.settings import ExtractionSettings
from monitor.operations.monitor_client import MonitorClient
from monitor.operations.offline.files import CaseFiles
from monitor.operations.progress import Report, ignore

_REQUESTS: Final = "ragmonitor_extracted_requests_total"
_FIELDS: Final = "ragmonitor_extracted_fields_total"
_ADVISED: Final = ("question", "context", "answer", "model")
_OPTIONAL: Final = ("session",)


@dataclass(frozen=True, slots=True)
class AppCoverage:
    """The requests of one app in one dialect: how many there are, and how many have each field.

    `advice` describes in Markdown, for each missing field, the smallest change to the instrumentation that adds it.
    """

    app: str
    dialect: str
    requests: int
    fields: Mapping[str, int]
    advice: Mapping[str, str]

    def missing(self, field: str) -> int:
        """Return how many requests have no such field."""
        return self.requests - self.fields[field]


def of_files(
    paths: Iterable[Path], settings: ExtractionSettings | None = None, *, report: Report = ignore
) -> list[AppCoverage]:
    """Measure recorded requests in files. `report` gets messages about what cannot be read."""
    return summarise(coverage.collect(CaseFiles(paths, settings, report=report).readings()))


def of_monitor(client: MonitorClient) -> list[AppCoverage]:
    """Measure what a running monitor has received since it started. Raises `MonitorError` if it does not respond."""
    samples = client.samples({_REQUESTS, _FIELDS})
    found: dict[tuple[str, str], Coverage] = {}
    for name in (_REQUESTS, _FIELDS):
        for labels, value in samples.of(name):
            if not value:
                continue
            one = found.setdefault((labels.get("app", ""), labels.get("convention", "")), Coverage())
            if name == _REQUESTS:
                one.requests = int(value)
            else:
                one.came[labels["field"]] = int(value)
    return summarise(found)


def summarise(found: Mapping[tuple[str, str], Coverage]) -> list[AppCoverage]:
    """Return a summary for each app and dialect, with advice on missing fields, in alphabetical order."""
    return [
        AppCoverage(
            app or "unknown",
            dialect,
            one.requests,
            {name: one.came[name] for name in FIELDS},
            {name: coverage.advice(dialect, name) for name in _lacking(one)},
        )
        for (app, dialect), one in sorted(found.items())
    ]


def _lacking(one: Coverage) -> list[str]:
    """Return the missing fields that are worth a change; the session only if no request has one."""
    lacking = [name for name in _ADVISED if one.missing(name)]
    return lacking + [name for name in _OPTIONAL if one.missing(name) == one.requests]
