"""A row on the way in: one request with its answer, complete as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.model.ack import Ack

SOURCE: Final = "cases"
"""Under which rows stand in the ledger, whatever brought them."""


class Row(NamedTuple):
    """One row of a shape that is known, still JSON, with the little that the door must know of it.

    `content` is the row as compact JSON on one line. `request_id` is the row's own, else a hash of what it holds, so
    that a repeated delivery has the same. `app` is empty where neither the row nor its sender names one.
    """

    request_id: str
    app: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RowBatch:
    """One delivery of rows: those that can be read, and how many of its rows can never become readable.

    `app` is what the sender calls itself; it stands for the rows that name no app. `ack` as in `SpanBatch`.
    """

    source: str
    rows: Sequence[Row]
    invalid: int = 0
    app: str = ""
    ack: Ack | None = None
