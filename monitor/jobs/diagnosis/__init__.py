"""Finds in a monitor's history when a rate rose, and what its bad answers have in common.

diagnose_history(path, slices, DiagnosisRequest("shop", "groundedness", 6 * 3600), now).found.factors
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.jobs.diagnosis.factors import FactorReader
from monitor.jobs.topics import read_topics, topic_factors
from monitor.model.incident import Incident
from monitor.model.outcome import DefectRule, Score
from monitor.model.service_version import SeenVersion, VersionChange
from monitor.statistics.diagnosis import diagnose, diagnose_alert
from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor
from monitor.statistics.topics import QuestionTopic, QuestionWords, renewed
from monitor.storage import files
from monitor.storage.history.answers import AnswerReader, Answers, JudgedAnswer
from monitor.storage.history.reader import HistoryReader

BASELINE: Final = 7 * 86_400.0
"""Seconds before the searched time that serve as the baseline."""

BASELINE_AT_MOST, SEARCHED_AT_MOST = 5_000, 10_000
"""The most answers read of each: the newest, and for an alert the first ones of the searched time."""

SHORTEST: Final = 3600.0
"""Shorter alert windows count as this long, in seconds: an alert's window may be only a minute."""

EXAMPLES: Final = 3
_CHANGES: Final = 5
_HOURS_FROM: Final = 2 * 86_400.0


class DiagnosisRequest(NamedTuple):
    """The rate to diagnose: of one app and evaluator, in `window` seconds up to `until`, in seconds since 1970.

    `until`: None means now. `rule` is the alert's own defect rule, None the evaluator's. `fired`: diagnose in looks, as
    for an alert that fired then, over the `window` seconds before it and the time since; None: one look.
    """

    app: str
    evaluator: str
    window: float
    until: float | None = None
    rule: DefectRule | None = None
    fired: float | None = None

    def search_from(self, until: float) -> float:
        """Return the time from which the rise is searched."""
        return (until if self.fired is None else self.fired) - 2 * self.window


def alert_request(one: Incident, rule: DefectRule | None) -> DiagnosisRequest:
    """Return what to diagnose for the alerts of an incident: the same for its page, its line and its record."""
    window = max(SHORTEST, one.window)
    return DiagnosisRequest(one.app, one.evaluator, window, one.ended, rule, one.fired)


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """A bad answer: its request, when it was given (seconds since 1970), and its score."""

    request_id: str
    at: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDiagnosis:
    """A diagnosis of the rate of one app and evaluator, `window` seconds up to `until`.

    `answers` is the number of answers that were read, all judged by one version of the evaluator; `other_versions`
    counts answers judged by its other versions, which are left out. `examples` has up to three bad answers for each
    factor, in the order of the factors, from different sessions or questions if possible; `questions` are the
    beginnings of their texts by request, if stored. `changes` are the last changes of the service or the judge in the
    searched time, oldest first. `unread` counts lines of files that are not results.
    """

    app: str
    evaluator: str
    window: float
    until: float
    answers: int
    found: Diagnosis
    examples: tuple[tuple[ExampleAnswer, ...], ...] = ()
    questions: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[VersionChange, ...] = ()
    other_versions: int = 0
    unread: int = 0


def diagnose_history(history: Path, slices: Sequence[str], request: DiagnosisRequest, now: float) -> RateDiagnosis:
    """Diagnose from the history, also while a monitor writes it. Takes up to some seconds.

    Args:
        history: its file.
        slices: the configured ones, which are also examined in pairs.
        request: the rate. The rise is looked for in twice its window, and since an alert fired.
        now: seconds since 1970.

    Raises `MonitorError` if the history cannot be read.
    """
    until = now if request.until is None else request.until
    changes = _changes(HistoryReader(history).generations([request.app]), request, request.search_from(until), until)
    topics = read_topics(history.with_name(files.STATE), request.app)
    return diagnose_stored(AnswerReader(history), slices, request._replace(until=until), topics=topics, changes=changes)


def diagnose_stored(
    stored: Answers,
    slices: Sequence[str],
    request: DiagnosisRequest,
    *,
    topics: Sequence[QuestionTopic] = (),
    changes: Sequence[VersionChange] = (),
    unread: int = 0,
) -> RateDiagnosis:
    """Diagnose from wherever answers are stored. `request.until` must be given. Raises as `stored` does."""
    until = request.until or 0.0
    since, of = request.search_from(until), (request.app, request.evaluator)
    before = stored.judged_answers(*of, since - BASELINE, since, BASELINE_AT_MOST)
    searched = stored.judged_answers(*of, since, until + 1, SEARCHED_AT_MOST, newest=request.fired is None)
    made = diagnose_answers([*before, *searched], slices, request, topics=topics, changes=changes, unread=unread)
    shown = [one.request_id for examples in made.examples for one in examples]
    return replace(made, questions=stored.question_texts(shown))


