"""What the history keeps and for how long: options that the section `storage` and the sink `history` share."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from monitor.quantities import Duration, Size
from monitor.stages import Component

Texts: TypeAlias = Literal["all", "verdicts", "none"]


class ResultRetention(Component):
    """How long results are kept, and which of their texts."""

    retention: Duration = Field(default=7 * 86400.0, gt=0)
    """How long results are kept."""

    texts: Texts = "verdicts"
    """`all`: question, context and answer of judged cases are kept beside their results, to show the worst ones and
    why. `verdicts`: only verdicts with their reasons, which may quote them. `none`: verdicts and numbers, and no word
    of anybody. See docs/privacy.md."""

    texts_retention: Duration | None = Field(default=None, gt=0)
    """How long texts are kept, reasons of verdicts among them, such as `2d`; after that verdicts and numbers are left
    until `retention` ends. Default: as long as the result itself."""


class HistoryOptions(ResultRetention):
    """The options of one history file."""

    sums_retention: Duration = Field(default=30 * 86400.0, gt=0)
    """How long the sums by the minute are kept, from which alert windows are restored after a restart."""

    max_size: Size = Field(default=1024**3, gt=0)
    """Bytes that the file may take; beyond it the oldest results are deleted first."""
