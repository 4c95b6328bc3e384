"""The end of a request that was complete: counted, noted, its receipts settled, in this order and in one place."""

from __future__ import annotations

from monitor.pipeline.complete import Complete
from monitor.pipeline.in_hand import InHand
from monitor.pipeline.ledger import Fate, Ledger
from monitor.pipeline.noting import Notes
from monitor.telemetry.tracing import NOTHING, Work


class Ending:
    """Ends requests: those that are done with, and those that are another's work by now."""

    def __init__(self, ledger: Ledger, notes: Notes, in_hand: InHand) -> None:
        self._ledger = ledger
        self._notes = notes
        self._in_hand = in_hand

    def drop(self, complete: Complete) -> None:
        """`complete` was not begun, and another process receives it again."""
        self._ledger.ended(complete.app, complete.source, Fate.HANDED_OVER)
        self._notes.end(complete, Fate.HANDED_OVER)
        self._in_hand.drop(complete)

    def end(self, complete: Complete, fate: Fate, work: Work = NOTHING) -> None:
        """`complete`, which was begun, ends in `fate`; and with it `work`, our own trace of it."""
        self._ledger.ended(complete.app, complete.source, fate)
        self._notes.end(complete, fate)
        if work.recorded:
            facts = {"rag_monitor.app": complete.app, "rag_monitor.source": complete.source}
            work.set({**facts, "rag_monitor.fate": fate.value})
            work.end()
        self._in_hand.end(complete)
