"""Rows on the way in: each is one complete request with its answer, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.model.ack import Ack

SOURCE: Final = "cases"
"""The source that rows are counted under in the ledger, whichever source brought them."""


class Row(NamedTuple):
    """One row of a known shape, still as JSON.

    `content` is compact JSON on one line. `request_id` is the row's own id, or else a hash of the row, so that a
    repeated row gets the same id. `app` is empty if neither the row nor its sender names one. `unused` are the names of
    the first 20 fields that are not read.
    """

    request_id: str
    app: str
    content: bytes
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowBatch:
    """One delivery of rows.

    `source` is the type of the source. `invalid` counts rows of the delivery that can never be read. `app` applies to
    rows that do not name an app. `ack` is as in `SpanBatch`.
    """

    source: str
    rows: Sequence[Row]
    invalid: int = 0
    app: str = ""
    ack: Ack | None = None
