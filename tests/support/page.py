"""A page on real parts: windows, a history on disk, alerts; and the port that serves it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.from_thread
import anyio.lowlevel

from monitor import registry
from monitor.alerts.engine import AlertEngine
from monitor.alerts.incidents import IncidentTracker
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock
from monitor.config import Config
from monitor.jobs.backfill.store import Missed
from monitor.jobs.incidents import IncidentKeeper
from monitor.jobs.incidents.investigation import Investigation
from monitor.jobs.reports import HistoryReports
from monitor.jobs.review import ReviewQueue
from monitor.jobs.review.reviewers import Reviewers
from monitor.jobs.topics import TopicKeeper
from monitor.model.case import Case, Document, Message, Request
from monitor.model.outcome import Cost, DefectRule, EvaluationResult, Evidence, Score
from monitor.model.service_version import VersionChange
from monitor.operations.diagnosis import Diagnostics
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.introspection.evaluator_status import EvaluatorStatus, State
from monitor.pipeline.learned import order_for
from monitor.samplers.uniform import Uniform
from monitor.sinks.history import HistorySink
from monitor.sinks.prometheus import PrometheusSink
from monitor.stages import Evaluator, Runtime
from monitor.statistics.slice_sums import Sliced
from monitor.statistics.windows import Windows
from monitor.storage.history.reader import HistoryReader
from monitor.telemetry.site import WebResponse
from monitor.web.context import PageContext, ReviewParts
from monitor.web.mount import mount
from monitor.web.pages import Pages
from monitor.web.settings import UiSettings
from tests.support.runtime import runtime
from tests.support.tools import free_port

NOW = 1_700_000_000.0
POLICIES = (
    AlertPolicy(evaluator="overlap_groundedness", warning=0.1, critical=0.25, regression=True),  # type: ignore[arg-type] # as YAML has it
    AlertPolicy(evaluator="groundedness", warning=0.05, critical=0.15),
    AlertPolicy(
        evaluator="groundedness",
        defect=DefectRule("below", 3, levels=("mostly_ungrounded", "ungrounded")),
        critical=0.01,
    ),
)


def assigned(name: str) -> ConfiguredEvaluator:
    evaluator = registry.read("evaluators", {"type": name}, Evaluator, "here")
    return ConfiguredEvaluator(evaluator, Uniform(rate=1.0), evaluator.default_defect.on(evaluator.scale))


def answer(
    number: int = 1,
    value: float = 0.1,
    *,
    response: str = "The return label is valid for six months.",
    question: str = "How long is the label valid?",
    **fields: Any,
) -> EvaluationResult:
    """Return a scored answer, a defect if `value` is below 0.45."""
    case = Case(
        request_id=fields.pop("trace_id", f"{number:032x}"),
        span_id=f"{number:016x}",
        request=Request(question, fields.pop("history", (Message("user", "Hello"), Message("assistant", "Hi!")))),
        retrieved_context=fields.pop(
            "documents", (Document("A label is valid for 30 days.", doc_uri="https://kb.example/labels", score=7.5),)
        ),
        response=response,
        app=fields.pop("app", "shop"),
        model="acme-chat-small",
        answered_at=NOW - 30,
        attributes=fields.pop("attributes", {"service.version": "2.3.0"}),
    )
    evidence = fields.pop("evidence", (Evidence("six months", "contradicted", 30, 40, "the context says 30 days"),))
    chosen: dict[str, Any] = {
        "evaluator": "overlap_groundedness",
        "version": "1",
        "outcome": Score(value, fields.pop("explanation", "The context says 30 days."), evidence=evidence),
        "weight": 1.0,
        "level": "unsupported" if value < 0.45 else "supported",
        "defect": value < 0.45,
        "evaluated_at": NOW - 10 + number / 1000,
        "cost": Cost(),
        **fields,
    }
    return EvaluationResult(case=case, **chosen)


@dataclass(slots=True)
class Site:
    """A page with its parts, on a clock fixed at `NOW`."""

    folder: Path
    texts: bool = True
    settings: UiSettings = field(default_factory=UiSettings)
    evaluators: tuple[str, ...] = ("overlap_groundedness", "groundedness")
    idle: tuple[str, ...] = ()
    changes: Mapping[tuple[str, str], VersionChange] = field(default_factory=dict)
    slices: tuple[str, ...] = ()
    statuses: Mapping[str, EvaluatorStatus] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    runtime: Runtime = field(init=False)
    policies: Sequence[AlertPolicy] = POLICIES
    windows: Windows = field(init=False)
    ruled: RuleWindows = field(init=False)
    history: HistorySink = field(init=False)
    sliced: Sliced = field(init=False)
    states: list[AlertState] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    reviewers: str = ""
    """The file of reviewers; without it, review is off."""
    blind: bool = True
    keeper: IncidentKeeper = field(init=False)
    engine: AlertEngine = field(init=False)
    context: PageContext = field(init=False)
    pages: Pages = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = runtime(self.clock)
        self.windows = Windows(self.clock, baselines=True)
        self.history = HistorySink(path=self.folder / "history.db", texts="all" if self.texts else "explanations")
        self.sliced = Sliced(self.clock)
        self.ruled = RuleWindows(self.policies, self.clock)
        topics = TopicKeeper(self.folder / "history.db", self.runtime.kept, self.clock)
        reports = HistoryReports(self.folder / "history.db", self.slices, topics, self.clock)
        self.keeper = IncidentKeeper(
            self.folder,
            Investigation(HistoryReader(self.folder / "history.db"), {}, {}),
            self.runtime,
            diagnose=reports.diagnose,
            retention=1e7,
        )
        self.engine = AlertEngine(
            self.policies,
            self.windows,
            ruled=self.ruled,
            runbooks="https://runbooks.example",
            incidents=IncidentTracker(self.policies, changed=self.keeper.changed),
        )
        diagnostics = Diagnostics(self._config(), self.clock)
        self.context = PageContext(
            runtime=self.runtime,
            windows=self.windows,
            history=self.history,
            alerts=lambda: self.states,
            policies=self.policies,
            ruled=self.ruled,
            configured=[assigned(name) for name in self.evaluators],
            learned=order_for([assigned(name) for name in self.evaluators]),
            idle=self.idle,
            versions=dict.fromkeys(self.evaluators, "1"),
            models={"groundedness": "openai/gpt-4o-mini"},
            statuses=self._statuses,
            changed=lambda app, evaluator: self.changes.get((app, evaluator)),
            sliced=self.sliced,
            slices=self.slices,
            explain_trace=diagnostics.live_trace,
            explain_evaluator=diagnostics.live_evaluator,
            missed=lambda: self.missed,
            retention=7 * 86400.0,
            keeps_texts=self.texts,
            incidents=self.keeper,
            reports=reports,
        )
        if self.reviewers:
            self.context = replace(self.context, review=self._review())
        self.pages = Pages(self.context, self.settings, started_at=NOW - 100)
        mount(self.context, self.settings)

    def _review(self) -> ReviewParts:
        path = self.folder / "reviewers"
        path.write_text(self.reviewers)
        path.chmod(0o600)
        scales = {name: assigned(name).evaluator.scale for name in self.evaluators}
        kept = self.context.retention
        queue = ReviewQueue(self.folder, scales, self.context.versions, self.runtime, retention=kept, blind=self.blind)
        return ReviewParts(queue, Reviewers(path, self.clock, self.runtime.events), self.blind)

    def _config(self) -> Config:
        state = {"path": str(self.folder)}
        listed = [{"type": name, "optional": True} for name in self.evaluators]
        return Config.model_validate({"storage": state, "evaluators": listed, "alerts": []})

    def _statuses(self) -> Mapping[str, EvaluatorStatus]:
        fine = EvaluatorStatus(State.OK, "It scored 7 answers in the last 15 minutes.")
        return {name: self.statuses.get(name, fine) for name in self.evaluators}

    def judge(self, app: str, evaluator: str, good: int, bad: int, at: float = NOW - 60) -> None:
        """Add verdicts to the windows, but nothing to the history."""
        for defect, number in ((False, good), (True, bad)):
            for _ in range(number):
                self.windows.add(app, evaluator, at, 1.0, defect)

    def look(self) -> None:
        """Evaluate the alerts."""
        self.states = list(self.engine.evaluate(self.clock.now()))

    async def store(self, results: Iterable[EvaluationResult]) -> None:
        async with self.history.open(self.runtime) as deliver:
            for one in results:
                await deliver([one])

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> WebResponse:
        """Return the page's answer to `path` with its query."""
        bare, _, query = path.partition("?")
        found = await self.pages(unquote(bare), query, headers or {})
        assert found is not None, path
        return found

    @contextmanager
    def served(self, **options: Any) -> Iterator[str]:
        """Serve it with the sink `prometheus`; yield its base address. `options` are those of the sink."""
        port = free_port()
        up, ended = threading.Event(), threading.Event()
        holder: dict[str, Any] = {}

        async def serve() -> None:
            holder["stop"] = anyio.Event()
            async with PrometheusSink(port=port, **options).open(self.runtime):
                up.set()
                await holder["stop"].wait()

        async def main() -> None:
            holder["token"] = anyio.lowlevel.current_token()
            await serve()

        def run() -> None:
            anyio.run(main)
            ended.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert up.wait(20), "the port is not served"
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            anyio.from_thread.run_sync(holder["stop"].set, token=holder["token"])
            thread.join(60)
            assert ended.is_set()
