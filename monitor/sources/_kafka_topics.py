"""The configured content of Kafka topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from monitor.model.case import app_name
from monitor.model.span import Signal
from monitor.stages import Component

_LOGS: Final = re.compile(r"(?:^|[._-])logs?(?:$|[._-])", re.IGNORECASE)


class Topic(Component):
    """The content of a topic."""

    encoding: Literal["otlp_proto", "otlp_json", "case"]
    """`otlp_proto` or `otlp_json` for traces and logs as the OpenTelemetry Collector writes them; `case` for JSON rows.
    """

    signal: Signal | None = None
    """`traces` or `logs`, which cannot be detected from the data. Default: `logs` if the topic's name contains the word
    (such as the Collector's own `otlp_logs`), else `traces`."""

    app: Annotated[str, AfterValidator(app_name)] = Field(default="", max_length=256)
    """The app of rows that do not name one."""

    def signal_of(self, name: str) -> Signal:
        """Return the signal in the topic called `name`, if it does not contain rows."""
        return self.signal or ("logs" if _LOGS.search(name) else "traces")


def in_full(topics: object) -> object:
    """Expand the short form of topics, `{name: encoding}`."""
    if not isinstance(topics, Mapping):
        return topics
    return {name: _in_full(topic) for name, topic in topics.items()}


def _in_full(topic: Any) -> Any:
    return {"encoding": topic} if isinstance(topic, str) else topic
