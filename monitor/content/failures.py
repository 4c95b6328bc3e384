"""Why a span failed, in its own words."""

from __future__ import annotations

from monitor.content import values
from monitor.model.span import Span


def of_span(span: Span) -> str:
    """Why a span failed, in its own words; empty where it did not."""
    if span.status != "error":
        return ""
    if span.status_message:
        return span.status_message
    told = [span.attributes.get("error.type")]
    told += [event.attributes.get("exception.message") for event in span.events if event.name == "exception"]
    return next((text for one in told if (text := values.text(one))), "error")
