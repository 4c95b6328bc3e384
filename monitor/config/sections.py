"""The sections of the configuration that belong to no room of their own: head sampling, the folder on disk, the log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from monitor.quantities import Duration, Rate, Size
from monitor.storage.history.settings import ResultRetention


class Section(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)


class SamplingSettings(Section):
    """Which traces are kept at all (head sampling)."""

    traces: Rate = 1.0
    """Share of traces kept, by a hash of the trace id: a number from 0 to 1, or a percentage. All replicas agree."""

    salt: str = "rag-monitor"
    """Key of the hash that chooses what evaluators judge. The same in all replicas; another one, another sample."""


def default_state_path() -> Path:
    """Where state lives unless configured: systemd's STATE_DIRECTORY, else the user's state folder."""
    given = os.environ.get("STATE_DIRECTORY")
    if given:
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "rag-monitor"


class StorageSettings(Section, ResultRetention):
    """The folder on disk: the spool of traces that are not yet done, and the history of results."""

    path: Path = Field(default_factory=default_state_path)
    """The folder; made if missing, its files readable by their owner only. Default: `$STATE_DIRECTORY`, else
    `~/.local/state/rag-monitor`."""

    max_size: Size = 2 * 1024**3
    """Bytes that the spool may hold; beyond that the receivers answer "try again later". Whatever `texts` says, a trace
    waits there until it is judged; after `retention` it is given up, and counted as `expired`."""

    spool_retention: Annotated[Duration, Field(ge=0)] = 0.0
    """How long the spool keeps a delivery after it is done with, such as `24h`, for `rag-monitor backfill --from
    spool`: in a file beside it, of half of `max_size` beyond that, the oldest making room first. Its texts are on disk
    for as long, whatever `texts` says, and each delivery is written twice. Default: not at all."""

    @model_validator(mode="after")
    def _no_deliveries_without_texts(self) -> StorageSettings:
        if self.texts == "none" and self.spool_retention > 0:
            raise ValueError(
                "`spool_retention` keeps deliveries as they came, and with `texts: none` no text is kept: give one"
            )
        return self

    request_log: Annotated[Duration, Field(ge=0)] = 86400.0
    """How long it is kept what became of each request, for `rag-monitor why`: spans, probabilities, attempts and
    reasons, no texts. 0: not at all. Sums of it by the minute are kept as long as results."""

    request_log_max_size: Annotated[Size, Field(gt=0)] = 256 * 1024**2
    """Bytes that these may take; beyond it the oldest go first. A request takes about a kilobyte."""


class LogSettings(Section):
    """The monitor's own log, on standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The lowest level that is written. Prompt text never appears, at any level."""

    style: Literal["json", "text"] = "json"
    """`json`: one object a line. `text`: readable lines."""
