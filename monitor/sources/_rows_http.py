"""Rows by HTTP: a body of them to the intake, and what the sender hears of each that cannot be read."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qs

import orjson

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.model.row import SOURCE, RowBatch
from monitor.stages import Intake
from monitor.transport.otlp import json_mapping
from monitor.transport.otlp.http_app import PostedBody, Route
from monitor.transport.otlp.receiver import OtlpReceiver

_TYPES: Final = (b"application/json", b"application/x-ndjson", b"application/jsonl")
_ERRORS_TOLD: Final = 20
_LARGE: Final = 256 * 1024  # reading more than this takes long enough to keep other senders waiting
_LONGEST_NAME: Final = 256


def route(options: OtlpReceiver, intake: Intake) -> Route:
    """The route of rows. What an option says of spans holds for rows as well."""

    def read(body: bytes, app: str) -> rows.ParsedRows:
        json_mapping.check_values(body)
        return rows.take(body, app=app, max_rows=options.max_spans, max_row_bytes=options.max_span_bytes)

    async def take(delivery: PostedBody) -> bytes:
        body = delivery.content
        delivery.lease.start()
        delivery.lease.hold(len(body))
        app = _service(delivery.query)
        found = await asyncio.to_thread(read, body, app) if len(body) > _LARGE else read(body, app)
        await intake.accept(RowBatch(SOURCE, found.rows, len(found.faults), app))
        if found.faults and not found.rows:
            first = found.faults[0]
            raise InvalidData(f"none of {len(found.faults)} rows can be read; row {first.row}: {first.error}")
        return orjson.dumps(
            {
                "accepted": len(found.rows),
                "rejected": len(found.faults),
                "errors": [{"row": fault.row, "error": fault.error} for fault in found.faults[:_ERRORS_TOLD]],
            }
        )

    return Route(dict.fromkeys(_TYPES, "json"), take)


def _service(query: bytes) -> str:
    named = parse_qs(query.decode("latin-1")).get("service", [""])
    return named[0].strip()[:_LONGEST_NAME]
