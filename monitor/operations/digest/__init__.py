"""The digest of a period, such as a week: rates compared with the period before, incidents, fixes, cost, coverage.

build_digest(digest_request(config, before=..., since=..., until=...)).rates[0].verdict
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from monitor.config import Config
from monitor.errors import MonitorError
from monitor.jobs.documents import DocumentsReport, DocumentsRequest, DocumentUse, documents_report, in_order
from monitor.jobs.documents import as_objects as documents_as_objects
from monitor.jobs.topics import read_topics
from monitor.jobs.unanswered import UnansweredReport, UnansweredRequest, unanswered_report
from monitor.jobs.unanswered import as_object as unanswered_as_object
from monitor.model.incident import IncidentRecord
from monitor.model.incident import as_object as incident_as_object
from monitor.statistics.rates import Difference, Estimate, difference, estimate
from monitor.storage import files
from monitor.storage.history.answers import AnswerReader
from monitor.storage.history.periods import JudgeUse, PeriodRate, PeriodReader
from monitor.storage.incidents import IncidentReader
from monitor.storage.request_log.store import RequestLogReader

RATES_AT_MOST: Final = 200
"""Pairs of app and evaluator in a digest: those with the most judged answers."""

APPS_AT_MOST: Final = 3
"""Apps whose documents and unanswered questions are in a digest: those with the most judged answers."""

INCIDENTS_AT_MOST: Final = 100
DOCUMENTS_AT_MOST: Final = 100

Verdict: TypeAlias = Literal["rose", "fell", "no_sure_change", "too_little", "nothing_before", "another_version"]
"""How a rate compares with the period before. `too_little`: there is so little data that even a doubling could be
missed."""

_FALSE_CHANGES: Final = 0.05
_LEAST_TOLD: Final = 0.01  # if the rate before was near 0, a rise by one point must be detectable
_WHOLE: Final = 0.95  # share of the period before that must still be stored to compare sums with it
_ANSWERED: Final = "evaluated"
_SCORED: Final = ("score", "late", "non_production")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRate:
    """The defect rate of one app and evaluator in a period and in the period before, with 95 % limits.

    `change` is the rate minus the rate before. Its limits are simultaneous 95 % limits for all rates of a digest.
    """

    app: str
    evaluator: str
    verdict: Verdict
    now: Estimate
    before: Estimate | None
    change: Difference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFigures:
    """The cost of the judges in a period, and how often they produced no score, by reason.

    `evaluations` counts evaluations with and without a score. `seconds` is the mean wall-clock time of those that the
    judge answered, or None if it answered none.
    """

    dollars: float
    calls: int
    evaluations: int
    unscored: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedShare:
    """The number of an app's evaluated answers (None if not stored), and how many of them each evaluator judged."""

    app: str
    answers: int | None
    judged: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A period from `since` to `until`, compared with the period before it, from `before` to `since` (Unix seconds).

    `unlisted` is the number of rates that are left out. `judge` is None if no evaluator asks a judge or has asked one.
    `judge_before` is also None if the period before is not stored in full.
    """

    app: str | None
    before: float
    since: float
    until: float
    rates: tuple[ComparedRate, ...]
    unlisted: int
    judge: JudgeFigures | None
    judge_before: JudgeFigures | None
    coverage: tuple[JudgedShare, ...]
    incidents: tuple[IncidentRecord, ...]
    documents: tuple[DocumentsReport, ...]
    unanswered: tuple[UnansweredReport, ...]


class DigestRequest(NamedTuple):
    """The sources of a digest: a storage folder, and the evaluators that ask a judge or look at documents.

    The period is from `since` to `until`, in seconds since 1970; it is compared with the period from `before` to
    `since`. `app` restricts the digest to one app.
    """

    folder: Path
    asking: frozenset[str]
    grounding: tuple[str, ...]
    before: float
    since: float
    until: float
    app: str | None = None


def digest_request(
    config: Config, *, before: float, since: float, until: float, app: str | None = None
) -> DigestRequest:
    """Return the request for a digest of the monitor with this configuration."""
    evaluators = [one.evaluator for one in config.as_run().configured_evaluators]
    asking = frozenset(one.name for one in evaluators if one.cost == "judge")
    grounding = [one.name for one in evaluators if one.measures == "grounding"]
    return DigestRequest(config.storage.path, asking, tuple(grounding), before, since, until, app)


def build_digest(request: DigestRequest) -> Digest:
    """Read a digest, which may take some seconds. A monitor may be writing the history.

    Raises `MonitorError` if the history cannot be read.
    """
    folder, asking, grounding, before, since, until, app = request
    reader = PeriodReader(folder / files.HISTORY)
    found = [one for one in reader.rates(since, until) if app in (None, one.app)]
    now = _newest_versions(found)
    past = {(one.app, one.evaluator, one.version): one for one in reader.rates(before, since)}
    listed = sorted(now, key=lambda one: (-one.sums.judged, one.app, one.evaluator))
    rates = _changes(listed[:RATES_AT_MOST], past)
    begin = reader.begin()
    whole = begin is not None and begin - before <= (1 - _WHOLE) * (since - before)
    use, use_before = reader.judge_use(since, until), reader.judge_use(before, since)
    asking |= {one.evaluator for one in (*use, *use_before) if one.calls}  # also those that are gone by now
    return Digest(
        app=app,
        before=before,
        since=since,
        until=until,
        rates=tuple(sorted(rates, key=_order)),
        unlisted=len(now) - len(rates),
        judge=_health(use, asking, app) if asking else None,
        judge_before=_health(use_before, asking, app) if asking and whole else None,
        coverage=tuple(_coverage(folder, listed[:RATES_AT_MOST], found, since, until)),
        incidents=tuple(_incidents(request)),
        documents=tuple(_documents(request, listed, grounding)),
        unanswered=tuple(_unanswered(request, listed)),
    )


def _newest_versions(found: Iterable[PeriodRate]) -> list[PeriodRate]:
    """Return the version used last, for each app and evaluator: rates of different versions are not comparable."""
    newest: dict[tuple[str, str], PeriodRate] = {}
    for one in found:
        known = newest.get((one.app, one.evaluator))
        if known is None or (one.last, one.version) > (known.last, known.version):
            newest[one.app, one.evaluator] = one
    return list(newest.values())


def _changes(now: Sequence[PeriodRate], past: Mapping[tuple[str, str, str], PeriodRate]) -> list[ComparedRate]:
    """Compare the rates, and divide the accepted chance of any false change among all comparisons."""
    compared = sum((one.app, one.evaluator, one.version) in past for one in now)
    z = NormalDist().inv_cdf(1 - _FALSE_CHANGES / 2 / max(compared, 1))
    other_versions = {(app, evaluator) for app, evaluator, _ in past}
    found = []
    for one in now:
        rate = estimate(one.sums)
        if rate is None:
            continue
        before = past.get((one.app, one.evaluator, one.version))
        change = difference(before.sums, one.sums, z) if before is not None else None
        earlier = estimate(before.sums) if before is not None else None
        verdict: Verdict
        if change is None or earlier is None:
            verdict = "another_version" if (one.app, one.evaluator) in other_versions else "nothing_before"
        elif change.clear:
            verdict = "rose" if change.value > 0 else "fell"
        elif change.upper - change.value > max(earlier.rate, _LEAST_TOLD):
            verdict = "too_little"
        else:
            verdict = "no_sure_change"
        found.append(
            ComparedRate(app=one.app, evaluator=one.evaluator, verdict=verdict, now=rate, before=earlier, change=change)
        )
    return found


_FIRST: Final[Mapping[Verdict, int]] = {"rose": 0, "fell": 1}


def _order(one: ComparedRate) -> tuple[int, float, str, str]:
    moved = abs(one.change.value) if one.change is not None and one.verdict in _FIRST else one.now.lower
    return _FIRST.get(one.verdict, 2), -moved, one.app, one.evaluator


def _health(use: Iterable[JudgeUse], asking: frozenset[str], app: str | None) -> JudgeFigures:
    own = [one for one in use if one.evaluator in asking and app in (None, one.app)]
    unscored: Counter[str] = Counter()
    for one in own:
        if one.outcome not in ("score", "skipped"):
            unscored[one.outcome] += one.evaluations
    asked = sum(one.asked for one in own)
    return JudgeFigures(
        dollars=sum(one.dollars for one in own),
        calls=sum(one.calls for one in own),
        evaluations=sum(one.evaluations for one in own if one.outcome != "skipped"),
        unscored=dict(unscored.most_common()),
        seconds=sum(one.seconds for one in own) / asked if asked else None,
    )


def _coverage(
    folder: Path, rates: Sequence[PeriodRate], found: Iterable[PeriodRate], since: float, until: float
) -> Iterable[JudgedShare]:
    """Tell how many answers each evaluator of `rates` has a score of, by any version, in the rates or outside them."""
    answers: Counter[str] = Counter()
    scored: Counter[tuple[str, str]] = Counter()
    try:
        sums = RequestLogReader(folder / files.REQUEST_LOG).sums(since, until - 1)
    except MonitorError:  # the request log is off, or cannot be read
        sums = []
    for one in sums:
        if one.step.step == _ANSWERED and not one.step.evaluator:
            answers[one.step.app] += one.number
        elif one.step.step in _SCORED:
            scored[one.step.app, one.step.evaluator] += one.number
    live: Counter[tuple[str, str]] = Counter()
    for rate in found:
        live[rate.app, rate.evaluator] += rate.sums.judged
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for rate in rates:
        key = rate.app, rate.evaluator
        judged[rate.app][rate.evaluator] = max(live[key], scored[key])  # external scores are in no request log
    for app in sorted(judged):
        yield JudgedShare(app=app, answers=answers.get(app), judged=judged[app])


def _incidents(request: DigestRequest) -> Iterable[IncidentRecord]:
    """Return the incidents that were open at any time in the period, newest first."""
    try:
        reader = IncidentReader(request.folder / files.INCIDENTS)
        found = reader.newest(since=request.since, app=request.app, limit=INCIDENTS_AT_MOST)
    except MonitorError:  # there have been none yet, or they cannot be read
        return []
    return [one for one in found if one.incident.fired < request.until]


def _documents(
    request: DigestRequest, rates: Sequence[PeriodRate], grounding: Sequence[str]
) -> Iterable[DocumentsReport]:
    """Compare the documents of each app, by the grounding evaluator that judged most of its answers."""
    by_app: dict[str, str] = {}
    for one in rates:  # the most judged first
        if one.evaluator in grounding:
            by_app.setdefault(one.app, one.evaluator)
    for app, evaluator in list(by_app.items())[:APPS_AT_MOST]:
        wanted = DocumentsRequest(app, evaluator, request.until - request.since)
        yield documents_report(AnswerReader(request.folder / files.HISTORY), wanted, request.until)


def _unanswered(request: DigestRequest, rates: Sequence[PeriodRate]) -> Iterable[UnansweredReport]:
    """Group the unanswered questions of the apps with the most answers."""
    for app in list(dict.fromkeys(one.app for one in rates))[:APPS_AT_MOST]:
        topics = read_topics(request.folder / files.STATE, app)
        wanted = UnansweredRequest(app, request.until - request.since)
        found = unanswered_report(AnswerReader(request.folder / files.HISTORY), topics, wanted, request.until)
        if found.questions:
            yield found


def as_object(digest: Digest) -> dict[str, Any]:
    """Return a digest in plain JSON types; times are seconds since 1970, rates shares from 0 to 1."""
    rates = [
        {
            **{name: getattr(one, name) for name in ("app", "evaluator", "verdict")},
            "now": asdict(one.now),
            "before": asdict(one.before) if one.before is not None else None,
            "change": one.change._asdict() if one.change is not None else None,
        }
        for one in digest.rates
    ]
    return {
        **{name: getattr(digest, name) for name in ("app", "before", "since", "until", "unlisted")},
        "rates": rates,
        "judge": asdict(digest.judge) if digest.judge is not None else None,
        "judge_before": asdict(digest.judge_before) if digest.judge_before is not None else None,
        "coverage": [asdict(one) for one in digest.coverage],
        "incidents": [incident_as_object(one) for one in digest.incidents],
        "documents": [
            {"app": one.app, "evaluator": one.evaluator, "documents": list(documents_as_objects(one, to_mend(one)))}
            for one in digest.documents
        ],
        "unanswered": [dict(unanswered_as_object(one)) for one in digest.unanswered],
    }


def to_mend(report: DocumentsReport) -> list[DocumentUse]:
    """Return the documents to look at: those significantly worse than the rest, then those that no answer uses."""
    worse = [one for one in report.documents if one.surely_worse and not one.beside]
    unused = in_order([one for one in report.documents if one.never_used and one not in worse], "retrieved")
    return [*worse, *unused][:DOCUMENTS_AT_MOST]
