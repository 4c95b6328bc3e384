"""How much of each app is judged at most: where its quota is nearly spent, its cases are drawn more thinly.

Nothing is refused: a case keeps a known probability, the smaller the less is left, so that the weights make up for it.
What a case finds depends on what was drawn before it, never on a verdict.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from monitor.clock import Clock
from monitor.pipeline.traffic import Quota
from monitor.stages.replica_share import ReplicaShare
from monitor.statistics.limits import TokenBucket
from monitor.telemetry.metrics import UNKNOWN_APP

ALL_OTHERS: Final = "*"
"""The name under which stands the quota of each app that is not named."""

_MOST_APPS = 10_000  # that are remembered, those heard of last; another one begins anew, half full
_HOUR, _DAY = 3600.0, 86400.0
_LEAST = 2.0  # judgements at once: with fewer a single one could cost more than there is


class AppQuota:
    """What is left to one app. `room`, then `take`, for each case."""

    def __init__(self, quota: Quota, clock: Clock, share: ReplicaShare) -> None:
        self._clock = clock
        self._group = share
        self._share = share.of_budget
        self._buckets = [
            TokenBucket(most * self._share, clock.monotonic(), period=period, least=_LEAST)
            for most, period in ((quota.per_hour, _HOUR), (quota.per_day, _DAY))
            if most is not None
        ]

    def room(self) -> float:
        """The part of its probability that the next case keeps, 0.001 to 1."""
        now, share = self._clock.monotonic(), self._group.of_budget
        for bucket in self._buckets:
            bucket.refill(now)
            if share != self._share:
                bucket.scale(share / self._share)
        self._share = share
        return min(bucket.room for bucket in self._buckets)

    def take(self, probability: float) -> None:
        """A case was drawn with `probability`."""
        for bucket in self._buckets:
            bucket.take(probability)


class Quotas:
    """The quotas of all apps at work, as `traffic.quotas` has them by name."""

    def __init__(self, quotas: Mapping[str, Quota], clock: Clock, share: ReplicaShare) -> None:
        self._quotas = quotas
        self._clock = clock
        self._share = share
        self._apps: OrderedDict[str, AppQuota] = OrderedDict()

    def bound(self, app: str) -> bool:
        """Whether the app has a quota."""
        return self._quota(app) is not None

    def of(self, app: str) -> AppQuota | None:
        """What is left to the app; None where it has no quota."""
        if not self._quotas:
            return None
        known = self._apps.get(app)
        if known is None:
            quota = self._quota(app)
            if quota is None:
                return None
            known = self._apps[app] = AppQuota(quota, self._clock, self._share)
            if len(self._apps) > _MOST_APPS:
                self._apps.popitem(last=False)
        else:
            self._apps.move_to_end(app)
        return known

    def _quota(self, app: str) -> Quota | None:
        return self._quotas.get(app or UNKNOWN_APP, self._quotas.get(ALL_OTHERS))
