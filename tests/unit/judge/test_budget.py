from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import JudgeError
from monitor.judge.budget import BudgetTracker, Reservation, estimate_tokens
from monitor.judge.settings import Budget
from monitor.model.outcome import UnscoredReason
from monitor.stages.kept_state import KeptState, StateValue
from monitor.stages.replica_share import ReplicaShare
from tests.support.virtual_time import LoopClock

MIDNIGHT = 1_700_006_400.0 - 1_700_006_400.0 % 86_400


def purse(clock: ManualClock | None = None, **caps: float) -> BudgetTracker:
    return BudgetTracker(Budget.model_validate(caps), clock or ManualClock(MIDNIGHT))


def refused(of: BudgetTracker, dollars: float) -> bool:
    """Whether it hands out nothing, for the period or for as long as others are in flight."""
    try:
        return of.reserve_dollars(dollars) is None
    except JudgeError as error:
        return error.reason is UnscoredReason.BUDGET


def reserved(of: BudgetTracker, dollars: float) -> Reservation:
    found = of.reserve_dollars(dollars)
    assert found is not None
    return found


def judgement(of: BudgetTracker) -> Reservation:
    found = of.reserve_judgement()
    assert found is not None
    return found


def test_what_is_reserved_counts_before_the_call_has_ended():
    """J9, F12."""
    mine = purse(dollars_per_day=1)
    mine.reserve_dollars(0.6)
    assert refused(mine, 0.6)


def test_what_is_settled_for_less_makes_room():
    """J9."""
    mine = purse(dollars_per_day=1)
    mine.settle(reserved(mine, 1.0), 0.25)
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
    over_midnight = reserved(mine, 1)
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
    mine.settle(judgement(mine), 0)
    mine.settle(judgement(mine), 1)
    with pytest.raises(JudgeError, match="evaluations_per_day"):
        mine.reserve_judgement()
    mine.reserve_dollars(1_000_000)


def test_a_cap_is_told_once_a_period():
    """J9: an event, not a flood."""
    told: list[str] = []
    clock = ManualClock(MIDNIGHT)
    mine = BudgetTracker(Budget(dollars_per_day=1), clock, lambda cap, _until: told.append(cap))
    for _ in range(2):
        mine.settle(reserved(mine, 1), 1)
        for _ in range(3):
            assert refused(mine, 1)
        clock.advance(86_400)
    assert told == ["dollars_per_day"] * 2


def test_where_only_calls_in_flight_are_in_the_way_the_budget_is_not_spent():
    told: list[str] = []
    mine = BudgetTracker(Budget(dollars_per_day=1), ManualClock(MIDNIGHT), lambda cap, _until: told.append(cap))
    first, second = reserved(mine, 0.5), reserved(mine, 0.5)
    assert mine.reserve_dollars(0.5) is None
    mine.settle(first, 0.1)
    third = reserved(mine, 0.4)
    assert mine.reserve_dollars(0.4) is None
    mine.settle(second, 0.5)
    mine.settle(third, 0.1)
    assert told == []
    with pytest.raises(JudgeError, match=r"dollars_per_day \(1\) is spent until 00:00 UTC"):
        mine.reserve_dollars(0.4)
    assert told == ["dollars_per_day"]


def test_a_cap_below_the_price_of_one_call_says_so_and_is_told_without_a_time():
    told: list[tuple[str, str]] = []
    mine = BudgetTracker(Budget(dollars_per_day=0.0005), ManualClock(MIDNIGHT), lambda *one: told.append(one))
    for _ in range(2):
        with pytest.raises(JudgeError) as refusal:
            mine.reserve_dollars(0.00075)
        assert str(refusal.value) == "one call may cost up to $0.00075, more than dollars_per_day (0.0005)"
        assert refusal.value.reason is UnscoredReason.BUDGET
    assert told == [("dollars_per_day", "")]


