"""Take rows and feedback over HTTP: pass them to the intake, and report unreadable entries to the sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

import orjson

from monitor.errors import InvalidData, TooLarge
from monitor.extraction import rows
from monitor.extraction.feedback import feedback
from monitor.model.case import app_name
from monitor.model.external import FeedbackBatch
from monitor.model.row import SOURCE, RowBatch
from monitor.stages import Intake
from monitor.transport.otlp import json_mapping
from monitor.transport.otlp.http_app import PostedBody, Route
from monitor.transport.otlp.receiver import Reception

_JSON_LINES: Final = (b"application/json", b"application/x-ndjson", b"application/jsonl")
_ERRORS_SHOWN: Final = 20
_LARGEST_FEEDBACK: Final = 4 * 1024 * 1024  # bytes of one request: a thousand entries with long comments


def row_route(reception: Reception, intake: Intake) -> Route:
    """Return the route for rows. The limits on spans also apply to rows."""
    options = reception.options

    def read(body: bytes, app: str) -> rows.ParsedRows:
        json_mapping.check_values(body)
        return rows.take(body, app=app, max_rows=options.max_spans, max_row_bytes=options.max_span_bytes)

    async def take(delivery: PostedBody) -> bytes:
        body, app = _begin(delivery)
        found = await reception.in_turn(len(body), read, body, app)
        await intake.accept(RowBatch(SOURCE, found.rows, len(found.faults), app))
        unused = dict.fromkeys(name for row in found.rows for name in row.unused)
        return _reply(len(found.rows), found.faults, "row", "rows", unused=list(unused)[:_ERRORS_SHOWN])

    return Route(dict.fromkeys(_JSON_LINES, "json"), take)


def feedback_route(reception: Reception, intake: Intake) -> Route:
    """Return the route for feedback."""

    def read(body: bytes, app: str) -> feedback.ParsedFeedback:
        json_mapping.check_values(body)
        return feedback.take(body, app=app)

    async def take(delivery: PostedBody) -> bytes:
        body, app = _begin(delivery)
        if len(body) > _LARGEST_FEEDBACK:
            raise TooLarge(f"the body has {len(body)} bytes; the limit is {_LARGEST_FEEDBACK}")
        found = await reception.in_turn(len(body), read, body, app)
        if found.external_scores or not found.faults:
            await intake.accept(FeedbackBatch("feedback", found.external_scores))
        return _reply(len(found.external_scores), found.faults, "entry", "entries")

    return Route({b"application/json": "json"}, take, bulk=False)


def _begin(delivery: PostedBody) -> tuple[bytes, str]:
    """Count the body as memory in use; return it with the app named in the query, empty if none is named."""
    delivery.lease.start()
    delivery.lease.hold(len(delivery.content))
    named = parse_qs(delivery.query.decode("latin-1")).get("service", [""])
    return delivery.content, app_name(named[0])


def _reply(
    accepted: int, faults: Sequence[tuple[int, str]], one: str, many: str, *, unused: Sequence[str] = ()
) -> bytes:
    """Build the answer to the sender. A fault is a number and an error. Raises `InvalidData` if nothing is readable."""
    if faults and not accepted:
        number, error = faults[0]
        raise InvalidData(f"none of {len(faults)} {many} can be read; {one} {number}: {error}")
    errors = [{one: number, "error": error} for number, error in faults[:_ERRORS_SHOWN]]
    reply = {"accepted": accepted, "rejected": len(faults), "errors": errors}
    return orjson.dumps({**reply, "unused": unused} if unused else reply)
