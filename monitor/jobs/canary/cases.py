"""The cases of the canary set: those that ship, or a file of rows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from monitor import registry
from monitor.errors import ConfigError, InvalidData
from monitor.extraction import compose, rows
from monitor.model.case import EVALUABLE, Case

SHIPPED: Final = Path(__file__).parent / "cases.jsonl"


def load(path: Path | None) -> dict[str, Case]:
    """The cases in the file at `path`, or those that ship, by an id that is a hash of what an evaluator sees of them.

    Raises `ConfigError` that names the file, and the row where one cannot be judged.
    """
    place = f"canary.cases: {path or SHIPPED}"
    try:
        found = rows.take((path or SHIPPED).read_bytes())
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}") from None
    except InvalidData as error:
        raise ConfigError(f"{place} cannot be read: {error}") from None
    for fault in found.faults:
        raise ConfigError(f"{place}: row {fault.row + 1}: {fault.error}")
    read_trace = partial(compose.read, conventions=registry.conventions())
    cases = {}
    for number, row in enumerate(found.rows, 1):
        reading = rows.read(row, read_trace, source="canary")
        if reading.status not in EVALUABLE:
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
