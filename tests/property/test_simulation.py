"""Histories with drawn faults in virtual time; see `tests/simulation.py`, which plays more of them by option."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from tests import simulation
from tests.simulation import simulate

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_or_judged_twice_and_the_ledger_balances_whatever_is_drawn(seed: int) -> None:
    history = simulate(seed)
    assert history.acknowledged
    assert history.steps["done"]


def test_a_seed_gives_the_same_history_each_time() -> None:
    one, again = simulate(6), simulate(6)
    assert one.steps["killed"] > 1
    assert one.steps == again.steps
    assert list(one.published) == list(again.published)


def test_a_disk_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of the simulation can fail."""

    def forget(folder: Path) -> None:
        (folder / "kept").mkdir()

    monkeypatch.setattr(simulation, "snapshot", forget)
    with pytest.raises(AssertionError, match="lost"):
        deque(map(simulate, range(40)), maxlen=0)


def test_a_verdict_that_the_judge_did_not_give_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation.Judging, "ask", _generous)
    with pytest.raises(AssertionError, match="a verdict that was not given"):
        deque(map(simulate, range(10)), maxlen=0)


async def _generous(_judge: object, _question: object) -> object:
    return simulation.Verdict({"score": 5}, "m")
