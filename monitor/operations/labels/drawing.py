"""Draws answers for people who label in another tool, as the queue in the UI draws them for its reviewers."""

from __future__ import annotations

from typing import Any

from monitor.clock import Clock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.jobs.review.effects import by_result
from monitor.jobs.review.orders import NEWEST_AT_MOST, testable, truths_of
from monitor.model.label import ReviewDraw
from monitor.operations.export import collect_results
from monitor.statistics.review_draws import draws
from monitor.storage import files
from monitor.storage.history.judged import JudgedReader
from monitor.storage.history.reader import HistoryReader
from monitor.storage.labels import LabelStore


def draw_cases(
    config: Config, app: str, evaluator: str, number: int, clock: Clock, *, redact: bool = True
) -> dict[str, dict[str, Any]]:
    """Return up to `number` answers that need a label, by the id of the result: rows as in `rag-monitor export`.

    Each has `draw` and `probability`. First come answers drawn before, for the UI or for another export, then new ones,
    which are recorded in the storage folder: their labels measure the judge when they come back. Personal data is
    masked unless `redact` is off. Raises `MonitorError` if no answer can be drawn.
    """
    history = HistoryReader(config.storage.path / files.HISTORY)
    newest = history.results(app=app, evaluator=evaluator, limit=1)
    if not newest:
        raise MonitorError(f"{app}: no results of {evaluator}")
    version, now = str(newest[0]["version"]), clock.now()
    frame = JudgedReader(config.storage.path / files.HISTORY).reviewable(
        app, evaluator, version, now - config.storage.retention, NEWEST_AT_MOST
    )
    requests = {one.result_id: one.request_id for one in frame}
    store = LabelStore(config.storage.path / files.LABELS, clock)
    try:
        labelled = by_result(store.find(app=app, evaluator=evaluator, version=version))
        known = store.draws(app, evaluator, version)
        chosen = [one for one in known if one.result_id not in labelled and one.result_id in requests][:number]
        done = {one.result_id for one in known}
        for one in draws(testable(frame), done, truths_of(labelled), len(known)):
            if len(chosen) >= number:
                break
            request = requests[one.key]
            noted = ReviewDraw(
                result_id=one.key,
                request_id=request,
                app=app,
                evaluator=evaluator,
                version=version,
                draw=one.draw,
                probability=one.probability,
                at=now,
                user=history.user_of(request),
            )
            if store.keep_draw(noted) and one.key not in labelled:  # else its labels measure from now on
                chosen.append(noted)
    finally:
        store.close()
    cases = {
        row["id"]: row for row in collect_results(config.storage, {one.result_id for one in chosen}, redact=redact)
    }
    if not cases:
        raise MonitorError(f"{app}: no answer of {evaluator} needs a label, or their texts are not kept")
    about = {one.result_id: {"draw": one.draw.value, "probability": one.probability} for one in chosen}
    return {name: row | about[name] for name, row in cases.items()}