def test_what_was_reserved_before_midnight_does_not_make_the_next_day_wait():
    clock = ManualClock(MIDNIGHT)
    mine = purse(clock, dollars_per_day=1)
    before = reserved(mine, 1)
    clock.advance(86_400)
    mine.settle(reserved(mine, 1), 1)
    with pytest.raises(JudgeError, match="is spent"):
        mine.reserve_dollars(0.1)
    mine.settle(before, 0)
    with pytest.raises(JudgeError, match="is spent"):
        mine.reserve_dollars(0.1)


@pytest.mark.anyio
async def test_calls_wait_in_turn_for_room_so_that_small_ones_do_not_keep_out_a_large_one():
    mine = BudgetTracker(Budget(dollars_per_day=1), LoopClock())
    order: list[float] = []
    taken: list[Reservation] = []

    async def one(amount: float) -> None:
        taken.append(await mine.wait_for_dollars(amount, asyncio.get_running_loop().time() + 600))
        order.append(amount)

    held = [reserved(mine, 0.5), reserved(mine, 0.4)]
    async with anyio.create_task_group() as tasks:
        for amount in (0.6, 0.1, 0.1):
            tasks.start_soon(one, amount)
            await asyncio.sleep(1)
        assert order == []
        for before in held:
            mine.settle(before, 0.1)
            await asyncio.sleep(1)
    assert order == [0.6, 0.1, 0.1]


@pytest.mark.anyio
async def test_a_call_that_waits_in_vain_ends_at_its_deadline_and_leaves_nothing_reserved():
    told: list[str] = []
    loop = asyncio.get_running_loop()
    mine = BudgetTracker(Budget(dollars_per_day=1), LoopClock(), lambda cap, _until: told.append(cap))
    held = reserved(mine, 1)
    began = loop.time()
    with pytest.raises(JudgeError, match="calls in flight had reserved") as failed:
        await mine.wait_for_dollars(0.5, began + 60)
    assert failed.value.reason is UnscoredReason.BUDGET
    assert loop.time() - began == pytest.approx(60)
    mine.settle(held, 0)
    assert not refused(mine, 1)
    assert told == []


@pytest.mark.anyio
@pytest.mark.parametrize("budget", [Budget(), Budget(dollars_per_day=1, evaluations_per_day=1)])
async def test_after_its_deadline_a_call_still_gets_what_is_free_at_once(budget):
    """A deadline limits a wait: it is no reason to say of a budget that it was spent."""
    mine = BudgetTracker(budget, LoopClock())
    late = asyncio.get_running_loop().time() - 5
    assert (await mine.wait_for_judgement(late)).amount == 1
    assert (await mine.wait_for_dollars(1, late)).amount == 1


@pytest.mark.anyio
async def test_after_its_deadline_a_call_does_not_wait_for_calls_in_flight():
    mine = BudgetTracker(Budget(dollars_per_day=1), LoopClock())
    reserved(mine, 1)
    late = asyncio.get_running_loop().time() - 5
    with pytest.raises(JudgeError, match=r"calls in flight had reserved the rest of the budget$"):
        await mine.wait_for_dollars(1, late)


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
        if reservation is None:
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
            if purse.reserve_judgement() is None:
                return number
        except JudgeError:
            return number
    return at_most


# -- over restarts


class _Kept(KeptState):
    """Keeps one value, as the disk would: what was flushed, or at the end what is current."""

    def __init__(self, value: object = None) -> None:
        self.value: Any = value
        self.current: Callable[[], StateValue] = dict

    def load(self, _name: str) -> StateValue | None:
        return None if self.value is None else {"evaluations_per_day": self.value}

    def follow(self, _name: str, current: Callable[[], StateValue]) -> None:
        self.current = current

    async def flush(self, _name: str = "") -> None:
        self.value = self.current()["evaluations_per_day"]


class _Replica:
    """A process with a folder, which it finds again when it restarts."""

    def __init__(self, value: object = None, *, at_most: int = 40) -> None:
        self.kept, self.at_most = _Kept(value), at_most

    def start(self, share: float, at_most: int | None = None) -> None:
        self.share = ReplicaShare()
        self.share.set("kafka", share)
        budget = Budget(evaluations_per_day=at_most or self.at_most)
        self.purse = BudgetTracker(budget, ManualClock(MIDNIGHT), group=self.share, kept=self.kept)

    async def spend(self, at_most: int = 1000) -> int:
        spent = 0
        while spent < at_most and _judgements(self.purse, 1):
            spent += 1
            await self.purse.claim()
        return spent

    async def stop(self, *, killed: bool = False) -> None:
        if not killed:
            self.purse.close()
            await self.kept.flush()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.anyio