def diagnose_answers(
    answers: Sequence[JudgedAnswer],
    slices: Sequence[str],
    request: DiagnosisRequest,
    *,
    topics: Sequence[QuestionTopic] = (),
    changes: Sequence[VersionChange] = (),
    unread: int = 0,
) -> RateDiagnosis:
    """Diagnose from answers of the searched time and of the days before it. `request.until` must be given."""
    until = request.until or 0.0
    search_from = request.search_from(until)
    every, answers = answers, _by_one_version(answers, request.fired)
    rule = request.rule
    if rule is not None:
        answers = [one._replace(defect=rule.matches(Score(one.score, "", one.label))) for one in answers]
    known = renewed(topics, [QuestionWords(one.features.unit, one.features.words) for one in answers])
    hours = 2 * request.window >= _HOURS_FROM
    reader = FactorReader([one for one in answers if one.at < search_from], slices, hours=hours)
    factors = [(*reader.factors(one), *topic_factors(known, one.features)) for one in answers]
    cases = [
        JudgedCase(one.at, one.defect, one.features.unit, own, one.weight, one.judged_at)
        for one, own in zip(answers, factors, strict=True)
    ]
    fired = request.fired
    found = diagnose(cases, search_from) if fired is None else diagnose_alert(cases, search_from, fired)
    seen = [
        pair for pair in zip(answers, cases, strict=True) if found.looked is None or pair[0].judged_at <= found.looked
    ]
    examples = tuple(_examples(one, found, seen) for one in found.factors)
    return RateDiagnosis(
        app=request.app,
        evaluator=request.evaluator,
        window=request.window,
        until=until,
        answers=len(answers),
        found=found,
        examples=examples,
        changes=tuple(changes),
        other_versions=len(every) - len(answers),
        unread=unread,
    )


def _by_one_version(answers: Sequence[JudgedAnswer], fired: float | None) -> Sequence[JudgedAnswer]:
    """Return the answers judged by one version of the evaluator, since another version is a different instrument.

    It is the version of the last answer that was judged, or was judged before the alert fired.
    """
    known = [one for one in answers if fired is None or one.judged_at <= fired] or answers
    last = max(known, key=lambda one: one.judged_at, default=None)
    return [one for one in answers if last is not None and one.version == last.version]


def _changes(
    known: Sequence[SeenVersion], request: DiagnosisRequest, since: float, until: float
) -> tuple[VersionChange, ...]:
    """Return the changes in the searched time."""
    own = [one for one in known if (one.app, one.evaluator) == (request.app, request.evaluator)]
    pairs = itertools.pairwise(own)
    found = [VersionChange(one.began, one.service_version.changes_from(last.service_version)) for last, one in pairs]
    return tuple(one for one in found if since <= one.at <= until)[-_CHANGES:]


def _examples(
    one: FoundFactor, found: Diagnosis, answers: Sequence[tuple[JudgedAnswer, JudgedCase]]
) -> tuple[ExampleAnswer, ...]:
    """Return the newest bad answers with a factor, of different units first."""
    since = found.onset.at if found.onset is not None else 0.0
    bad = [
        answer
        for answer, case in answers
        if answer.defect and answer.at >= since and all(part in case.factors for part in one.parts)
    ]
    bad.sort(key=lambda answer: (-answer.at, answer.request_id))
    units: dict[str, JudgedAnswer] = {}
    for answer in bad:
        units.setdefault(answer.features.unit, answer)
    firsts = list(units.values())
    rest = [answer for answer in bad if answer not in firsts] if len(firsts) < EXAMPLES else []
    return tuple(ExampleAnswer(one.request_id, one.at, one.score) for one in [*firsts, *rest][:EXAMPLES])


def as_object(one: RateDiagnosis) -> Mapping[str, Any]:
    """Return a diagnosis in plain JSON types; times are seconds since 1970, rates and shares 0 to 1."""
    found = one.found
    return {
        "app": one.app,
        "evaluator": one.evaluator,
        "window": one.window,
        "until": one.until,
        "answers": one.answers,
        "other_versions": one.other_versions,
        "changes": [{"at": change.at, "text": change.text} for change in one.changes],
        "unread": one.unread,
        "state": found.state,
        "onset": _plain(found.onset, "at", "earliest", "latest"),
        "judged": found.judged,
        "bad": found.bad,
        "rate_before": _plain(found.rate_before, *_RATE),
        "rate_since": _plain(found.rate_since, *_RATE),
        "visible": found.visible,
        "looked": found.looked,
        "next_look": found.next_look,
        "factors": [_object(*pair, one.questions) for pair in zip(found.factors, one.examples, strict=True)],
        "switched": [_named(factor) for factor in found.switched],
    }


_RATE: Final = ("rate", "lower", "upper")


def _object(one: FoundFactor, examples: Sequence[ExampleAnswer], questions: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        **_named(one.factor),
        "how": one.how,
        "share": _plain(one.share, "value", "lower", "upper"),
        "inside": _plain(one.inside, *_RATE),
        "outside": _plain(one.outside, *_RATE),
        "before": one.before,
        "onset": _plain(one.onset, "at", "earliest", "latest"),
        "cases": one.cases,
        "bad": one.bad,
        "part_now": one.part_now,
        "part_before": one.part_before,
        "likewise": [_named(factor) for factor in one.likewise],
        "examples": [{**asdict(example), "question": questions.get(example.request_id)} for example in examples],
    }


def _named(factor: Factor) -> Mapping[str, str]:
    return {"kind": factor.kind, "name": factor.name, "value": factor.value}


def _plain(value: object, *names: str) -> Mapping[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in names}
