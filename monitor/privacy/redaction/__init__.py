"""Masks personal data in a case, after the local evaluators have seen it and before anything else sees it."""

from monitor.privacy.redaction.masking import RedactionSettings
from monitor.privacy.redaction.redacted import Redacted, Redactor

__all__ = ["Redacted", "RedactionSettings", "Redactor"]
