"""The incidents that a monitor has stored, read from its storage folder, whether it is running or stopped.

for record in incidents(config, app="shop"):
    print(record.incident.id, record.began)
"""

from __future__ import annotations

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.model.incident import IncidentNote, IncidentRecord
from monitor.operations.storage_folder import require_state
from monitor.privacy import audit
from monitor.storage import files
from monitor.storage.incidents import IncidentFile, IncidentReader
from monitor.telemetry.events import Event


def incidents(
    config: Config, *, since: float = 0.0, app: str | None = None, only_open: bool = False, limit: int = 200
) -> list[IncidentRecord]:
    """Return the incidents that were open at some time since the wall-clock second `since`, newest first.

    They come without diagnoses, answers and notes. Raises `MonitorError` if they cannot be read.
    """
    return _reader(config).newest(since=since, app=app, only_open=only_open, limit=limit)


def incident(config: Config, name: str) -> IncidentRecord:
    """Return an incident by its id. Raises `MonitorError` if there is none, or if it cannot be read."""
    found = _reader(config).find(name)
    if found is None:
        raise MonitorError(f"there is no incident {name!r:.80} in {config.storage.path}")
    return found


def note_incident(config: Config, name: str, text: str, *, clock: Clock | None = None) -> None:
    """Add a note to an incident, under the name of the user who runs this, and record it in the audit log.

    Raises `InvalidData` for a note that is empty or too long, `MonitorError` if there is no such incident, or if the
    note cannot be written.
    """
    clock = clock or SystemClock()
    incident(config, name)
    file = IncidentFile(config.storage.path / files.INCIDENTS, clock)
    try:
        file.note(name, IncidentNote(clock.now(), f"user {audit.caller()}", text))
    finally:
        file.close()
    audit.record(config.storage.path, Event.INCIDENT_NOTED, incident=name)


def _reader(config: Config) -> IncidentReader:
    require_state(config.storage.path)
    return IncidentReader(config.storage.path / files.INCIDENTS)
