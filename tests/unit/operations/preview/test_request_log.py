"""What a configuration would do with the requests of the records: by the hash of the ids, and by sums where none is."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor import config as configuration
from monitor.config import Config
from monitor.model.request_log import EvaluatorDecision, RequestRecord, RequestStep
from monitor.operations.preview.request_log import LoggedTraffic, predict_from_log
from monitor.statistics import consistent_sampling
from monitor.storage.request_log import store
from monitor.storage.request_log.store import Minute, StepCount
from tests.support.examples import examples
from tests.support.results import request_record

NOW = 1_800_000_000.0
AT = int(NOW) - 600
SALT = "rag-monitor"


def name(number: int) -> str:
    """An id with its 56 random bits spread evenly, as those of real traces are."""
    return f"{number:018x}{number * 0x9E3779B97F4A7C % (1 << 56):014x}"


def record(number: int, **fields: Any) -> RequestRecord:
    return request_record(number, AT, **{"request_id": name(number), "ended_at": AT + number / 1000, **fields})


def kept_at(rate: float, numbers: int) -> tuple[list[RequestRecord], int]:
    """The records of so many requests that came at that head rate, and how many left out."""
    kept = [n for n in range(numbers) if consistent_sampling.keep(bytes.fromhex(name(n)), "", rate)[0]]
    return [record(n, probability=rate) for n in kept], numbers - len(kept)


def configured(folder: Path, **sections: Any) -> Config:
    judge = {"model": "openai/gpt-4o-mini", "api_key": "none"}
    base = {"judge": judge, "evaluators": [{"type": "groundedness"}], "storage": {"path": str(folder)}, "alerts": []}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**base, **sections}))
    return configuration.load(path)


def told(
    folder: Path, records: list[RequestRecord], sums: dict[str, int] | None = None, **sections: Any
) -> LoggedTraffic:
    """What is told of these records, with further requests by outcome that have none."""
    outcomes = Counter(sums or {})
    outcomes.update(one.outcome for one in records)
    path = folder / "request_log.db"
    path.unlink(missing_ok=True)
    with closing(store.create(path)) as db:
        minute = AT // 60 * 60
        counted = {
            Minute(minute, RequestStep("shop", "otlp_http", "", f)): StepCount(n, 0.0, AT + 60)
            for f, n in outcomes.items()
        }
        store.insert(db, records, counted)
    found = predict_from_log(configured(folder, **sections), 3600.0, NOW)
    assert found is not None
    return found


def test_at_the_same_rate_what_was_kept_is_kept_and_what_was_left_out_is_counted(tmp_path):
    records, left_out = kept_at(0.5, 400)
    found = told(tmp_path, records, {"sampled_out": left_out}, sampling={"traces": 0.5})
    assert (found.received, found.kept_then) == (400, len(records))
    assert found.outcomes == {"kept": len(records), "sampled_out": left_out}
    assert not found.notes


def test_at_a_lower_rate_the_hash_of_the_ids_decides_as_production_would(tmp_path):
    records, left_out = kept_at(0.5, 400)
    found = told(tmp_path, records, {"sampled_out": left_out}, sampling={"traces": 0.2})
    would_be, _ = kept_at(0.2, 400)
    assert found.outcomes["kept"] == len(would_be)
    assert {one for one, _ in found.listed} <= {one.request_id for one in would_be}


def test_at_a_higher_rate_the_sums_scale_what_was_kept_and_it_is_said(tmp_path):
    records, left_out = kept_at(0.1, 1000)
    found = told(tmp_path, records, {"sampled_out": left_out}, sampling={"traces": 0.4})
    assert found.outcomes["kept"] == pytest.approx(400)
    assert found.evaluators["groundedness"].applies == pytest.approx(400)
    assert "the kept ones are scaled up" in found.notes[0]


def test_a_rate_close_to_all_is_not_taken_for_a_sampler_in_front(tmp_path):
    records = [record(n, probability=0.99) for n in range(1, 1000)]
    found = told(tmp_path, records, {"sampled_out": 1}, sampling={"traces": 1.0})
    assert found.outcomes == {"kept": pytest.approx(1000)}


def test_a_sampler_in_front_of_the_monitor_is_not_taken_for_its_own(tmp_path):
    records, _ = kept_at(0.1, 1000)  # nothing was left out here
    found = told(tmp_path, records, sampling={"traces": 1.0})
    assert found.outcomes == {"kept": len(records)}
    halved = told(tmp_path, records, sampling={"traces": 0.5})
    assert halved.outcomes["kept"] == len(kept_at(0.05, 1000)[0])


def test_each_evaluator_chooses_by_the_hash_with_the_configured_salt(tmp_path):
    records, _ = kept_at(1.0, 300)
    evaluators = [{"type": "groundedness", "sample": "30%"}, {"type": "response_length", "sample": "10%"}]
    for salt in (SALT, "another"):
        found = told(tmp_path, records, evaluators=evaluators, sampling={"salt": salt})
        for evaluator, rate in (("groundedness", 0.3), ("response_length", 0.1)):
            wanted = sum(consistent_sampling.chosen(one.request_id, salt, rate) for one in records)
            assert found.evaluators[evaluator].selected == wanted
        (group,) = found.groups  # the local one is asked of nobody
        assert group.shares == pytest.approx([30.0, 90.0, 270.0])
        newest = [t.request_id for t in reversed(records) if consistent_sampling.chosen(t.request_id, salt, 0.3)]
        assert [one for one, _ in found.listed] == newest[:20]


def test_what_an_evaluator_did_not_apply_to_it_does_not_choose(tmp_path):
    missing = [
        record(n, decisions=(EvaluatorDecision(evaluator="groundedness", missing="no_retrieval"),)) for n in range(10)
    ]
    repeated = [
        record(n, decisions=(EvaluatorDecision(evaluator="groundedness", repeated=True),)) for n in range(10, 15)
    ]
    rest = [record(n, decisions=(EvaluatorDecision(evaluator="groundedness", chosen=True),)) for n in range(15, 20)]
    found = told(tmp_path, missing + repeated + rest).evaluators["groundedness"]
    assert (found.applies, found.selected, found.assumed) == (5, 5, False)
    bare = told(tmp_path, [record(1, outcome="no_retrieval"), record(2)]).evaluators["groundedness"]
    assert (bare.applies, bare.assumed) == (1, True)


def test_what_goes_by_a_budget_or_a_quota_is_counted_as_it_was_and_said_not_to_be_foretold(tmp_path):
    drawn = tuple(
        record(n, decisions=(EvaluatorDecision(evaluator="groundedness", probability=0.25),)) for n in range(200)
    )
    wanted = sum(consistent_sampling.chosen(one.request_id, SALT, 0.25) for one in drawn)
    budget = [{"type": "groundedness", "sample": {"type": "budget", "per_day": 50}}]
    for sections in ({"evaluators": budget}, {"traffic": {"quotas": {"*": {"per_hour": 6}}}}):
        answer = told(tmp_path, [*drawn, record(500)], **sections)
        found, (group,) = answer.evaluators["groundedness"], answer.groups
        assert (found.selected, found.unknown) == (wanted, 1)
        assert found.unpredictable
        assert group.shares[1] == pytest.approx(201 * 0.25)  # what is not known is as what is


def test_rates_by_app_are_known_and_those_by_what_no_trail_holds_are_not(tmp_path):
    records = [record(n, app="search" if n % 2 else "shop") for n in range(100)]
    rates = {"type": "by_attribute", "attribute": "app", "rates": {"search": 0, "shop": 1}}
    found = told(tmp_path, records, evaluators=[{"type": "groundedness", "sample": rates}]).evaluators["groundedness"]
    assert (found.selected, found.unpredictable) == (50, "")
    rates |= {"attribute": "metadata.tenant"}
    found = told(tmp_path, records, evaluators=[{"type": "groundedness", "sample": rates}]).evaluators["groundedness"]
    assert (found.selected, found.unknown, bool(found.unpredictable)) == (0, 100, True)


def test_the_rate_of_a_class_is_drawn_anew(tmp_path):
    option = "traffic.rates.synthetic"
    left_out = [record(n, outcome="sampled_out", detail=option) for n in range(100)]
    live = [record(n, traffic="production") for n in range(100, 120)]
    found = told(tmp_path, left_out + live, traffic={"rates": {"synthetic": 0.5}})
    wanted = sum(consistent_sampling.chosen(one.request_id, f"{SALT}/traffic", 0.5) for one in left_out)
    assert found.outcomes == {"kept": 20 + wanted, "sampled_out": 100 - wanted}
    assert found.kept_then == 120


def test_where_a_part_of_the_trails_is_gone_the_others_stand_for_all_and_it_is_said(tmp_path):
    found = told(tmp_path, [record(n) for n in range(100)], {"evaluated": 300, "invalid": 7})
    assert found.outcomes == {"invalid": 7, "kept": 400}
    assert found.evaluators["groundedness"].selected == 400
    assert "each represents 4 requests" in found.notes[0]


def test_without_any_trail_the_sums_are_told_and_nothing_is_foretold(tmp_path):
    found = told(tmp_path, [], {"evaluated": 3, "sampled_out": 7})
    assert (found.received, found.kept_then, found.outcomes) == (10, 3, {"evaluated": 3, "sampled_out": 7})
    assert "is unknown" in found.notes[0]
    assert not found.evaluators


def test_before_anything_is_recorded_there_is_no_answer(tmp_path):
    assert predict_from_log(configured(tmp_path), 3600.0, NOW) is None
    store.create(tmp_path / "request_log.db").close()
    assert predict_from_log(configured(tmp_path), 3600.0, NOW) is None


@examples(25)
@given(
    then=st.sampled_from([0.05, 0.5, 1.0]),
    rate=st.sampled_from([0.0, 0.01, 0.3, 0.5, 1.0]),
    came=st.integers(1, 60),
    others=st.dictionaries(
        st.sampled_from(["invalid", "own_telemetry", "filtered", "evaluated"]), st.integers(1, 50), max_size=3
    ),
)
def test_all_that_came_ends_somewhere(tmp_path, then, rate, came, others):
    records, left_out = kept_at(then, came)
    sums = {**others, "sampled_out": left_out}
    found = told(tmp_path, records, {outcome: n for outcome, n in sums.items() if n}, sampling={"traces": rate})
    assert found.received == came + sum(others.values())
    assert sum(found.outcomes.values()) == pytest.approx(found.received)
    assert all(number >= 0 for number in found.outcomes.values())
