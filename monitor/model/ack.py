"""The acknowledgement that travels with data through the pipeline."""

from __future__ import annotations

from collections.abc import Callable


class Ack:
    """Reports, once, that all the data it covers is safe. It is the only signal that travels back up the pipeline.

    It is created by the owner of the durable copy: the spool, which may then delete a record, or a Kafka source, which
    may then commit an offset. Each holder settles its own share. When the last holder does, `settled` is called, once.

    Args:
        settled: called when every share is settled.
        shares: the number of shares.
        part_of: an ack that this one is a share of; if that is void, so is this.
    """

    __slots__ = ("_outstanding", "_part_of", "_settled", "_void")

    def __init__(self, settled: Callable[[], None], shares: int = 1, part_of: Ack | None = None) -> None:
        self._settled = settled
        self._outstanding = shares
        self._part_of = part_of
        self._void = False

    @property
    def void(self) -> bool:
        """Whether the durable copy now belongs to another process, which will do the work again."""
        return self._void or (self._part_of is not None and self._part_of.void)

    def make_void(self) -> None:
        """Note that the durable copy was handed over: settling no longer calls `settled`."""
        self._void = True

    def share(self) -> Ack:
        """Add a holder. Returns the ack itself, to pass on."""
        if self._outstanding <= 0:
            raise RuntimeError("a settled ack cannot be shared")
        self._outstanding += 1
        return self

    def settle(self) -> None:
        """Report that this holder's share is safe. Raises `RuntimeError` if every share was settled before."""
        if self._outstanding <= 0:
            raise RuntimeError("an ack was settled more often than it was shared")
        self._outstanding -= 1
        if self._outstanding == 0 and not self._void:
            self._settled()
