"""Finds what keeps a valid configuration from working, as far as can be told without the network and without a call."""

from __future__ import annotations

import os
from collections.abc import Iterator

from monitor import registry
from monitor.config import Config
from monitor.config import limits as memory_limits
from monitor.jobs.review.reviewers import read_reviewers, readable_by_others
from monitor.judge.budget import beyond_budget
from monitor.judge.client import check_judge_settings
from monitor.judge.setup import before_a_call, place_of, remedy


def warnings(config: Config) -> Iterator[str]:
    """Yield what will not work, and what to do about it: the monitor starts, but a part of it stays silent.

    Raises `ConfigError` for anything that keeps the monitor from starting. Takes seconds for a model in no price list.
    """
    registry.conventions()
    if config.limits.memory != "auto":
        memory_limits.plan(config)
    path = config.review.reviewers.token_file
    if config.review.enabled and path is not None:
        read_reviewers(path)
        exposed = readable_by_others(path)
        if exposed:
            yield f"review.reviewers.token_file: {exposed}"
    for one in config.configured_evaluators:
        why = config.why_off(one)
        if why and one.optional:
            yield f"{one.evaluator.name} is off, as `optional: true` allows: {why}"
    for name, settings in config.judges_with_models.items():
        place = place_of(name)
        price = check_judge_settings(settings, place)
        too_small = beyond_budget(settings, price)
        if too_small:
            yield f"{place}.budget: {too_small}; evaluations will stay unscored. To fix it: raise that limit"
        missing = before_a_call(settings, os.environ, place)
        if missing is not None:
            what = remedy(missing.cause, place, model=settings.model or "")
            yield f"{place}: {missing.why}; its evaluators will be paused. To fix it: {what}"
