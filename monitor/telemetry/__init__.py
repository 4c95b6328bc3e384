"""The monitor's own metrics, events, logs, health and tracing."""
