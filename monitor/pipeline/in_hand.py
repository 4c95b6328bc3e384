"""What is complete and not done with: in the order of arrival, with the receipts that wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from monitor.model.receipt import Receipt
from monitor.pipeline.complete import Complete


class InHand:
    """Every complete request between its closing and its end. A request is unread until `begin`."""

    def __init__(self) -> None:
        self._all: dict[Complete, None] = {}
        self._unread: dict[Complete, None] = {}
        self._repeats: dict[str, list[Receipt]] = {}
        self._empty = anyio.Event()

    def take(self, complete: Complete) -> None:
        """`complete` waits to be read."""
        self._all[complete] = None
        self._unread[complete] = None

    def begin(self, complete: Complete) -> None:
        """`complete` is being read and judged: whatever becomes of its receipts, it is finished here."""
        del self._unread[complete]
        self._repeats.setdefault(complete.request_id, [])

    def drop(self, complete: Complete) -> None:
        """`complete` is another's work: its receipts are settled, and nothing of it was begun."""
        self._unread.pop(complete, None)
        self._settle(complete, ())

    def end(self, complete: Complete) -> None:
        """`complete` is done with, and with it what repeated it meanwhile."""
        self._settle(complete, self._repeats.pop(complete.request_id, ()))

    def hold(self, request_id: str, receipt: Receipt) -> None:
        """A delivery that repeats what is being judged is done with when that is."""
        repeats = self._repeats.get(request_id)
        if repeats is not None:
            repeats.append(receipt.share())

    @property
    def void(self) -> Iterator[Complete]:
        """The unread ones that are another's work by now."""
        return (complete for complete in self._unread if complete.void)

    @property
    def oldest_received_at(self) -> float | None:
        """When the first part of the one that has been in hand for longest came, wall clock."""
        oldest = next(iter(self._all), None)
        return None if oldest is None else oldest.received_at

    def is_unread(self, request_id: str) -> bool:
        """Whether a request is complete and waits to be read. Looks at all."""
        return any(complete.request_id == request_id for complete in self._unread)

    async def idle(self) -> None:
        """Wait until nothing is in hand."""
        while self._all:
            self._empty = anyio.Event()
            await self._empty.wait()

    def _settle(self, complete: Complete, repeats: list[Receipt] | tuple[()]) -> None:
        for receipt in (*complete.receipts, *repeats):
            receipt.settle()
        self._all.pop(complete, None)
        if not self._all:
            self._empty.set()
