"""Sums products of weights within sessions: bad answers that come in one session are one fact, not many.

Plain squares of weights treat each answer as independent. In a session they are not: one confused conversation of ten
bad answers would count as ten defects. The products of all pairs of a session's answers, summed up over sessions, are
the squares of the sessions' weights, and a limit from these holds (`rates.estimate`).
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from typing import Final

from monitor.clock import Clock
from monitor.model.outcome import SessionProducts

MOST_SESSIONS: Final = 10_000
"""The latest sessions that are remembered: about 3 MB, and 160 kB for each evaluator."""

FORGET_AFTER: Final = 86400.0
"""Seconds without an answer after which a session is forgotten."""

LONGEST: Final = 100
"""Scored answers after which a session counts as a new one. Otherwise an id shared by all answers, such as that of a
service account, would make all traffic one session, from which no rate could be estimated."""


def session_key(app: str, kind: str, name: str) -> bytes:
    """Return a digest of the name of a session; `kind` says what it names, such as `session` or `user`."""
    text = f"{app}\x1f{kind}\x1f{name}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def alone(weight: float, *, defect: bool) -> SessionProducts:
    """Return the products added by an answer that is a session of its own: the squares of its weight."""
    square = weight * weight
    return SessionProducts(square, square, square) if defect else SessionProducts(0.0, square, 0.0)


class SessionMemory:
    """Remembers what was scored in the latest sessions, by evaluator, in memory that does not grow with traffic."""

    def __init__(self, clock: Clock, most: int = MOST_SESSIONS) -> None:
        self._clock = clock
        self._most = most
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # the session with the latest answer is last
        self._seen = array("d", [0.0]) * most
        self._weights: dict[tuple[str, ...], _Weights] = {}

    def add(self, session: bytes, instrument: tuple[str, ...], weight: float, *, defect: bool) -> SessionProducts:
        """Count a scored answer and return what it adds.

        Args:
            session: its `session_key`.
            instrument: the evaluator, its version, and what counts as a defect.
            weight: the weight of the answer.
            defect: whether the answer is a defect.
        """
        bad = weight if defect else 0.0
        slot = self._slot(session)
        known = self._weights.get(instrument)
        if known is None:
            known = self._weights[instrument] = _Weights(self._most)
        if known.numbers[slot] >= LONGEST:
            known.clear(slot)
        bad_before, before = known.defects[slot], known.every[slot]
        known.numbers[slot] += 1
        known.defects[slot] = bad_before + bad
        known.every[slot] = before + weight
        return SessionProducts(
            bad * (bad + 2 * bad_before),
            weight * (weight + 2 * before),
            bad * (before + weight) + bad_before * weight,
        )

    def _slot(self, session: bytes) -> int:
        now = self._clock.monotonic()
        slot = self._slots.get(session)
        if slot is None:
            slot = self._slots.popitem(last=False)[1] if len(self._slots) >= self._most else len(self._slots)
            self._slots[session] = slot
            self._clear(slot)
        else:
            self._slots.move_to_end(session)
            if now - self._seen[slot] > FORGET_AFTER:
                self._clear(slot)
        self._seen[slot] = now
        return slot

    def _clear(self, slot: int) -> None:
        for weights in self._weights.values():
            weights.clear(slot)


class _Weights:
    """The weights that one instrument has scored so far, by session, and their number."""

    __slots__ = ("defects", "every", "numbers")

    def __init__(self, most: int) -> None:
        self.defects = array("d", [0.0]) * most
        self.every = array("d", [0.0]) * most
        self.numbers = array("B", [0]) * most

    def clear(self, slot: int) -> None:
        self.defects[slot] = self.every[slot] = 0.0
        self.numbers[slot] = 0
