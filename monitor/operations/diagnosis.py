"""Explains the results of a trace or of an evaluator: from the storage folder, in a running monitor, or by asking one.

Diagnostics(config, SystemClock()).trace("65dbb018012b2df2878b7ad02718e182").conclusion
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import anyio.to_thread
from pydantic import TypeAdapter, ValidationError

from monitor.clock import Clock
from monitor.config import Config
from monitor.config.model import CONTEXT_RATES
from monitor.errors import MonitorError
from monitor.extraction.feedback.rules import known_names
from monitor.judge.setup import place_of
from monitor.model.case import trace_of
from monitor.model.external import ScoreSource
from monitor.model.request_log import RequestRecord
from monitor.operations.monitor_client import MonitorClient
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    Explanation,
    ExternalScores,
    MonitorSetup,
    TraceFacts,
)
from monitor.pipeline.introspection.explain.evaluator import explain_evaluator
from monitor.pipeline.introspection.explain.reasons import expected_source
from monitor.pipeline.introspection.explain.trace import explain_requests, explain_trace
from monitor.pipeline.run import Pipeline
from monitor.quantities import format_duration
from monitor.samplers.uniform import Uniform
from monitor.stages import type_name
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader, Search
from monitor.storage.request_log import RequestLogReader

BUDGETS: Final = ("per_day", "per_hour", "dollars_per_day")
"""Options of samplers that limit what is evaluated."""

_OF_A_JUDGE: Final = ("model", "timeout", "max_concurrency", "max_characters")
_TRACE: Final = 32
_HEX: Final = frozenset("0123456789abcdef")


class Diagnostics:
    """Explains results of one monitor, from its storage folder and, if it runs in this process, from its live state.

    The methods without `live` in their name block for some milliseconds. All raise `MonitorError` if a file cannot be
    read.
    """

    def __init__(self, config: Config, clock: Clock, live: Pipeline | None = None) -> None:
        self._config = config.as_run()
        self._clock = clock
        self._live = live
        self._records = RequestLogReader(config.storage.path / files.REQUEST_LOG)
        self._results = config.storage.path / files.HISTORY

    def trace(self, request_id: str, evaluator: str = "") -> Explanation:
        """Explain the results of a trace, or why there are none; with `evaluator`, only those of this evaluator."""
        return self._of_trace(self._facts(self._name_of(request_id)), evaluator)

    async def live_trace(self, request_id: str, evaluator: str = "") -> Explanation:
        """Do the same as `trace`, on the monitor's event loop, and include work in progress."""
        own, live = request_id.strip(), self._live
        waits = live is not None and (bool(live.notes.of(own)) or live.is_unread(own))
        named = own if waits else await anyio.to_thread.run_sync(self._name_of, request_id)
        facts, in_progress = self._facts(named), list[RequestRecord]()
        if self._live is not None:
            whole = facts.request_id.rpartition("/")[0] or facts.request_id
            in_progress = self._live.notes.of(facts.request_id)
            unread = self._live.is_unread(facts.request_id) or self._live.is_unread(whole)
            facts = replace(facts, open=self._live.open_trace(whole), unread=unread)
        return await anyio.to_thread.run_sync(partial(self._of_trace, facts, evaluator, in_progress))

    def evaluator(self, name: str, since: float, app: str = "") -> Explanation:
        """Explain why an evaluator ran as often as it did since a wall-clock time in seconds, on one app or on all."""
        return self._of_evaluator(EvaluatorFacts(name=name, since=since, until=self._clock.now(), app=app))

    async def live_evaluator(self, name: str, since: float, app: str = "") -> Explanation:
        """Do the same as `evaluator`, on the monitor's event loop, and include work in progress."""
        facts = EvaluatorFacts(name=name, since=since, until=self._clock.now(), app=app)
        if self._live is not None:
            waiting = self._live.notes.waiting().get(name, 0)
            facts = replace(facts, waiting=waiting, pending=self._live.pending)
        return await anyio.to_thread.run_sync(self._of_evaluator, facts)

    def _name_of(self, given: str) -> str:
        """Return the id that something is stored under: as it is given, such as a UUID of a row, or that of a trace."""
        own, usual = given.strip(), as_id(given)
        if own == usual:
            return usual
        recorded = self._has_records and bool(self._records.of(own))
        stored = self._results.exists() and bool(HistoryReader(self._results).requests_of(own))
        return own if recorded or stored else usual

    def _facts(self, named: str) -> TraceFacts:
        whole = trace_of(named)
        return TraceFacts(
            least_rate=consistent_sampling.least_rate(consistent_sampling.sampling_id(whole)) if whole else None,
            **self._draws(named),
        )

    def _draws(self, request_id: str) -> dict[str, Any]:
        """Return the id of a request and the values that sampling draws for it."""
        salt = self._config.sampling.salt
        return {
            "request_id": request_id,
            "draw": consistent_sampling.value(request_id, salt),
            "class_draw": consistent_sampling.value(request_id, f"{salt}/traffic"),
        }

    def _of_trace(self, facts: TraceFacts, evaluator: str, in_progress: Sequence[RequestRecord] = ()) -> Explanation:
        recorded: list[RequestRecord] = []
        stored: list[str] = []
        results = HistoryReader(self._results) if self._results.exists() else None
        if self._has_records:
            recorded = self._records.of(facts.request_id)
            facts = replace(facts, reaches_back=self._records.oldest())
        if results is not None:
            stored = results.requests_of(facts.request_id)
        ids = dict.fromkeys((*(one.request_id for one in (*recorded, *in_progress)), *stored))
        explained = []
        for one in ids or [facts.request_id]:
            own = facts if one == facts.request_id else replace(facts, **self._draws(one))
            own = replace(
                own,
                recorded=[record for record in recorded if record.request_id == one],
                in_progress=next((record for record in in_progress if record.request_id == one), None),
                results=results.by_trace(one) if results is not None else (),
                of_several="/" in one,
            )
            explained.append(explain_trace(own, self._setup(), evaluator))
        return explained[0] if len(explained) == 1 else explain_requests(facts.request_id, explained)

    def _of_evaluator(self, facts: EvaluatorFacts) -> Explanation:
        if self._has_records:
            span = self._records.span()
            sums = self._records.sums(facts.since, facts.until, facts.app or None)
            facts = replace(facts, sums=sums, reaches_back=span[0] if span else None)
        if self._results.exists():
            facts = replace(facts, unscored=self._newest_unscored(facts))
        if facts.name not in self._own:
            facts = replace(facts, external=self._external(facts))
        return explain_evaluator(facts, self._setup())

    def _newest_unscored(self, facts: EvaluatorFacts) -> Mapping[str, Any] | None:
        apps = (facts.app,) if facts.app else ()
        wanted = Search(apps=apps, evaluator=facts.name, since=facts.since, outcome="unscored", order="newest", limit=1)
        return next(iter(HistoryReader(self._results).search(wanted)), None)

    @property
    def _own(self) -> list[str]:
        return [one.evaluator.name for one in self._config.configured_evaluators]

    def _external(self, facts: EvaluatorFacts) -> ExternalScores | None:
        """Return the external scores of this name; None if no such scores are known."""
        expected = facts.name in known_names(self._config.feedback, self._own)
        if not self._results.exists():
            return ExternalScores(source=expected_source(facts.name)) if expected else None
        results = HistoryReader(self._results)
        apps = (facts.app,) if facts.app else ()
        newest = results.search(Search(apps=apps, evaluator=facts.name, outcome="any", order="newest", limit=1))
        source = newest[0].get("score_source", ScoreSource.OWN) if newest else expected_source(facts.name)
        if source == ScoreSource.OWN or not (newest or expected):
            return None
        numbers = results.numbers(facts.name, facts.since, facts.app or None)
        return ExternalScores(source=source, numbers=numbers, newest=newest[0].get("evaluated_at") if newest else None)

    @property
    def _has_records(self) -> bool:
        return self._config.storage.request_log > 0 and self._records.path.exists()

    def _setup(self) -> MonitorSetup:
        config = self._config
        return MonitorSetup(
            evaluators=[evaluating(config, index, one) for index, one in enumerate(config.configured_evaluators)],
            head_rate=config.sampling.traces,
            idle_timeout=config.assembly.idle_timeout,
            grace_period=config.assembly.grace_period,
            late_after=config.traffic.late_after,
            request_log=config.storage.request_log,
            live=self._live is not None,
            shared=any(type_name(source) == "kafka" for source in config.sources),
            external=known_names(config.feedback, self._own),
        )


