"""Verdicts that others have reached: of tools that evaluate, and of the users themselves.

`telemetry.py` reads them out of spans and log records, `feedback.py` out of what is posted; `rules.py` says what of
them is a defect, `settings.py` what a user can configure. What becomes of them stands in `pipeline/foreign/desk.py`.
"""

from monitor.extraction.feedback.settings import FeedbackSettings, ForeignSettings

__all__ = ["FeedbackSettings", "ForeignSettings"]
