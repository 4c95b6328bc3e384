"""Builds what the UI shows, and its trials, from the configuration and the running parts."""

from __future__ import annotations

from monitor.app.parts import Parts
from monitor.app.scoring import ScoringParts
from monitor.config import Config
from monitor.jobs.trial.queue import TrialQueue
from monitor.operations.diagnosis import Diagnostics
from monitor.pipeline.introspection.live import LiveRequests
from monitor.web.context import PageContext


def page_context(
    config: Config, parts: Parts, scoring: ScoringParts, looking: LiveRequests, trials: TrialQueue | None
) -> PageContext:
    """Return everything that the UI shows; without `trials` it offers none."""
    running = parts.running
    diagnostics = Diagnostics(config, running.runtime.clock, looking)
    judged = [one for one in running.assignments if one.evaluator.cost == "judge"]
    return PageContext(
        runtime=running.runtime,
        windows=running.windows,
        history=running.history,
        alerts=lambda: running.alerts,
        policies=config.alerts,
        configured=config.configured_evaluators,
        idle=tuple(one.evaluator.name for one in config.configured_evaluators if not config.works(one)),
        versions=parts.versions,
        models={one.evaluator.name: parts.judges[one.judge].model for one in judged},
        statuses=running.statuses.current,
        changed=running.generations.latest,
        sliced=scoring.slicing.recent,
        slices=config.slices,
        explain_trace=diagnostics.live_trace,
        explain_evaluator=diagnostics.live_evaluator,
        missed=scoring.backfill.missed,
        retention=config.storage.retention,
        keeps_texts=config.storage.texts == "all",
        trials=trials,
    )


def trials(config: Config, parts: Parts) -> TrialQueue | None:
    """Return what runs trials; None where the UI is to have none."""
    per_hour = config.ui.max_trials_per_hour
    if not (config.ui.enabled and per_hour):
        return None
    running = parts.running
    return TrialQueue(per_hour, running.assignments, config.all_judges, runtime=running.runtime)
