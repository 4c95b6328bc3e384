"""The acknowledgement that travels with the data."""

from __future__ import annotations

from collections.abc import Callable


class Ack:
    """Says once that everything that hangs on it is safe.

    It is made by whoever holds the durable copy (the spool: a row that may be deleted; Kafka: an offset that may be
    committed). Each holder settles its own share; when the last share is settled the `settled` callback runs, once.
    The only way back in the pipeline.

    `part_of`: the ack that this one is a share of; where that one is void, so is this.
    """

    __slots__ = ("_outstanding", "_part_of", "_settled", "_void")

    def __init__(self, settled: Callable[[], None], shares: int = 1, part_of: Ack | None = None) -> None:
        self._settled = settled
        self._outstanding = shares
        self._part_of = part_of
        self._void = False

    @property
    def void(self) -> bool:
        """Whether the durable copy now belongs to another process, which will do all the work again."""
        return self._void or (self._part_of is not None and self._part_of.void)

    def make_void(self) -> None:
        """The durable copy was handed over: settling says nothing any more."""
        self._void = True

    def share(self) -> Ack:
        """One more holder; returns the ack itself, for handing on."""
        if self._outstanding <= 0:
            raise RuntimeError("a settled ack cannot be shared")
        self._outstanding += 1
        return self

    def settle(self) -> None:
        """This holder's part is safe. Settling more often than shared is a fault."""
        if self._outstanding <= 0:
            raise RuntimeError("an ack was settled more often than it was shared")
        self._outstanding -= 1
        if self._outstanding == 0 and not self._void:
            self._settled()
