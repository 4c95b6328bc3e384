"""What the page is given to look at: the few properties and methods of other rooms that it reads, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from monitor.model.outcome import DefectRule
from monitor.model.service_version import VersionChange
from monitor.pipeline.introspection.explain import Explanation
from monitor.stages import Evaluator, Runtime
from monitor.statistics.rates import Estimate
from monitor.statistics.slice_sums import Sliced
from monitor.statistics.windows import Windows
from monitor.web.trials import Tries


class Alert(Protocol):
    """An alert as it stands. Times are wall-clock seconds, windows seconds, thresholds shares."""

    @property
    def status(self) -> str:
        """`ok`, `not_enough_data` or `firing`."""
        ...

    @property
    def name(self) -> str:
        """Such as `RagDefectRateHigh`."""
        ...

    @property
    def severity(self) -> str:
        """`warning` or `critical`."""
        ...

    @property
    def app(self) -> str:
        """Empty where it is not about one."""
        ...

    @property
    def evaluator(self) -> str:
        """Empty where it is not about one."""
        ...

    @property
    def threshold(self) -> float | None:
        """The share above which it fires."""
        ...

    @property
    def since(self) -> float:
        """When `status` began."""
        ...

    @property
    def window(self) -> float | None:
        """The window that decided."""
        ...

    @property
    def estimate(self) -> Estimate | None:
        """What decided."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """What identifies it."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """`summary`, `description`, perhaps `runbook_url`."""
        ...


class Results(Protocol):
    """The history of results; rows of the schema of results. Raises `MonitorError` where it cannot be read."""

    async def search(self, **wanted: Any) -> list[dict[str, Any]]:
        """Results by app, evaluator, time, outcome and score."""
        ...

    async def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """All results of one trace, oldest first."""
        ...


class Assigned(Protocol):
    """An evaluator at work."""

    @property
    def evaluator(self) -> Evaluator:
        """Who judges."""
        ...

    @property
    def defect(self) -> DefectRule:
        """What counts as a defect."""
        ...


class Standing(Protocol):
    """The state of an evaluator: why, and what to do about it, in a sentence each."""

    @property
    def state(self) -> str:
        """One of the closed set of `monitor/pipeline/introspection/evaluator_status.py`."""
        ...

    @property
    def why(self) -> str:
        """Never empty."""
        ...

    @property
    def remedy(self) -> str:
        """Empty where there is nothing to do."""
        ...


class Asked(Protocol):
    """Who explains why there is a verdict, or none. Raises `MonitorError` where what is kept cannot be read."""

    async def live_trace(self, request_id: str, evaluator: str = "") -> Explanation:
        """Why a trace has the verdicts it has, or none; with `evaluator`, why that one's."""
        ...

    async def live_evaluator(self, name: str, since: float, app: str = "") -> Explanation:
        """Why an evaluator ran as often as it did since that wall-clock second."""
        ...


class Missed(Protocol):
    """What an evaluator missed while its judge refused, and nobody has asked for yet."""

    @property
    def evaluator(self) -> str:
        """Whose judgements."""
        ...

    @property
    def number(self) -> int:
        """How many."""
        ...

    @property
    def since(self) -> float:
        """When the first of the answers was given."""
        ...

    @property
    def until(self) -> float:
        """When the last was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is shown. `alerts` and the other functions are called for every view; they are quick and never wait.

    `idle` names the evaluators that are configured and off, `models` the model of the judge of each judged one.
    `standings` has the state of each configured evaluator, by name.
    `thresholds` are those of an app and evaluator by severity, `changed` the last change behind its verdicts;
    `decisive` is the name of the alert that holds a rate against them.
    `keeps` is for how many seconds results are kept, `keeps_texts` whether with question, context and answer.
    `asked` explains why there is a verdict or none; None: nobody does. `missed` is what waits to be asked for.
    `tries` tries an evaluator on a case; None: nobody does. `slices` are those configured, `sliced` has their sums.
    """

    runtime: Runtime
    windows: Windows
    results: Results
    alerts: Callable[[], Sequence[Alert]]
    assigned: Sequence[Assigned]
    versions: Mapping[str, str]
    models: Mapping[str, str]
    idle: Sequence[str]
    thresholds: Callable[[str, str], Mapping[str, float]]
    standings: Callable[[], Mapping[str, Standing]]
    decisive: str
    changed: Callable[[str, str], VersionChange | None]
    keeps: float
    keeps_texts: bool
    asked: Asked | None = None
    missed: Callable[[], Sequence[Missed]] = tuple
    tries: Tries | None = None
    slices: Sequence[str] = ()
    sliced: Sliced | None = None
