"""Past what cannot be read: where in a partition the first batch after a damaged one begins.

A batch is fetched whole, whichever of its offsets is asked for, and how many offsets a damaged one has cannot be
believed. So the offsets after it are tried: in steps that double until another batch is met, then halving back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable


def next_readable(first: int, end: int, fault_at: Callable[[int], Hashable | None]) -> int:
    """The smallest offset after `first` that is not in the same damaged batch; `end` where no message follows it.

    `fault_at(offset)` fetches there: None where a message can be read, else what tells the damaged batch from others.
    It is asked about twice the logarithm of the batch's length times. What is returned may begin another damaged batch.
    """
    fault = fault_at(first)
    if fault is None:
        return first
    inside, step = first, 1
    while True:
        beyond = min(inside + step, end)
        if beyond >= end or fault_at(beyond) != fault:
            break
        inside, step = beyond, step * 2
    while beyond - inside > 1:
        middle = (inside + beyond) // 2
        if fault_at(middle) == fault:
            inside = middle
        else:
            beyond = middle
    return beyond
