"""The sums of a release gate from the history, also beside the monitor that writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from monitor.cli.gated import Began, Key, Side
from monitor.errors import ConfigError, MonitorError
from monitor.model.generation import Generation, Known
from monitor.model.outcome import Standing
from monitor.sinks._results import Reader
from monitor.sinks._search import Search
from monitor.statistics.rates import Sums

_MINUTE: Final = 60
_MOST_ROWS: Final = 200_000  # they are read with their texts, where these are kept
_TOGETHER: Final = 120.0  # seconds, in which a judge may still be busy with answers of before a change


class _Part(NamedTuple):
    at: float
    key: Key
    sums: Sums


class _Span(NamedTuple):
    began: float
    seen: float


class History:
    """The database in the folder of `storage`. Sums of whole apps are by the minute, those of slices by the answer."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise ConfigError(f"storage.path: there is no history at {path}; give the monitor's configuration by -c")
        self._reader = Reader(path)

    def blocks(self, side: Side, evaluator: str, start: float, end: float, length: float) -> Mapping[Key, list[Sums]]:
        """As `gated.Source` says. The minute in which `start` lies counts whole."""
        try:
            if side.slice is None:
                first = start // _MINUTE * _MINUTE
                return _blocks(self._minutes(side, evaluator, first, end), first, end, length)
            return _blocks(self._rows(side, evaluator, start, end), start, end, length)
        except MonitorError as error:
            raise ConfigError(str(error)) from None

    def began(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Began]:
        """As `gated.Source` says."""
        try:
            known = self._reader.generations()
        except MonitorError as error:
            raise ConfigError(str(error)) from None
        by_app: dict[str, list[Known]] = defaultdict(list)
        for one in known:
            if one.evaluator == evaluator and app in (None, one.app):
                by_app[one.app].append(one)
        found = {name: newest(ones, since) for name, ones in by_app.items()}
        # By the whole minute, as the sums are: else one minute would be on both sides.
        return {name: one._replace(at=one.at // _MINUTE * _MINUTE) for name, one in found.items() if one is not None}

    def _minutes(self, side: Side, evaluator: str, start: float, end: float) -> Iterator[_Part]:
        for row in self._reader.sums_since(start):
            if row.evaluator == evaluator and side.app in (None, row.app) and row.at < end:
                part = (
                    Sums(row.judged, row.judged, row.weight, row.weight, row.weight_squares)
                    if row.defect
                    else Sums(row.judged, 0, row.weight, good_weight_squares=row.weight_squares)
                )
                yield _Part(row.at, Key(row.app, row.version), part)

    def _rows(self, side: Side, evaluator: str, start: float, end: float) -> Iterator[_Part]:
        apps = (side.app,) if side.app is not None else ()
        wanted = Search(apps=apps, evaluator=evaluator, since=start, until=end, order="newest", limit=_MOST_ROWS)
        found = self._reader.search(wanted)
        if len(found) == _MOST_ROWS:
            raise ConfigError(f"--since: has more than {_MOST_ROWS:,} results of {evaluator}; take a shorter time")
        for row in found:
            at = min(row["answered_at"] or row["judged_at"], row["judged_at"])
            value = row["attributes"].get(side.slice, "")
            if row["standing"] == Standing.LIVE and value == side.value and at >= start:
                yield _Part(at, Key(row["app"], row["version"]), Sums.of(row["weight"], defect=row["defect"]))


def newest(known: Iterable[Known], since: float) -> Began | None:
    """The service's newest generation of those that had verdicts since `since`; None where no other is known.

    What stands on the judging side is no release: verdicts of another version are not compared anyway. A return to an
    earlier generation begins with the last verdict of the one that it took the place of.
    """
    spans: dict[Generation, _Span] = {}
    for one in known:
        parts = one.generation
        service = Generation(prompt=parts.prompt, index=parts.index, service=parts.service)
        span = spans.get(service, _Span(one.began, one.seen))
        spans[service] = _Span(min(span.began, one.began), max(span.seen, one.seen))
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
    if before[previous].seen > at + _TOGETHER:
        note = "the previous generation goes on answering, and is in both rates: use --against stable"
    return Began(at, current.changes_from(previous), note)


def _blocks(parts: Iterable[_Part], start: float, end: float, length: float) -> dict[Key, list[Sums]]:
    found: dict[Key, list[Sums]] = {}
    number = max(int(-(-(end - start) // length)), 1)
    for part in parts:
        blocks = found.setdefault(part.key, [Sums()] * number)
        at = min(int((part.at - start) // length), number - 1)
        blocks[at] += part.sums
    return found
