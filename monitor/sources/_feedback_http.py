"""Feedback by HTTP: what users say of answers to the intake, and what the sender hears of what cannot be read."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

import orjson

from monitor.errors import InvalidData, TooLarge
from monitor.extraction.feedback import feedback
from monitor.model.external import LONGEST_NAME, FeedbackBatch
from monitor.stages import Intake
from monitor.transport.otlp import json_mapping
from monitor.transport.otlp.http_app import PostedBody, Route

_ERRORS_TOLD: Final = 20
_LARGEST: Final = 4 * 1024 * 1024  # bytes of one request: a thousand entries with long comments


def route(intake: Intake) -> Route:
    """The route of feedback."""

    async def take(delivery: PostedBody) -> bytes:
        body = delivery.content
        delivery.lease.start()
        delivery.lease.hold(len(body))
        if len(body) > _LARGEST:
            raise TooLarge(f"the body has {len(body)} bytes; the limit is {_LARGEST}")
        json_mapping.check_values(body)
        named = parse_qs(delivery.query.decode("latin-1")).get("service", [""])
        found = feedback.take(body, app=named[0].strip()[:LONGEST_NAME])
        if found.faults and not found.verdicts:
            first = found.faults[0]
            raise InvalidData(f"none of {len(found.faults)} entries can be read; entry {first.entry}: {first.error}")
        await intake.accept(FeedbackBatch("feedback", found.verdicts))
        return orjson.dumps(
            {
                "accepted": len(found.verdicts),
                "rejected": len(found.faults),
                "errors": [{"entry": fault.entry, "error": fault.error} for fault in found.faults[:_ERRORS_TOLD]],
            }
        )

    return Route({b"application/json": "json"}, take)
