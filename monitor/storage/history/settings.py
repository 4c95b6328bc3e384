"""Retention of the history: options that the section `storage` and the sink `history` share."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from monitor.quantities import Duration, Size
from monitor.stages import Component

Texts: TypeAlias = Literal["all", "explanations", "none"]


class ResultRetention(Component):
    """How long to keep results, and which of their texts."""

    retention: Duration = Field(default=7 * 86400.0, gt=0)
    """How long to keep results."""

    texts: Texts = "explanations"
    """Texts to store with results. `all`: question, context, answer and explanation. `explanations`: only explanations,
    which may quote the others. `none`: only scores and numbers, no user text. See docs/privacy.md."""

    texts_retention: Duration | None = Field(default=None, gt=0)
    """How long to keep texts, including explanations, such as `2d`. Scores and numbers are kept for `retention`.
    Default: as long as the result."""


class HistoryOptions(ResultRetention):
    """The options of one history file."""

    sums_retention: Duration = Field(default=30 * 86400.0, gt=0)
    """How long to keep the sums per minute that restore alert windows after a restart."""

    max_size: Size = Field(default=1024**3, gt=0)
    """Maximum size of the file. Above it the oldest results are deleted, and without any the oldest sums."""
