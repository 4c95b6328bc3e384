"""What the canary remembers across restarts: references, the runs of the last day, and when it ran last.

One small JSON file in the storage folder, always written whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import MonitorError
from monitor.model.canary import CanaryRun
from monitor.statistics.reference import WINDOW, Reference, Tally
from monitor.storage.files import make_private, sync_folder

_MOST: Final = 5
"""References that are kept of an evaluator, so that a version that comes back is known."""


@dataclass(slots=True)
class CanaryReference:
    """What is known of one evaluator in one version, judging one set of cases."""

    reference: Reference = field(default_factory=Reference)
    runs: list[CanaryRun] = field(default_factory=list)

    def ran(self, run: CanaryRun) -> None:
        """One more run was held against the reference. Those older than the window are forgotten."""
        self.runs = [one for one in self.runs if one.at > run.at - WINDOW] + [run]


class CanaryState:
    """All that is remembered. `last_run`: the wall-clock second at which the last run began, 0: never."""

    def __init__(self) -> None:
        self.last_run = 0.0
        self._known: dict[tuple[str, str], CanaryReference] = {}

    def of(self, evaluator: str, key: str) -> CanaryReference:
        """What is known of an evaluator under `key`, which stands for its version, its defect rule and the cases."""
        known = self._known.pop((evaluator, key), None) or CanaryReference()
        self._known[evaluator, key] = known  # now the one that was used last
        mine = [one for one in self._known if one[0] == evaluator]
        for old in mine[:-_MOST]:
            del self._known[old]
        return known

    def items(self) -> Iterator[tuple[tuple[str, str], CanaryReference]]:
        """All, by evaluator and key, those used last at the end."""
        yield from self._known.items()


class _Run(BaseModel):
    model_config = ConfigDict(extra="forbid")

    at: float = Field(allow_inf_nan=False)
    version: str
    same: int = Field(ge=0)
    stricter: int = Field(ge=0)
    milder: int = Field(ge=0)
    tolerance: float = Field(ge=0, allow_inf_nan=False)


class _StoredVerdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    evaluator: str
    key: str
    reference_runs: int = Field(ge=0)
    cases: dict[str, tuple[int, int]]
    runs: list[_Run]


class _StateFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    last_run: float = Field(allow_inf_nan=False)
    known: list[_StoredVerdict]


def read(path: Path) -> CanaryState:
    """What the file at `path` holds; nothing where there is none. Raises `MonitorError` where it cannot be read."""
    state = CanaryState()
    try:
        found = _StateFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return state
    except OSError as error:
        raise MonitorError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise MonitorError(f"{path} is damaged: {error.error_count()} faults in what it holds") from None
    state.last_run = found.last_run
    for entry in found.known:
        known = state.of(entry.evaluator, entry.key)
        tallies = {case: Tally(*verdicts) for case, verdicts in entry.cases.items()}
        known.reference = Reference(entry.reference_runs, tallies)
        known.runs = [CanaryRun(evaluator=entry.evaluator, **dict(run)) for run in entry.runs]
    return state


def write(path: Path, state: CanaryState) -> None:
    """Replace the file at `path`, so that it is always whole, and readable by its owner only. Raises `OSError`."""
    content = _StateFile(
        last_run=state.last_run,
        known=[
            _StoredVerdict(
                evaluator=evaluator,
                key=key,
                reference_runs=known.reference.runs,
                cases={case: (one.good, one.defects) for case, one in known.reference.cases.items()},
                runs=[
                    _Run(
                        at=run.at,
                        version=run.version,
                        same=run.same,
                        stricter=run.stricter,
                        milder=run.milder,
                        tolerance=run.tolerance,
                    )
                    for run in known.runs
                ],
            )
            for (evaluator, key), known in state.items()
        ],
    )
    building = path.with_name(path.name + ".new")
    make_private(building)
    with building.open("wb") as file:
        file.write(content.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)
    sync_folder(path.parent)
