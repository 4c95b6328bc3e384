"""The share of traffic that this replica receives."""

from __future__ import annotations


class ReplicaShare:
    """The share of all traffic, 0 to 1, that this process receives. Shared budgets are split in that proportion.

    Set by sources that divide their traffic among replicas; 1 without such a source.
    """

    def __init__(self) -> None:
        self._by_source: dict[str, float] = {}
        self._held = 1.0

    def set(self, source: str, share: float) -> None:
        """Set the share of `source`. Raises `ValueError` outside the range 0 to 1."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share must be between 0 and 1, not {share}")
        self._by_source[source] = share
        self._held = self.value or self._held

    @property
    def value(self) -> float:
        """The largest share of any source; 1 if none divides its traffic."""
        return max(self._by_source.values(), default=1.0)

    @property
    def of_budget(self) -> float:
        """The share of the budgets that this process may spend, always above 0.

        If `value` is 0, this is the last `value` above 0: work still in progress was accepted under it.
        """
        return self._held
