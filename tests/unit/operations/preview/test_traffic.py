"""Recorded traffic: which past calls tell how long prompts are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import yaml

from monitor import config as configuration
from monitor.model.outcome import Cost, RecheckOutcome
from monitor.model.request_log import RequestStep
from monitor.model.severe import SecondJudgement, SevereOutcome
from monitor.operations.preview.traffic import from_history
from monitor.storage import files
from monitor.storage.request_log import store
from monitor.storage.request_log.store import Minute, StepCount
from tests.support.histories import BEGAN, keep
from tests.support.results import judged, request_record


def test_the_tokens_of_a_prompt_are_those_of_one_judgement_that_a_judge_gave(tmp_path: Path) -> None:
    """Also where it shares its call with other evaluators, and has no attempt of its own."""
    again = SecondJudgement(SevereOutcome.CONFIRMED, 1.0, "m")
    keep(
        tmp_path / files.HISTORY,
        judged(1, cost=Cost("m", input_tokens=100, attempts=1, asked=True)),
        judged(2, cost=Cost("m", input_tokens=40, attempts=0, asked=True)),
        judged(3, cost=Cost("m", input_tokens=300, attempts=2)),
        judged(4, cost=Cost("m", cached=True)),
        judged(5, cost=Cost("m", input_tokens=200, attempts=2, asked=True), recheck=RecheckOutcome.SAME),
        judged(6, cost=Cost("m", input_tokens=200, attempts=2, asked=True), second=again),
    )
    with closing(store.create(tmp_path / files.REQUEST_LOG)) as db:
        step = RequestStep("shop", "otlp_http", "", "kept")
        counted = {Minute(int(BEGAN) // 60 * 60, step): StepCount(1, 0.0, BEGAN)}
        store.insert(db, [request_record(1, BEGAN)], counted)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"storage": {"path": str(tmp_path)}}))
    found = from_history(configuration.load(path), 3600.0, BEGAN + 60)
    assert found.input_tokens == {"groundedness": {f"{1:032x}": 100, f"{2:032x}": 40}}
