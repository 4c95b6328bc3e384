"""The ledger: every trace received, and every request in it, ends in exactly one counted outcome.

    traces received = the sum over all outcomes of traces + pending traces
    requests found in traces = the sum over all outcomes of requests + pending requests

A row counts as a trace here, and its turns as requests. Both equations hold for each app: a trace is counted under the
service whose part of it arrived first, a request under the service that answered it, as in all rates. All changes, and
the scrape, happen on the event loop without waiting in between, so both equations hold at every scrape.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge

from monitor.alerts.self_alert import SelfAlertChecks
from monitor.model.request_log import RequestStep
from monitor.storage.request_log import Recorder
from monitor.telemetry.metrics import Metrics


class TraceOutcome(StrEnum):
    """How a trace ends. The values are the metric label `outcome`."""

    SAMPLED_OUT = "sampled_out"  # head sampling did not choose it
    FILTERED = "filtered"  # left out by the configuration, and not a request: a health check
    NO_REQUEST = "no_request"  # no user got an answer: indexing, health checks, creation of an agent
    INCOMPLETE = "incomplete"
    OWN_TELEMETRY = "own_telemetry"  # the monitor's own telemetry: never judged
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    EXPIRED = "expired"  # given up: it waited in the spool for longer than `storage.retention`
    FORGOTTEN = "forgotten"  # erased by `rag-monitor forget` before it was evaluated
    POISON = "poison"  # two processes ended while reading it: set aside, and not read again
    HANDED_OVER = "handed_over"  # its partition moved to another replica, which receives it again and counts it there
    READ = "read"  # it contains requests, each of which has ended in its own outcome


class RequestOutcome(StrEnum):
    """How a request of a trace ends. The values are the metric label `outcome`."""

    EVALUATED = "evaluated"
    FAILED_REQUEST = "failed_request"  # the service itself failed to answer
    CONTENT_MISSING = "content_missing"
    FILTERED = "filtered"  # left out by the configuration: a health check, or matched by `traffic.drop`
    SAMPLED_OUT = "sampled_out"  # the rate of its traffic class did not choose it
    TOO_MANY = "too_many"  # beyond the limit on requests of one trace


class _Page(NamedTuple):
    app: str
    received: Counter
    pending: Gauge
    outcomes: dict[TraceOutcome, Counter]
    found: Counter
    open_requests: Gauge
    request_outcomes: dict[RequestOutcome, Counter]


_TRACES: Final = (
    TraceOutcome.READ,
    TraceOutcome.NO_REQUEST,
    TraceOutcome.INCOMPLETE,
    TraceOutcome.INVALID,
    TraceOutcome.TOO_LARGE,
    TraceOutcome.EXPIRED,
    TraceOutcome.POISON,
)
_REQUESTS: Final = (RequestOutcome.EVALUATED, RequestOutcome.FAILED_REQUEST, RequestOutcome.CONTENT_MISSING)
"""Outcomes that alerts or dashboards query by name. `increase()` misses the first event of a series that starts with
it, so these series exist from the first trace of an app on. Others exist once they occur, to keep scrapes small."""


class Ledger:
    """Counts traces and their requests in and out. An app's series are created, at 0, when it is first seen.

    Series of outcomes that no dashboard queries by name exist once they occur.

    `first_seen` is called with the name of each app before its first trace is counted. `alerts` are notified of each
    received trace, to notice when evaluations are missing. `recorder` sums up outcomes in the request log.
    """

    def __init__(
        self,
        metrics: Metrics,
        first_seen: Callable[[str], None] = lambda _: None,
        *,
        alerts: SelfAlertChecks | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._metrics = metrics
        self._first_seen = first_seen
        self._alerts = alerts
        self._recorder = recorder
        self._pages: dict[tuple[str, str], _Page] = {}
        self.pending = 0
        """Number of traces received but not ended, summed over all apps."""

    def received(self, app: str, source: str) -> None:
        """Count a new trace; it is now pending."""
        page = self._page(app, source)
        page.received.inc()
        page.pending.inc()
        self.pending += 1
        if self._alerts is not None:
            self._alerts.on_received(page.app, 1)

    def ended(self, app: str, source: str, outcome: TraceOutcome) -> None:
        """Count the end of a pending trace; `app` and `source` are the ones it was received under."""
        page = self._page(app, source)
        self._outcome(page, source, outcome).inc()
        page.pending.dec()
        self.pending -= 1
        if self._recorder is not None and outcome is not TraceOutcome.READ:  # its requests are recorded
            self._recorder.count(RequestStep(page.app, source, "", outcome.value), 1)

    def found(self, app: str, source: str, requests: int, left_out: int = 0) -> None:
        """Count the requests of `app` found in a trace; they are now pending, except `left_out` beyond the limit."""
        page = self._page(app, source)
        page.found.inc(requests + left_out)
        page.open_requests.inc(requests)
        if left_out:
            self._request_outcome(page, source, RequestOutcome.TOO_MANY).inc(left_out)
            if self._recorder is not None:
                self._recorder.count(RequestStep(page.app, source, "", RequestOutcome.TOO_MANY.value), left_out)

    def request_ended(self, app: str, source: str, outcome: RequestOutcome) -> None:
        """Count the end of a pending request; `app` and `source` are the ones it was found under."""
        page = self._page(app, source)
        self._request_outcome(page, source, outcome).inc()
        page.open_requests.dec()
        if self._recorder is not None:
            self._recorder.count(RequestStep(page.app, source, "", outcome.value), 1)

    def passed(self, app: str, source: str, outcome: TraceOutcome, traces: int = 1) -> None:
        """Count traces that ended as soon as they were received."""
        page = self._page(app, source)
        page.received.inc(traces)
        self._outcome(page, source, outcome).inc(traces)
        if self._alerts is not None:
            self._alerts.on_received(page.app, traces)
        if self._recorder is not None:
            self._recorder.count(RequestStep(page.app, source, "", outcome.value), traces)

    def _outcome(self, page: _Page, source: str, outcome: TraceOutcome) -> Counter:
        if outcome not in page.outcomes:
            page.outcomes[outcome] = self._metrics.traces.labels(page.app, source, outcome.value)
        return page.outcomes[outcome]

    def _request_outcome(self, page: _Page, source: str, outcome: RequestOutcome) -> Counter:
        if outcome not in page.request_outcomes:
            page.request_outcomes[outcome] = self._metrics.requests_ended.labels(page.app, source, outcome.value)
        return page.request_outcomes[outcome]

    def _page(self, app: str, source: str) -> _Page:
        page = self._pages.get((app, source))
        if page is None:
            self._first_seen(app)
            labels = (self._metrics.app(app), source)
            page = self._pages[app, source] = _Page(
                labels[0],
                self._metrics.traces_received.labels(*labels),
                self._metrics.traces_pending.labels(*labels),
                {outcome: self._metrics.traces.labels(*labels, outcome.value) for outcome in _TRACES},
                self._metrics.requests_found.labels(*labels),
                self._metrics.requests_pending.labels(*labels),
                {outcome: self._metrics.requests_ended.labels(*labels, outcome.value) for outcome in _REQUESTS},
            )
            if len(self._pages) > _MOST_PAGES:
                self._pages.clear()
        return page


_MOST_PAGES = 10_000  # cached children are only a shortcut: an endless stream of names must not use up memory
