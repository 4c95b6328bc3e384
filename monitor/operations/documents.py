"""Documents behind bad answers, and unanswered questions: what the owner of a knowledge base can fix.

find_documents(config, app="shop", evaluator="groundedness", window=7 * 86_400.0).documents
find_unanswered(config, app="shop", window=7 * 86_400.0).topics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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
from monitor.operations.result_files import ResultFiles
from monitor.operations.storage_folder import existing_history
from monitor.statistics.topics import topic_words
from monitor.storage import files
from monitor.storage.history.answers import AnswerReader

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
    config: Config,
    *,
    app: str,
    evaluator: str,
    window: float,
    results: Sequence[Path] = (),
    clock: Clock | None = None,
) -> DocumentsReport:
    """Compare the documents of the last `window` seconds, from the history in the storage folder.

    Args:
        config: the monitor's configuration.
        app: the service.
        evaluator: the evaluator whose own defect rule decides which answers are bad.
        window: seconds; compared with the same time before.
        results: files of the sinks `jsonl` or `kafka`, of all replicas, instead of the history. The time of the newest
            result is used as the current time. Rows without texts have no documents.
        clock: gives the current time.

    Raises `MonitorError` if the history or a file cannot be read, `ConfigError` if the evaluator is not configured.
    """
    known = [one.evaluator.name for one in config.configured_evaluators]
    if evaluator not in known:
        raise ConfigError(f"--evaluator {evaluator}: not one of {', '.join(sorted(known))}")
    request = DocumentsRequest(app, evaluator, window)
    if results:
        read = ResultFiles(results, app, evaluator)
        return replace(documents_report(read, request, read.now), unread=read.unread)
    stored = AnswerReader(existing_history(config.storage.path / files.HISTORY))
    return documents_report(stored, request, (clock or SystemClock()).now())


def find_unanswered(
    config: Config, *, app: str, window: float, results: Sequence[Path] = (), clock: Clock | None = None
) -> UnansweredReport:
    """List the unanswered questions of the last `window` seconds, from the history in the storage folder.

    `results` is as in `find_documents`; rows without texts have no words of the question, and so no topics. Names of
    topics come from the storage folder, if there is one. Raises `MonitorError` if the history or a file cannot be read.
    """
    topics, request = read_topics(config.storage.path / files.STATE, app), UnansweredRequest(app, window)
    if results:
        read = ResultFiles(results, app)
        return replace(unanswered_report(read, topics, request, read.now), unread=read.unread)
    stored = AnswerReader(existing_history(config.storage.path / files.HISTORY))
    return unanswered_report(stored, topics, request, (clock or SystemClock()).now())
