"""Adds a diagnosis to alerts on rates: what their bad answers have in common. No alert waits long for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

import anyio
from anyio.abc import TaskGroup

from monitor.alerts.catalogue import DIAGNOSIS, RATES
from monitor.alerts.state import AlertState
from monitor.stages import Runtime
from monitor.telemetry.events import Event

PATIENCE: Final = 5.0
"""Seconds for which all alerts that begin to fire in one check wait for their lines."""

AGAIN: Final = 300.0
"""Seconds after which an alert that still fires is diagnosed again."""

SOON: Final = 60.0
"""Seconds after which it is diagnosed again if there were too few bad answers for a first look."""


class DiagnosisLine(NamedTuple):
    """A diagnosis in one line. `looked`: there were enough bad answers to look for a cause."""

    text: str
    looked: bool = True


Diagnose: TypeAlias = Callable[[AlertState], Awaitable[DiagnosisLine | None]]
"""Diagnoses the rate behind a firing alert. None: there is nothing to say. May raise anything."""


@dataclass(slots=True)
class _Diagnosed:
    """The state of one rate: its line, when it was last diagnosed (monotonic), and whether a diagnosis is running."""

    asked: float
    line: DiagnosisLine | None = None
    running: bool = True
    done: anyio.Event = field(default_factory=anyio.Event)

    def wait(self) -> float:
        """Return the seconds from one diagnosis to the next."""
        return AGAIN if self.line is None or self.line.looked else SOON


class DiagnosedAlerts:
    """The lines of the rates that are too high now. Warning, critical and regression of one rate share a line.

    A line changes only after enough further bad answers: until then the diagnosis stays the same.
    """

    def __init__(self, diagnose: Diagnose, runtime: Runtime) -> None:
        self._diagnose = diagnose
        self._runtime = runtime
        self._known: dict[tuple[str, str, str], _Diagnosed] = {}

    async def annotated(self, states: Sequence[AlertState], tasks: TaskGroup) -> list[AlertState]:
        """Return the states; those firing on rates get the annotation `diagnosis` if there is a line.

        Diagnoses run in `tasks`. Waits for diagnoses of alerts that were not firing at the last call, but at most for
        `PATIENCE`. Does not raise.
        """
        firing = {_rate_of(one): one for one in states if _diagnosable(one)}
        self._known = {key: one for key, one in self._known.items() if key in firing}
        now, new = self._runtime.clock.monotonic(), []
        for key, state in firing.items():
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = _Diagnosed(now)
                new.append(known)
            elif known.running or now - known.asked < known.wait():
                continue
            known.asked, known.running = now, True
            tasks.start_soon(self._look, known, state)
        with anyio.move_on_after(PATIENCE):
            for one in new:
                await one.done.wait()
        return [self._with_line(state) for state in states]

    def _with_line(self, state: AlertState) -> AlertState:
        known = self._known.get(_rate_of(state)) if _diagnosable(state) else None
        if known is None or known.line is None:
            return state
        return replace(state, annotations={**state.annotations, DIAGNOSIS: known.line.text})

    async def _look(self, known: _Diagnosed, state: AlertState) -> None:
        try:
            line = await self._diagnose(state)
            known.line = line if line is not None else known.line
        except Exception as error:  # noqa: BLE001 - no alert fails because of its diagnosis
            message = "an alert has no diagnosis"
            self._runtime.events.warning(
                Event.DIAGNOSIS_FAILED, message, app=state.app, error=f"{type(error).__name__}: {error}"
            )
        finally:
            known.running = False
            known.done.set()


def _diagnosable(state: AlertState) -> bool:
    return state.firing and state.name in RATES and bool(state.app)


def _rate_of(state: AlertState) -> tuple[str, str, str]:
    return state.app, state.evaluator, state.labels.get("defect_rule", "")
