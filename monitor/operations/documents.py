"""Documents behind bad answers, and questions without an answer: what the owner of a knowledge base can mend.

find_documents(config, app="shop", evaluator="groundedness", window=7 * 86_400.0).documents
find_unanswered(config, app="shop", window=7 * 86_400.0).topics
"""

from __future__ import annotations

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.jobs.documents import (
    LEAST_NEVER_USED,
    DocumentsReport,
    DocumentsRequest,
    DocumentUse,
    as_csv,
    as_objects,
    documents_report,
    found_in,
    in_order,
)
from monitor.jobs.topics import read_topics
from monitor.jobs.unanswered import (
    UnansweredReport,
    UnansweredRequest,
    UnansweredTopic,
    as_object,
    is_readable,
    unanswered_report,
)
from monitor.statistics.topics import topic_words
from monitor.storage import files

__all__ = [
    "LEAST_NEVER_USED",
    "DocumentUse",
    "DocumentsReport",
    "UnansweredReport",
    "UnansweredTopic",
    "as_csv",
    "as_object",
    "as_objects",
    "find_documents",
    "find_unanswered",
    "found_in",
    "in_order",
    "is_readable",
    "topic_words",
]


def find_documents(
    config: Config, *, app: str, evaluator: str, window: float, clock: Clock | None = None
) -> DocumentsReport:
    """Compare the documents of the last `window` seconds, from the history in the storage folder.

    Raises `MonitorError` where the history cannot be read, `ConfigError` where the evaluator is not configured.
    """
    known = [one.evaluator.name for one in config.configured_evaluators]
    if evaluator not in known:
        raise ConfigError(f"--evaluator {evaluator}: not one of {', '.join(sorted(known))}")
    request = DocumentsRequest(app, evaluator, window)
    return documents_report(config.storage.path / files.HISTORY, request, (clock or SystemClock()).now())


def find_unanswered(config: Config, *, app: str, window: float, clock: Clock | None = None) -> UnansweredReport:
    """List the questions of the last `window` seconds that were not answered, from the history in the storage folder.

    Raises `MonitorError` where it cannot be read.
    """
    topics = read_topics(config.storage.path / files.STATE, app)
    request = UnansweredRequest(app, window)
    return unanswered_report(config.storage.path / files.HISTORY, topics, request, (clock or SystemClock()).now())
