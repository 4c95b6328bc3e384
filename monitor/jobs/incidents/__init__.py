"""Keeps the incidents of the running monitor: writes to disk their course and what the history says about them.

The alerts decide what an incident is (`monitor.alerts.incidents`). A failing disk is no reason to stop: writes that
fail wait in memory and are repeated later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from monitor.errors import InvalidData, MonitorError
from monitor.jobs.diagnosis import DiagnosisRequest, RateDiagnosis
from monitor.jobs.diagnosis import as_object as as_diagnosis
from monitor.jobs.diagnosis.words import alert_line, in_words
from monitor.jobs.incidents.investigation import Findings, Investigation
from monitor.model.incident import Incident, IncidentNote, IncidentOnset, IncidentRecord, as_object
from monitor.stages import Runtime
from monitor.statistics.diagnosis.onset import Onset
from monitor.storage import files
from monitor.storage.damage import reporter
from monitor.storage.incidents import IncidentFile, IncidentReader
from monitor.storage.sqlite import DamagedFile
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER

T = TypeVar("T")

LOOK_EVERY: Final = 300.0
"""Seconds between two looks at the history for an open incident."""

_TIDY_EVERY: Final = 600.0
_WRITE_AGAIN: Final = 5.0
_SHOWN: Final = 200


class _LastDiagnosis(NamedTuple):
    """The last diagnosis of an open incident: its peak, whether it was a look, and the onset it found."""

    peak: float
    looked: bool
    onset: IncidentOnset | None


class IncidentKeeper:
    """The incidents of one storage folder.

    Args:
        folder: the storage folder.
        investigation: looks incidents up in the history.
        diagnose: finds what the bad answers have in common.
        runtime: provides clock, events and metrics.
        retention: seconds for which an incident is kept after its end.
        texts_retention: seconds for which texts of answers are kept; None: as long as the incident.
    """

    def __init__(
        self,
        folder: Path,
        investigation: Investigation,
        runtime: Runtime,
        *,
        diagnose: Callable[[DiagnosisRequest], Awaitable[RateDiagnosis]],
        retention: float,
        texts_retention: float | None = None,
    ) -> None:
        path = folder / files.INCIDENTS
        self._file = IncidentFile(path, runtime.clock, reporter("incidents", runtime.events, runtime.metrics))
        self._reader = IncidentReader(path)
        self._investigation = investigation
        self._diagnose = diagnose
        self._runtime = runtime
        self._retention = retention
        self._texts_retention = texts_retention
        self._waiting: dict[str, Incident] = {}
        self._looked: dict[str, tuple[float, int]] = {}
        self._diagnosed: dict[str, _LastDiagnosis] = {}
        self._wake = anyio.Event()
        self._tidied = float("-inf")
        self._failing = self._blind = False
        self._failing_gauge = runtime.metrics.database_failing.labels("incidents")

    async def load_open(self) -> list[Incident]:
        """Return the incidents that were open when an earlier process stopped; none if the file cannot be read."""
        try:
            return await anyio.to_thread.run_sync(self._file.load_open)
        except MonitorError as error:
            self._failed(error)
            return []

    def changed(self, one: Incident) -> None:
        """Note that an incident began, gained a step or ended. Never waits; only the newest state of each counts."""
        self._waiting[one.id] = one
        self._wake.set()

    async def run(self) -> None:
        """Write and look until cancelled; then write once more."""
        try:
            while True:
                with anyio.move_on_after(_WRITE_AGAIN if self._failing else _TIDY_EVERY):
                    await self._wake.wait()
                self._wake = anyio.Event()
                await self.catch_up()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()
                await anyio.to_thread.run_sync(self._file.close)

    async def catch_up(self) -> None:
        """Write what waits, look at the history if it is time, and delete what is too old."""
        for one in await self._write():
            await self._look(one)
        await self._tidy()

    async def newest(self) -> list[IncidentRecord]:
        """Return the newest incidents, without diagnoses and answers. Raises `MonitorError`."""
        return await self._read(lambda: self._reader.newest(limit=_SHOWN))

    async def find(self, incident: str) -> IncidentRecord | None:
        """Return an incident with everything kept about it, or None. Raises `MonitorError`."""
        return await self._read(lambda: self._reader.find(incident))

    async def note(self, incident: str, text: str) -> bool:
        """Add a note of the current viewer; return whether there is such an incident.

        Raises `InvalidData` for an invalid note, `MonitorError` if it cannot be written.
        """
        viewer = VIEWER.get()
        note = IncidentNote(self._runtime.clock.now(), viewer.who, text)
        if not await anyio.to_thread.run_sync(self._file.note, incident, note):
            return False

        def record() -> None:
            self._runtime.events.info(
                Event.INCIDENT_NOTED, "a note on an incident", incident=incident, who=viewer.who, peer=viewer.peer
            )

        await anyio.to_thread.run_sync(record)  # it is written to a file, too
        return True

    async def _read(self, query: Callable[[], T]) -> T:
        """Run a query in a thread. If it meets damage, repair the file and run the query once more."""
        try:
            return await anyio.to_thread.run_sync(query)
        except DamagedFile:
            if not await anyio.to_thread.run_sync(self._file.repaired):
                raise
            return await anyio.to_thread.run_sync(query)

    async def _write(self) -> list[Incident]:
        """Write what waits; return what was written."""
        written = []
        for one in list(self._waiting.values()):
            try:
                await anyio.to_thread.run_sync(self._file.save, one)
            except InvalidData:  # it can never be written
                pass
            except MonitorError as error:
                self._failed(error)
                break
            else:
                written.append(one)
            if self._waiting.get(one.id) is one:
                del self._waiting[one.id]
        else:
            if self._failing:
                self._failing = False
                self._failing_gauge.set(0)
                self._runtime.events.info(Event.STATE_RECOVERED, "incidents are written again")
        return written

    async def _look(self, one: Incident) -> None:
        """Look at the history if it is time: at the beginning, after a new step, at the end, and periodically."""
        now = self._runtime.clock.now()
        looked, steps = self._looked.get(one.id, (float("-inf"), -1))
        if one.open and steps == len(one.steps) and 0 <= now - looked < LOOK_EVERY:
            return
        if one.open:
            self._looked[one.id] = now, len(one.steps)
        else:
            self._looked.pop(one.id, None)
        try:
            try:
                rose = await self._diagnosis(one)
            except MonitorError as error:  # the rest does not need it
                rose = None
                self._say_blind(one, "an incident cannot be diagnosed; it will be retried", error)
            before = await self.find(one.id)
            known = before.onset if before is not None else None
            found = await anyio.to_thread.run_sync(self._investigation.look, one, now, rose, known)
            await anyio.to_thread.run_sync(self._keep, one, found)
        except MonitorError as error:
            self._looked.pop(one.id, None)
            self._say_blind(one, "an incident cannot be looked up in the history; it will be retried", error)
        else:
            self._blind = False

    def _say_blind(self, one: Incident, message: str, error: MonitorError) -> None:
        if not self._blind:
            self._runtime.events.warning(Event.STATE_FAILED, message, incident=one.id, error=str(error))
        self._blind = True

    async def _diagnosis(self, one: Incident) -> IncidentOnset | None:
        """Diagnose the rate while it is at its peak, and at the end; return the onset, if one was found.

        Raises `MonitorError`.
        """
        known = self._diagnosed.get(one.id)
        if not one.open:
            self._diagnosed.pop(one.id, None)
        peak = one.peak.at if one.peak is not None else one.fired
        if one.open and known is not None and known.peak >= peak and known.looked:
            return known.onset
        made = await self._diagnose(self._investigation.request(one))
        found, onset = made.found, None
        if found.onset is not None:
            onset = IncidentOnset(*(min(at, one.fired) for at in (found.onset.at, *_limits(found.onset))))
        line = alert_line(made)
        if not line:
            return known.onset if known is not None else None
        requests = [each.request_id for examples in made.examples for each in examples]
        without = replace(made, questions={})  # an incident copies no texts except those of its worst answers
        body = {"at": made.until, "lines": [line, *example_lines(made)], "diagnosis": dict(as_diagnosis(without))}
        if not one.open:
            await anyio.to_thread.run_sync(self._file.keep_finding, one.id, "end", body, requests)
            return known.onset if known is not None and known.onset is not None else onset
        await anyio.to_thread.run_sync(self._file.keep_finding, one.id, "height", body, requests)
        self._diagnosed[one.id] = _LastDiagnosis(peak, found.looked is not None, onset)
        return onset

    def _keep(self, one: Incident, found: Findings) -> None:
        if found.onset is not None:
            self._file.keep_finding(one.id, "onset", as_object(found.onset))
        if found.impact is not None:
            self._file.keep_finding(one.id, "impact", as_object(found.impact))
        self._file.keep_finding(one.id, "changes", {"steps": as_object(list(found.changes))})
        if found.answers:
            self._file.keep_answers(one.id, found.answers)

    async def _tidy(self) -> None:
        monotonic, now = self._runtime.clock.monotonic(), self._runtime.clock.now()
        if monotonic - self._tidied < _TIDY_EVERY:
            return
        self._tidied = monotonic
        texts = None if self._texts_retention is None else now - self._texts_retention
        try:
            await anyio.to_thread.run_sync(lambda: self._file.tidy(now - self._retention, texts_before=texts))
        except MonitorError as error:
            self._failed(error)

    def _failed(self, error: MonitorError) -> None:
        if not self._failing:
            self._failing = True
            self._failing_gauge.set(1)
            message = "incidents cannot be written now; they will be written later"
            self._runtime.events.error(Event.STATE_FAILED, message, error=str(error))


def _limits(onset: Onset) -> tuple[float, float]:
    return onset.earliest, onset.latest


def example_lines(made: RateDiagnosis) -> Iterator[str]:
    """Yield a line for each factor of a diagnosis that has examples: their requests."""
    for factor, examples in zip(made.found.factors, made.examples, strict=True):
        if examples:
            name = " and ".join(in_words(part, 80) for part in factor.parts)
            yield f"Examples with {name}: {', '.join(one.request_id for one in examples)}."
