"""Limits what evaluations cost: the estimate is reserved before a call and settled at the real price after it.

If a call does not fit only because of other calls' reservations, it waits until they are settled: most cost less.

A model's price is the configured price, or else the price in litellm's list, read without importing litellm.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import importlib.util
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import anyio

from monitor.clock import Clock
from monitor.errors import ConfigError, JudgeError
from monitor.judge.settings import Budget, JudgeSettings
from monitor.judge.setup import MAY_COST
from monitor.model.outcome import UnscoredReason
from monitor.quantities import dollars
from monitor.stages.kept_state import KeptState
from monitor.stages.replica_share import ReplicaShare
from monitor.statistics.limits import CalendarCap

_LIST = "model_prices_and_context_window_backup.json"
_PROVIDERS = "provider_endpoints_support_backup.json"


@dataclass(frozen=True, slots=True)
class Tariff:
    """US dollars per token of the prompt and per token of the answer."""

    input: float = 0.0
    output: float = 0.0

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of a call."""
        return input_tokens * self.input + output_tokens * self.output


def tariff(settings: JudgeSettings, place: str = "judge") -> Tariff | None:
    """Return the price of the configured model; None if it is unknown.

    Raises `ConfigError` if it is unknown and a budget is in dollars: such a budget would have no effect.
    """
    if settings.price is not None:
        return Tariff(settings.price.input_per_million / 1e6, settings.price.output_per_million / 1e6)
    found = _listed(settings.model or "")
    if found is None and settings.budget.in_dollars:
        raise ConfigError(
            f"{place}.budget: it is in dollars, but LiteLLM knows no price for {place}.model {settings.model!r}; "
            f"set {place}.price {{input_per_million, output_per_million}}, or a budget in evaluations_per_day"
        )
    return found


def is_listed(model: str) -> bool:
    """Return whether litellm's lists have the model, or at least the provider that its name begins with."""
    provider, slash, name = model.partition("/")
    if not slash:
        return model in _list()
    return bool(name) and provider in _providers()


@functools.cache
def _providers() -> frozenset[str]:
    of_models = {str(entry.get("litellm_provider")) for entry in _list().values() if isinstance(entry, dict)}
    return frozenset(of_models.union(_read(_PROVIDERS).get("providers", ())))


def _listed(model: str) -> Tariff | None:
    provider, _, name = model.partition("/")
    entry = _list().get(model)
    if entry is None and name:
        entry = _list().get(name)
        if entry is not None and entry.get("litellm_provider") != provider:
            return None  # another provider's model of the same name, with another price
    if entry is None:
        return None
    prices = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
    if any(not isinstance(one, (int, float)) or not math.isfinite(one) or one < 0 for one in prices):
        return None
    return Tariff(*prices)


@functools.cache
def _list() -> dict[str, Any]:
    return _read(_LIST)


def _read(name: str) -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    for base in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(base) / name
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_bytes())
            return found
    return {}


def beyond_budget(settings: JudgeSettings, price: Tariff | None) -> str:
    """Return, in words, which cap is less than a call of ordinary length may cost; empty if none is."""
    most = price.dollars(*_ORDINARY) if price is not None else 0.0
    caps = {name: getattr(settings.budget, name) for name in ("dollars_per_hour", "dollars_per_day")}
    found = next((name for name, cap in caps.items() if cap is not None and most > cap), None)
    return f"{MAY_COST} {dollars(most)}, more than {found} ({caps[found]:g})" if found is not None else ""


_ORDINARY = 2_000, 1_024
"""Tokens of an ordinary prompt, and the maximum of a reply."""

_HOUR, _DAY = 3600.0, 86_400.0
_BLOCKS = 100
"""Number of blocks in which a budget is claimed on disk."""
_MOST = 1e12
"""No budget spends more dollars or evaluations in a period: a stored number above it is corrupt."""
_ROUNDING = 1 + 1e-9


