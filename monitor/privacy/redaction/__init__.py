"""Masks personal data in a case, after the local evaluators have seen it and before anything else does."""

from monitor.privacy.redaction.redacted import Redacted, Redactor
from monitor.privacy.redaction.settings import RedactionSettings

__all__ = ["Redacted", "RedactionSettings", "Redactor"]
