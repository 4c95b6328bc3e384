"""The monitor's own telemetry: its work as spans, its events as log records. Off unless configured."""

from monitor.jobs.self_telemetry.settings import TelemetrySettings

__all__ = ["TelemetrySettings"]
