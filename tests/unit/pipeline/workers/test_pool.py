"""A pool of workers is refused before the start where it cannot work."""

from __future__ import annotations

import pytest

from monitor import registry
from monitor.config import parse_text
from monitor.errors import ConfigError
from monitor.extraction.settings import ExtractionSettings
from monitor.pipeline.local_evaluation import LocalReader
from monitor.pipeline.workers.pool import WorkerPool
from monitor.stages import Evaluator
from tests.support.evaluators import configured
from tests.support.runtime import runtime

REFUSAL = registry.read("evaluators", {"type": "refusal_pattern"}, Evaluator, "evaluators")


def test_what_cannot_be_sent_to_a_worker_is_refused_before_the_start() -> None:
    class OnlyHere(type(REFUSAL)):  # type: ignore[misc]
        """An evaluator of a class that no other process finds."""

    reader = LocalReader(registry.conventions(), ExtractionSettings(), [configured(OnlyHere())])
    with pytest.raises(
        Exception, match=r"scoring\.processes: a plug-in cannot be sent to a worker process .* set it to 0"
    ):
        WorkerPool(reader, 1, time_limit=1.0, runtime=runtime())


@pytest.mark.parametrize("text", ["scoring: {processes: -1}", "scoring: {processes: many}", "scoring: {time_limit: 0}"])
def test_a_number_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"scoring\.(processes|time_limit)"):
        parse_text(text)


def test_auto_leaves_a_core_to_the_receivers_and_has_at_least_one_worker() -> None:
    assert parse_text("scoring: {processes: auto}").scoring.number >= 1
    assert parse_text("scoring: {processes: 3}").scoring.number == 3
