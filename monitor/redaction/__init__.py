"""Personal data out of a case, once the local evaluators have seen it and before anything else does."""

from monitor.redaction.redacted import Redacted, Redactor
from monitor.redaction.settings import RedactionSettings

__all__ = ["Redacted", "RedactionSettings", "Redactor"]
