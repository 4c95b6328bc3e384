"""What the history says of a release: when it began, and what was judged on either side."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.model.outcome import RateScope
from monitor.model.service_version import SeenVersion, ServiceVersion
from monitor.operations.gate import Criteria, Limit, Previous, ResultKey, Side, decide
from monitor.operations.gate import sums as module
from monitor.operations.gate.sums import HistorySums, newest
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.gating import GateDecision
from monitor.statistics.rates import Sums
from monitor.storage.history.tables import create, insert
from tests.support.results import judged

BEGAN = 1_700_000_000.0


def known(service: str, began: float, seen: float, **parts: str) -> SeenVersion:
    return SeenVersion("shop", "groundedness", ServiceVersion(service=service, **parts), began, seen)


def test_the_newest_of_those_that_answer_now_is_the_release() -> None:
    found = newest([known("1.9", 0, 1000), known("2.0", 1000, 2000)], since=1500)
    assert found is not None
    assert (found.at, found.text, found.note) == (1000, "service 1.9 -> 2.0", "")


def test_a_return_to_the_earlier_one_begins_where_the_later_one_ends() -> None:
    found = newest([known("1.9", 0, 3000), known("2.0", 1000, 2000)], since=2500)
    assert found is not None
    assert (found.at, found.text) == (2000, "service 2.0 -> 1.9")


def test_a_new_judge_is_no_release() -> None:
    assert newest([known("2.0", 0, 1000, judge="a"), known("2.0", 1000, 2000, judge="b")], since=500) is None


def test_one_that_goes_on_beside_it_is_noted() -> None:
    found = newest([known("1.9", 0, 2000), known("2.0", 1000, 2000)], since=1500)
    assert found is not None
    assert "--against stable" in found.note


def test_without_verdicts_since_nothing_is_known_of_a_release() -> None:
    assert newest([known("1.9", 0, 1000), known("2.0", 1000, 2000)], since=3000) is None


@pytest.fixture
def history(tmp_path: Path) -> HistorySums:
    """Ten answers, one a minute, every second defective; the last five by the other version of the service."""
    path = tmp_path / "history.db"
    db = create(path)
    results = [judged(60 * n, 4.0 - 3 * (n % 2), weight=1.0 + n) for n in range(10)]
    for number, one in enumerate(results):
        object.__setattr__(one.case, "attributes", {"service.version": "2.0" if number > 4 else "1.9"})
    aside = judged(7000, 1.0, scope=RateScope.NON_PRODUCTION, evaluated_at=BEGAN + 60)
    insert(db, [*results, aside], texts=False)
    db.close()
    return HistorySums(path)


def test_sums_are_weighted_and_in_blocks_of_the_window(history: HistorySums) -> None:
    first = BEGAN // 60 * 60
    found = history.blocks(Side(), "groundedness", first, first + 600, 300)
    assert list(found) == [ResultKey("shop", "v1")]
    assert [(one.judged, one.defects, one.weight, one.defect_weight) for one in found["shop", "v1"]] == [
        (5, 2, 15.0, 6.0),
        (5, 3, 40.0, 24.0),
    ]


def test_a_slice_has_its_own_answers_with_the_same_weights_and_none_that_do_not_count(history: HistorySums) -> None:
    for value, judged_, weight in (("1.9", 5, 15.0), ("2.0", 5, 40.0), ("3.0", 0, 0.0)):
        found = history.blocks(Side(None, "service.version", value), "groundedness", BEGAN, BEGAN + 600, 600)
        sums = [one for blocks in found.values() for one in blocks]
        assert sum(one.judged for one in sums) == judged_
        assert sum(one.weight for one in sums) == weight


def test_answers_of_a_slice_without_a_session_count_by_their_user(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(create(path)) as db:
        results = [judged(number, 1.0 if number < 4 else 4.0, weight=1.0) for number in range(20)]
        for number, one in enumerate(results):
            for name, value in (("attributes", {"tenant": "north"}), ("user_id", f"u-{number // 4}")):
                object.__setattr__(one.case, name, value)
        insert(db, results, texts=False, users=UserKey(bytes(32)))
    found = HistorySums(path).blocks(Side(None, "tenant", "north"), "groundedness", BEGAN, BEGAN + 60, 60)
    assert found["shop", "v1"] == [Sums.counted(20, 4, per_session=4)]


def test_another_app_or_evaluator_has_nothing(history: HistorySums) -> None:
    assert not history.blocks(Side("other"), "groundedness", BEGAN, BEGAN + 600, 600)
    assert not history.blocks(Side("shop"), "violence", BEGAN, BEGAN + 600, 600)


def test_more_results_than_can_be_read_are_an_error_and_not_a_part_of_them(
    history: HistorySums, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_ROWS", 3)
    with pytest.raises(ConfigError, match="since: there are more than 3"):
        history.blocks(Side(None, "service.version", "2.0"), "groundedness", BEGAN, BEGAN + 600, 600)


def test_where_there_is_no_history_the_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.db"):
        HistorySums(tmp_path / "nowhere.db")


def test_a_release_begins_with_its_first_answer_however_long_the_judge_takes(tmp_path: Path) -> None:
    """An answer a minute, the last ten of 2.0; the judge is ten minutes behind, and works on several at once."""
    path = tmp_path / "history.db"
    with closing(create(path)) as db:
        for number in (*range(20), 21, 20, *range(22, 30)):
            one = judged(number, weight=1.0, evaluated_at=BEGAN + 60 * number + 600)
            object.__setattr__(one.case, "answered_at", BEGAN + 60 * number)
            object.__setattr__(one, "service_version", ServiceVersion(service="2.0" if number >= 20 else "1.9"))
            insert(db, [one], texts=False)
    history = HistorySums(path)
    released = history.releases("groundedness", "shop", BEGAN)["shop"]
    assert (released.at, released.note) == ((BEGAN + 60 * 20) // 60 * 60, "")
    criteria = Criteria([Limit("groundedness", None)], since=3000.0, against=Previous(baseline=3600.0))
    (check,) = decide(criteria, history, now=BEGAN + 2400).checks
    assert check.base is not None
    assert (check.now.judged, check.base.judged) == (10, 20)


def test_beside_an_app_with_a_release_those_without_one_are_checked_too(tmp_path: Path) -> None:
    """The shop has released 2.0, which is as good as 1.9; the bank, of which one version is known, is bad."""
    path = tmp_path / "history.db"
    db = create(path)
    results = [judged(number, 4.0, weight=1.0) for number in range(6000)]
    for number, one in enumerate(results):
        object.__setattr__(one, "service_version", ServiceVersion(service="2.0" if number >= 3000 else "1.9"))
        object.__setattr__(one, "defect", number % 20 == 0)
    results += [judged(10_000 + number, 1.0, app="bank", evaluated_at=BEGAN + 4000) for number in range(50)]
    insert(db, results, texts=False)
    db.close()
    criteria = Criteria([Limit("groundedness", 0.1)], since=3000.0, against=Previous(baseline=3600.0))
    report = decide(criteria, HistorySums(path), now=BEGAN + 6000)
    found = {(one.app, one.kind): one.decision.answer for one in report.checks}
    assert found == {
        ("shop", "rate"): GateDecision.PASS,
        ("shop", "ratio"): GateDecision.PASS,
        ("bank", "rate"): GateDecision.FAIL,
        ("bank", "ratio"): GateDecision.NOT_ENOUGH_DATA,
    }
    assert report.answer is GateDecision.FAIL
    assert report.notes == ["bank: no previous version is known to compare with"]