async def test_the_first_replica_that_is_back_finds_no_budget_that_the_others_have_spent(killed: bool) -> None:
    fleet = [_Replica(), _Replica()]
    for one in fleet:
        one.start(0.5)
        assert await one.spend() == 20
        await one.stop(killed=killed)
    fleet[0].start(1.0)
    assert await fleet[0].spend() == 0
    fleet[0].share.set("kafka", 0.5)
    fleet[1].start(0.5)
    assert [await one.spend() for one in fleet] == [0, 0]


@pytest.mark.anyio
async def test_what_is_left_after_a_restart_with_another_share_is_that_share_of_it() -> None:
    fleet = [_Replica(), _Replica()]
    for one in fleet:
        one.start(0.5)
        assert await one.spend(5) == 5
        await one.stop()
    fleet[1].start(1.0)
    assert await fleet[1].spend() == 30
    fleet[1].share.set("kafka", 0.5)
    assert await fleet[1].spend() == 0


@pytest.mark.anyio
async def test_a_changed_limit_counts_after_a_restart_and_what_was_spent_stays_spent() -> None:
    one = _Replica()
    one.start(0.5)
    assert await one.spend() == 20
    await one.stop()
    one.start(1.0, at_most=50)
    assert await one.spend() == 10
    await one.stop()
    one.start(1.0, at_most=30)
    assert await one.spend() == 0


@pytest.mark.anyio
async def test_a_kill_after_a_smaller_share_gives_back_nothing_of_what_was_claimed_with_a_larger_one() -> None:
    one = _Replica(at_most=1000)  # ten are claimed at once
    one.start(1.0)
    assert await one.spend(1) == 1
    one.share.set("kafka", 0.1)
    assert await one.spend(9) == 9  # those of a tenth of the places: all have spent 91
    await one.stop(killed=True)
    one.start(1.0)
    assert await one.spend() <= 909


@pytest.mark.anyio
async def test_what_an_earlier_version_kept_counts_as_spent_with_the_share_of_today() -> None:
    today = int(MIDNIGHT // 86_400)
    one = _Replica([today, 15])
    one.start(0.5)
    await one.stop()
    assert one.kept.value == [today, 15.0]
    one.start(0.5)
    assert await one.spend() == 5


@pytest.mark.parametrize(
    "rest",
    [[math.nan], [math.inf], [-1.0], [10**400], [1e300], ["30"], [None], [True], [[30.0]], [0.0], [3.0]],
    ids=lambda rest: str(rest)[:8],
)
@pytest.mark.anyio
async def test_a_damaged_amount_of_all_replicas_is_ignored_but_not_what_this_one_spent(rest: list[object]) -> None:
    one = _Replica([int(MIDNIGHT // 86_400), 15.0, *rest])
    one.start(1.0)
    assert await one.spend() == 25


@pytest.mark.parametrize(
    "used", [math.nan, math.inf, -math.inf, -1.0, 10**400, 1e300, "15", None, True, [15.0]], ids=lambda u: str(u)[:8]
)
@pytest.mark.anyio
async def test_a_damaged_amount_is_ignored(used: object) -> None:
    one = _Replica([int(MIDNIGHT // 86_400), used, 30.0])
    one.start(1.0)
    assert await one.spend() == 40


@pytest.mark.parametrize("value", [[], [1], {}, 3, "spent", [1.5, 2.0, 3.0], ["1", 2.0, 3.0], [10**400, 2.0, 3.0]])
@pytest.mark.anyio
async def test_a_damaged_value_is_ignored(value: object) -> None:
    one = _Replica(value)
    one.start(1.0)
    assert await one.spend() == 40
