"""When to look at an alert again, and how much of the level of false findings each look may spend.

Looks at set amounts of information, with a level that is spent over them as a function of that amount: Lan and DeMets,
Biometrika 70, 1983, p. 659. The amount is the number of bad answers since the onset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

FIRST_LOOK: Final = 10
"""The bad answers since the onset that the first look at an alert needs."""

GROWTH: Final = 1.5
"""How many times as many bad answers the next look needs."""

_HALF_SPENT: Final = 10.0  # bad answers: half of the level goes to a first look at 10, two thirds to one at 20


def looks_at(begun: int, bad: int) -> Iterator[int]:
    """Yield the numbers of bad answers at which an alert is looked at, up to `bad`.

    The first is `begun`, the number since the onset when the alert began to fire, or `FIRST_LOOK` if that is more.
    """
    look = max(begun, FIRST_LOOK)
    while look <= bad:
        yield look
        look = next_look(look)


def next_look(look: int) -> int:
    """Return the number of bad answers at the look after the one at `look`."""
    return math.ceil(GROWTH * look)


def spent(bad: int) -> float:
    """Return the share of the level, 0 to 1, that is spent after a look at this many bad answers."""
    return bad / (bad + _HALF_SPENT)
