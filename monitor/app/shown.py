"""What the page is given to look at."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.alerts.conditions import threshold
from monitor.alerts.policy import policy_for
from monitor.app.parts import Parts
from monitor.app.scoring import ScoringParts
from monitor.config import Config
from monitor.jobs.trial.queue import TrialQueue
from monitor.operations.diagnosis import Inquiry
from monitor.pipeline.introspection.live import LiveRequests
from monitor.web.facts import Facts


def facts(
    config: Config, parts: Parts, scoring: ScoringParts, looking: LiveRequests, tries: TrialQueue | None
) -> Facts:
    """All that the page looks at. With `tries` it can try an evaluator on a case."""
    running = parts.running

    def thresholds(app: str, evaluator: str) -> Mapping[str, float]:
        policy = policy_for(config.alerts, app, evaluator)
        return {severity.value: rate for severity, rate in policy.thresholds.items()} if policy is not None else {}

    judged = [one for one in running.assignments if one.evaluator.cost == "judge"]
    return Facts(
        runtime=running.runtime,
        windows=running.windows,
        results=running.history,
        alerts=lambda: running.alerts,
        assigned=config.assignments,
        versions=parts.versions,
        models={one.evaluator.name: parts.judges[one.judge].model for one in judged},
        idle=tuple(one.evaluator.name for one in config.assignments if not config.works(one)),
        thresholds=thresholds,
        standings=running.statuses.current,
        decisive=threshold.NAME,
        changed=running.generations.latest,
        keeps=config.storage.retention,
        keeps_texts=config.storage.texts == "all",
        slices=config.slices,
        asked=Inquiry(config, running.runtime.clock, looking),
        missed=scoring.backfill.missed,
        tries=tries,
        sliced=scoring.slicing.recent,
    )


def tries(config: Config, parts: Parts) -> TrialQueue | None:
    """For the page; None where it is to have none."""
    per_hour = config.ui.max_trials_per_hour
    if not (config.ui.enabled and per_hour):
        return None
    running = parts.running
    return TrialQueue(per_hour, running.assignments, config.all_judges, runtime=running.runtime)
