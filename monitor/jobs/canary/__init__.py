"""The canary set: the same few cases judged again and again, to notice when the judge itself changes.

A provider may change the model behind a name; rates then move although the service has not changed. Nothing here
touches the series, samplers or history of production.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import orjson
from pydantic import BeforeValidator, Field, field_validator, model_validator

from monitor import registry
from monitor.errors import ConfigError, InvalidData
from monitor.errors.reading import read_file
from monitor.extraction import compose, rows
from monitor.model.case import Case, ReadingStatus
from monitor.quantities import Rate, parse_duration
from monitor.stages import Component

SHIPPED: Final = Path(__file__).parent / "cases.jsonl"


def load(path: Path | None) -> dict[str, Case]:
    """Read the cases in the file at `path`, or the built-in ones, by id: a hash of what an evaluator sees of a case.

    Raises `ConfigError` that names the file, and the row if one cannot be judged.
    """
    place = f"canary.cases: {path or SHIPPED}"
    try:
        found = rows.take(read_file(path or SHIPPED))
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}") from None
    except InvalidData as error:
        raise ConfigError(f"{place} cannot be read: {error}") from None
    for fault in found.faults:
        raise ConfigError(f"{place}: row {fault.row + 1}: {fault.error}")
    read_trace = partial(compose.read, conventions=registry.conventions())
    cases = {}
    for number, row in enumerate(found.rows, 1):
        reading = rows.read(row, read_trace, source="canary", turns="last").last
        if reading.status is not ReadingStatus.READY:
            raise ConfigError(f"{place}: row {number} cannot be evaluated: {reading.error or reading.status}")
        case = replace(reading.case, app="canary")
        cases[_id(case)] = case
    return cases


def _id(case: Case) -> str:
    expected = [document.content for document in case.expected_retrieved_context or ()]
    seen = [
        case.request.query,
        [[turn.role, turn.content] for turn in case.request.history],
        [document.content for document in case.retrieved_context],
        case.response,
        case.expected_response,
        expected,
        [[message.role, message.content] for message in case.prompt],
    ]
    return hashlib.blake2b(orjson.dumps(seen), digest_size=8).hexdigest()


_LONGEST: Final = 8 * 3600.0


class CanarySettings(Component):
    """A fixed set of cases that the judge scores on a schedule, to detect when the judge itself changes."""

    interval: Annotated[float | None, BeforeValidator(parse_duration)] = 8 * 3600.0
    """Time from the start of one run to the start of the next, at most `8h`; `off` disables the canary. Each run makes
    one evaluation per case and judged evaluator, uncached and within the judge's budget: by default 72 a day per
    evaluator and process."""

    cases: Path | None = None
    """File with your own cases, in the format of `rag-monitor evaluate`. A relative path starts at the configuration
    file. Include clear and borderline cases: borderline ones shift first. Default: the 24 built-in cases."""

    initial_delay: Annotated[float, BeforeValidator(parse_duration)] = 600.0
    """Minimum time from start to the first run, so that a short-lived process costs nothing. A restart does not bring
    the next run forward."""

    tolerance: Annotated[Rate, Field(gt=0, lt=1)] = 0.05
    """Share of scores that may differ from the reference, beyond the judge's own noise. See docs/statistics.md."""

    @field_validator("interval", mode="wrap")
    @classmethod
    def _off_or_often(cls, given: object, read: Callable[[object], float]) -> float | None:
        if given is None or given is False or given == "off":  # YAML reads a bare `off` as false
            return None
        seconds = read(given)
        if not 0 < seconds <= _LONGEST:
            raise ValueError("must be above 0 and at most 8h, because the alert compares several runs a day; or `off`")
        return seconds

    @model_validator(mode="after")
    def _cases_can_be_read(self) -> CanarySettings:
        if self.interval is not None and self.cases is not None:
            load(self.cases)
        return self
