"""Which part of a group's traffic this process sees."""

from __future__ import annotations


class ReplicaShare:
    """The part of all traffic, 0 to 1, that this process sees; a budget of the group is spent in that proportion.

    Set by sources that divide their traffic among replicas. Without one, all of it is this process's own.
    """

    def __init__(self) -> None:
        self._by_source: dict[str, float] = {}
        self._held = 1.0

    def set(self, source: str, share: float) -> None:
        """`source` now brings `share` of what the group receives by it. Raises `ValueError` off the range 0 to 1."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share must be between 0 and 1, not {share}")
        self._by_source[source] = share
        self._held = self.value or self._held

    @property
    def value(self) -> float:
        """The largest share of any source; 1 where none divides its traffic."""
        return max(self._by_source.values(), default=1.0)

    @property
    def of_budget(self) -> float:
        """The part of the group's budgets that this process may spend, always above 0: `value`.

        Where that is 0, the one before it: what is still in hand then was taken in under that one.
        """
        return self._held