def evaluating(config: Config, index: int, one: ConfiguredEvaluator) -> EvaluatorSetup:
    """Return the facts about entry number `index` of `evaluators` that explanations need."""
    sampler, judge = one.sampler, config.judge_of(one)
    return EvaluatorSetup(
        name=one.evaluator.name,
        place="context_rates" if one.evaluator.name in CONTEXT_RATES else f"evaluators[{index}]",
        cost=one.evaluator.cost,
        judge_place=place_of(one.judge),
        judge={name: getattr(judge, name) for name in _OF_A_JUDGE},
        works=config.works(one),
        rate=sampler.rate if isinstance(sampler, Uniform) else None,
        sampler=type_name(sampler),
        budget=next((name for name in BUDGETS if getattr(sampler, name, None) is not None), ""),
        watched=any(policy.evaluator == one.evaluator.name for policy in config.alerts),
    )


def ask_monitor(
    client: MonitorClient, trace: str = "", evaluator: str = "", *, since: float = 86_400.0, app: str = ""
) -> Explanation:
    """Ask a running monitor about a trace, or about an evaluator over the last `since` seconds, on one app or on all.

    Raises `MonitorError` if it returns no explanation.
    """
    given = {"trace": trace, "evaluator": evaluator, "since": format_duration(since), "app": app}
    found = client.document(f"/api/v1/why?{urlencode({name: value for name, value in given.items() if value})}")
    if found is None:
        raise MonitorError(
            f"{client.url}/api/v1/why: no explanation: check `ui.enabled` there, the token, and the options"
        )
    try:
        return TypeAdapter(Explanation).validate_python(found)
    except ValidationError:
        raise MonitorError(
            f"{client.url}/api/v1/why: this monitor has a different version; its explanation cannot be read"
        ) from None


def is_known(explanation: Explanation) -> bool:
    """Return whether anything is known about the subject."""
    return explanation.cause not in (Cause.NEVER_SEEN, Cause.NOT_RECORDED)


def as_id(given: str) -> str:
    """Return the id in a text: a trace id, converted from any of its usual forms, or the id of a row unchanged.

    An id of the form TRACE_ID/SPAN_ID keeps the part after the slash.
    """
    whole, slash, part = given.strip().rpartition("/")
    if slash:
        return f"{as_id(whole)}/{part}"
    digits = part.lower().removeprefix("tr-").removeprefix("0x").replace("-", "")
    return digits if len(digits) == _TRACE and _HEX.issuperset(digits) else part
