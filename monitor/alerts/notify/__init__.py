"""Tells people about alerts: the log, a webhook, Prometheus Alertmanager."""

from monitor.alerts.notify.receivers import (
    TYPES,
    Alertmanager,
    Inbox,
    Log,
    Notifier,
    Webhook,
    read_notifier,
    read_notifiers,
)

__all__ = ["TYPES", "Alertmanager", "Inbox", "Log", "Notifier", "Webhook", "read_notifier", "read_notifiers"]
