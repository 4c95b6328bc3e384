from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import JudgeError
from monitor.judge.budget import BudgetTracker, estimate_tokens
from monitor.judge.settings import Budget
from monitor.model.outcome import UnscoredReason
from monitor.stages.replica_share import ReplicaShare

MIDNIGHT = 1_700_006_400.0 - 1_700_006_400.0 % 86_400


def purse(clock: ManualClock | None = None, **caps: float) -> BudgetTracker:
    return BudgetTracker(Budget.model_validate(caps), clock or ManualClock(MIDNIGHT))


def refused(of: BudgetTracker, dollars: float) -> bool:
    try:
        of.reserve_dollars(dollars)
    except JudgeError as error:
        return error.reason is UnscoredReason.BUDGET
    return False


def test_what_is_reserved_counts_before_the_call_has_ended():
    """J9, F12."""
    mine = purse(dollars_per_day=1)
    mine.reserve_dollars(0.6)
    assert refused(mine, 0.6)


def test_what_is_settled_for_less_makes_room():
    """J9."""
    mine = purse(dollars_per_day=1)
    mine.settle(mine.reserve_dollars(1.0), 0.25)
    assert not refused(mine, 0.75)
    assert refused(mine, 0.01)


def test_the_hourly_cap_holds_within_the_daily_one():
    """J9."""
    clock = ManualClock(MIDNIGHT)
    mine = purse(clock, dollars_per_day=3, dollars_per_hour=1)
    spent = 0
    for _ in range(5):
        while not refused(mine, 1):
            spent += 1
        clock.advance(3600)
    assert spent == 3
    clock.advance(86_400)
    assert not refused(mine, 1)


def test_a_call_over_the_end_of_a_period_is_not_taken_out_of_the_next():
    clock = ManualClock(MIDNIGHT)
    mine = purse(clock, dollars_per_day=1)
    over_midnight = mine.reserve_dollars(1)
    clock.advance(86_400)
    mine.reserve_dollars(1)
    mine.settle(over_midnight, 0)
    assert refused(mine, 0.01)


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0, 3600.0, -3600.0])
def test_a_jump_of_the_wall_clock_opens_no_new_period(jump):
    """F9."""
    clock = ManualClock(MIDNIGHT)
    mine = purse(clock, dollars_per_day=1, dollars_per_hour=1)
    mine.reserve_dollars(1)
    clock.jump(jump)
    assert refused(mine, 0.01)


def test_judgements_have_a_cap_of_their_own():
    """J9."""
    mine = purse(evaluations_per_day=1)
    given_back = mine.reserve_judgement()
    mine.settle(given_back, 0)
    mine.settle(mine.reserve_judgement(), 1)
    with pytest.raises(JudgeError, match="evaluations_per_day"):
        mine.reserve_judgement()
    mine.reserve_dollars(1_000_000)


def test_a_cap_is_told_once_a_period():
    """J9: an event, not a flood."""
    told: list[str] = []
    clock = ManualClock(MIDNIGHT)
    mine = BudgetTracker(Budget(dollars_per_day=1), clock, lambda cap, _until: told.append(cap))
    for _ in range(3):
        refused(mine, 2)
    assert told == ["dollars_per_day"]
    clock.advance(86_400)
    refused(mine, 2)
    assert told == ["dollars_per_day"] * 2


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1), st.booleans())))
def test_no_order_of_calls_that_cost_no_more_than_reserved_overruns_a_cap(calls):
    """F12: no overrun by design, whether calls end before the next one begins or not."""
    mine = purse(dollars_per_day=1)
    spent = 0.0
    for estimate, share, ends_now in calls:
        try:
            reservation = mine.reserve_dollars(estimate)
        except JudgeError:
            continue
        spent += estimate * share
        if ends_now:
            mine.settle(reservation, estimate * share)
    assert spent <= 1 + 1e-9


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("word", 1), ("words", 2), ("質問", 2), ("ab質", 2)])
def test_other_scripts_than_latin_are_estimated_at_a_token_a_character(text, tokens):
    assert estimate_tokens([text]) == tokens


def test_replicas_spend_the_caps_of_their_group_together() -> None:
    clock, purses = ManualClock(MIDNIGHT), []
    for part in (0.5, 0.25, 0.25):
        group = ReplicaShare()
        group.set("kafka", part)
        purses.append(BudgetTracker(Budget(evaluations_per_day=100), clock, group=group))
    assert [_judgements(one) for one in purses] == [50, 25, 25]


def test_what_is_left_of_a_period_follows_a_rebalance() -> None:
    clock, shares = ManualClock(MIDNIGHT), (ReplicaShare(), ReplicaShare())
    for share in shares:
        share.set("kafka", 0.5)
    first, second = (BudgetTracker(Budget(evaluations_per_day=100), clock, group=share) for share in shares)
    assert _judgements(first, 20) == _judgements(second, 20) == 20
    shares[0].set("kafka", 1.0)  # the other replica is gone, with its share of what is left
    assert _judgements(first) == 60
    clock.advance(86_400)
    assert _judgements(first) == 100


def test_without_partitions_what_is_in_hand_is_paid_from_the_share_before() -> None:
    share = ReplicaShare()
    share.set("kafka", 0.5)
    purse = BudgetTracker(Budget(evaluations_per_day=100), ManualClock(MIDNIGHT), group=share)
    share.set("kafka", 0.0)
    assert _judgements(purse) == 50


def _judgements(purse: BudgetTracker, at_most: int = 1000) -> int:
    """How many judgements it gives out."""
    for number in range(at_most):
        try:
            purse.reserve_judgement()
        except JudgeError:
            return number
    return at_most
