"""A history in which the rate of an evaluator rose, with or without a planted cause."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from monitor.clock import ManualClock
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult
from monitor.sinks.history import HistorySink
from tests.support.results import judged
from tests.support.runtime import runtime

NOW = 1_700_000_000.0
HOUR = 3600.0
PERIOD = 60.0
NUMBER, SINCE = 1500, 300
"""One answer a minute; the last `SINCE` belong to the rise."""

Bad = Callable[[int], bool]


def mixed(number: int) -> int:
    """Return a number that is independent of everything else in an answer."""
    return zlib.crc32(b"%d" % number)


def in_acme(number: int) -> bool:
    return number % 5 == 2 and mixed(number) % 10 < 8


def common(number: int) -> bool:
    return mixed(number) % 4 == 0


def results(bad: Bad, *, number: int = NUMBER, texts: str = "warranty", now: float = NOW) -> list[EvaluationResult]:
    """Return answers of five tenants about twelve documents; before the rise one in twenty is bad."""
    found = []
    for one in range(number):
        at = now - (number - one) * PERIOD
        rising = one >= number - SINCE
        case = Case(
            request_id=f"{one:032x}",
            request=Request(f"How long is the {texts} of product{one % 40}?"),
            retrieved_context=(Document("x", f"kb/{one % 3}/d{one % 12}", score=one % 97 / 97),),
            response="y" * (20 + one % 31),
            app="shop",
            user_id=f"user {one % 50}",
            session_id=f"s{one}",
            attributes={"tenant": "acme" if one % 5 == 2 else f"t{one % 5}", "language": f"l{one // 5 % 3}"},
            answered_at=at,
        )
        defect = mixed(one) % 20 == 0 or (rising and bad(one))
        result = judged(one, value=1.0 if defect else 5.0, defect=defect, evaluated_at=at + 1.0)
        found.append(replace(result, case=case))
    return found


async def kept(folder: Path, given: Sequence[EvaluationResult], **options: Any) -> None:
    """Write results of the evaluator overlap_groundedness to the history in the folder `data` of `folder`."""
    sink = HistorySink(path=folder / "data" / "history.db", retention="30d", **options)
    async with sink.open(runtime(ManualClock(NOW))) as deliver:
        await deliver([replace(one, evaluator="overlap_groundedness") for one in given])