@dataclass(slots=True)
class _Cap:
    name: str
    cap: CalendarCap
    whole: bool
    """Whether it counts evaluations, not dollars."""
    block: float
    """How much is claimed at once: the most that a kill can cost, besides the calls that it cuts off."""
    reported: int = -1
    """The last period in which reaching the cap was reported."""
    claimed: float = 0.0
    """The amount recorded on disk as spent in the period `claimed_in`: never less than the amount used."""
    claimed_in: int = -1
    claimed_by_all: float | None = 0.0
    """The estimated spending of all replicas, including what is claimed; None if unknown."""
    reserved: float = 0.0
    """The part of the amount used in the period `reserved_in` that `open` calls have reserved and not yet settled."""
    reserved_in: int = -1
    open: int = 0

    def reserve(self, amount: float) -> None:
        """Count `amount` as used, until it is settled."""
        if self.reserved_in != self.cap.index:
            self.reserved_in, self.reserved, self.open = self.cap.index, 0.0, 0
        self.cap.use(amount)
        self.reserved += amount
        self.open += 1

    def settle(self, reserved: float, amount: float) -> None:
        """Replace a reservation with the real amount."""
        self.cap.use(amount - reserved)
        self.open -= 1
        self.reserved = self.reserved - reserved if self.open else 0.0

    def may_fit(self, amount: float) -> bool:
        """Return whether `amount` would fit if all reservations were given back."""
        return self.reserved_in == self.cap.index and self.open > 0 and self.cap.fits(amount - self.reserved)

    def claim(self) -> bool:
        """Claim more if more is used than is claimed, and return whether there is a new claim to write."""
        if self.claimed_in != self.cap.index:
            self.claimed_in, self.claimed, self.claimed_by_all = self.cap.index, 0.0, 0.0
        by_all = self.cap.used_by_all() or 0.0
        # An amount claimed with a larger share covers less of what all replicas have spent.
        if self.cap.used <= self.claimed and by_all <= (self.claimed_by_all or 0.0) * _ROUNDING:
            return False
        self.claimed = max(self.cap.used, min(self.cap.used + self.block, self.cap.limit))
        self.claimed_by_all = self.cap.used_by_all(self.claimed - self.cap.used)
        return True

    def restore(self, kept: object, newest: int) -> None:
        """Continue from the stored value, if `written` can have made it in a period up to `newest`."""
        match kept:
            case [int(index), used, *rest] if index <= newest and _is_amount(used):
                by_all = float(rest[0]) if rest and _is_amount(rest[0]) else None
                self.cap.restore(index, float(used), by_all)
                self.claimed_in, self.claimed, self.claimed_by_all = index, float(used), by_all

    def written(self, *, exact: bool) -> list[float]:
        """Return the period, the amount spent in it, and the estimated spending of all replicas if known."""
        index, used, by_all = self.claimed_in, self.claimed, self.claimed_by_all
        if exact:
            index, used, by_all = self.cap.index, self.cap.used, self.cap.used_by_all()
        return [index, max(used, 0.0), *(() if by_all is None else (max(by_all, used, 0.0),))]


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount set aside, with the period of each cap that it was taken from."""

    amount: float
    taken: tuple[tuple[_Cap, int], ...]


class BudgetTracker:
    """Enforces the caps of a budget. Knows nothing about calls: it hands out reservations and settles them.

    Periods are calendar hours and days (UTC), counted from the wall clock at start: if the clock jumps later, no period
    is skipped or repeated. A restart continues in the same period: `kept` stores, under `name`, the amount spent. It is
    written before a call, a hundredth of the limit at a time, so that after a kill up to that much more counts as
    spent, and never less. After an orderly shutdown it is exact.

    The caps of `budget` apply to all replicas together; `group` is this process's share of them. When the share
    changes, so does its part of what is left of the period, also across a restart. `spent` is called once per period
    for each cap that is reached, with its name and the time it resets, as text; the time is empty if a single call may
    cost more than the cap.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        spent: Callable[[str, str], None] = lambda _cap, _until: None,
        group: ReplicaShare | None = None,
        *,
        kept: KeptState | None = None,
        name: str = "judge",
    ) -> None:
        self._clock = clock
        self._group = group if group is not None else ReplicaShare()
        self._offset = clock.now() - clock.monotonic()
        self._spent = spent
        self._money = _caps(
            ("dollars_per_hour", budget.dollars_per_hour, _HOUR), ("dollars_per_day", budget.dollars_per_day, _DAY)
        )
        self._judgements = _caps(("evaluations_per_day", budget.evaluations_per_day, _DAY), whole=True)
        self._kept = kept if kept is not None else KeptState()
        self._name = f"budget of {name}"
        self._lock = anyio.Lock()
        # A question that has reserved its judgement must not wait for a question that has not.
        self._turn_of_money, self._turn_of_judgements = anyio.Lock(), anyio.Lock()
        self._settled = asyncio.Event()
        self._closed = False
        self._restore()

    def reserve_dollars(self, amount: float) -> Reservation | None:
        """Reserve US dollars for a call; None if they do not fit while other calls are in flight.

        Raises `JudgeError(budget)` if they no longer fit in this period, or cannot fit in any.
        """
        return self._reserve(self._money, amount)

    def reserve_judgement(self) -> Reservation | None:
        """Reserve one evaluation, as `reserve_dollars` does for dollars."""
        return self._reserve(self._judgements, 1.0)

    async def wait_for_dollars(self, amount: float, deadline: float) -> Reservation:
        """Reserve US dollars for a call, in turn; wait until `deadline` (monotonic clock) if calls in flight hold them.

        Raises `JudgeError(budget)` if they no longer fit in this period, cannot fit in any, or were not freed in time.
        """
        return await self._wait(self._turn_of_money, lambda: self.reserve_dollars(amount), deadline)

    async def wait_for_judgement(self, deadline: float) -> Reservation:
        """Reserve one evaluation, as `wait_for_dollars` does for dollars."""
        return await self._wait(self._turn_of_judgements, self.reserve_judgement, deadline)

    async def claim(self) -> None:
        """Record all reservations on disk as spent. If the disk refuses the write, they are spent in memory only."""
        async with self._lock:
            claimed = [one.claim() for one in (*self._money, *self._judgements)]
            if any(claimed):
                await self._kept.flush(self._name)

    def close(self) -> None:
        """Note that no further call is made: from now on the amount stored is exactly the amount used."""
        self._closed = True

    def settle(self, reservation: Reservation, amount: float) -> None:
        """Replace a reservation with the real `amount`; 0 gives all of it back."""
        for one, index in reservation.taken:
            if one.cap.index == index:
                one.settle(reservation.amount, amount)
        self._settled.set()
        self._settled = asyncio.Event()

    def _restore(self) -> None:
        if not (self._money or self._judgements):
            return
        found = self._kept.load(self._name) or {}
        for one in (*self._money, *self._judgements):
            newest = one.cap.index_of(self._clock.now()) + 1  # a later period comes from a clock that was wrong
            one.restore(found.get(one.name), newest)
        self._kept.follow(self._name, self._spent_so_far)

    def _spent_so_far(self) -> dict[str, object]:
        return {one.name: one.written(exact=self._closed) for one in (*self._money, *self._judgements)}

    async def _wait(self, turn: anyio.Lock, reserve: Callable[[], Reservation | None], deadline: float) -> Reservation:
        if not turn.locked() and (free := reserve()) is not None:
            return free  # also after the deadline, which only limits how long to wait
        left = max(deadline - self._clock.monotonic(), 0.0)
        with anyio.move_on_after(left):
            async with turn:  # or small calls would always come before a large one
                while (found := reserve()) is None:
                    await self._settled.wait()
                return found
        message = "calls in flight had reserved the rest of the budget"
        if left >= 1:
            message += f", for {left:.0f} s"
        raise JudgeError(UnscoredReason.BUDGET, message)

    def _reserve(self, caps: tuple[_Cap, ...], amount: float) -> Reservation | None:
        now = self._clock.monotonic() + self._offset
        waits = False
        for one in caps:
            one.cap.turn(now, self._group.of_budget)
            if not one.cap.fits(amount):
                if not one.may_fit(amount):
                    raise self._refusal(one, amount)
                waits = True
        if waits:
            return None
        for one in caps:
            one.reserve(amount)
        return Reservation(amount, tuple((one, one.cap.index) for one in caps))

    def _refusal(self, one: _Cap, amount: float) -> JudgeError:
        """Return the error for an `amount` that does not fit. Reports it once per period."""
        until = dt.datetime.fromtimestamp(one.cap.ends, dt.UTC)
        too_small = not one.whole and amount > one.cap.limit
        if one.reported != one.cap.index:
            one.reported = one.cap.index
            self._spent(one.name, "" if too_small else f"{until:%Y-%m-%d %H:%M} UTC")
        why = f"{one.name} ({one.cap.limit:g}) is spent until {until:%H:%M} UTC"
        if too_small:
            why = f"{MAY_COST} {dollars(amount)}, more than {one.name} ({one.cap.limit:g})"
        return JudgeError(UnscoredReason.BUDGET, why)


def estimate_tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of a prompt, on the high side: one per four ASCII characters, one per other character."""
    total = 0.0
    for text in texts:
        ascii_only = len(text.encode("ascii", "ignore"))
        total += ascii_only / 4 + (len(text) - ascii_only)
    return math.ceil(total)


def _is_amount(kept: object) -> TypeGuard[float]:
    """Return whether a stored value can be an amount spent."""
    return isinstance(kept, (int, float)) and not isinstance(kept, bool) and 0 <= kept <= _MOST


def _caps(*limits: tuple[str, float | None, float], whole: bool = False) -> tuple[_Cap, ...]:
    """Make the caps that have a limit; `whole`: they count evaluations, not dollars."""
    return tuple(
        _Cap(name, CalendarCap(limit, period), whole, float(limit // _BLOCKS) if whole else limit / _BLOCKS)
        for name, limit, period in limits
        if limit is not None
    )
