"""The diagnosis of a rate: when it rose, and what its bad answers have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from monitor.alerts.incidents import ID_ANNOTATION
from monitor.jobs.diagnosis import DiagnosisRequest, ExampleAnswer, RateDiagnosis, alert_request
from monitor.jobs.diagnosis.words import alert_line, in_words, share_of
from monitor.model.incident import Incident
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.diagnosis.onset import Onset
from monitor.statistics.diagnosis.results import FoundFactor
from monitor.statistics.diagnosis.search import LEAST_BAD_BEFORE
from monitor.statistics.rates import Estimate
from monitor.web.context import PageContext
from monitor.web.queries import BadQueryError, DiagnosisQuery
from monitor.web.rate_views import ChangeView
from monitor.web.texts import whole
from monitor.web.views import ApiModel


class OnsetView(ApiModel):
    """When the rate rose: the best guess and a 90 % interval."""

    at: float
    earliest: float
    latest: float


class LimitedRateView(ApiModel):
    """A rate with its 95 % limits."""

    rate: float
    lower: float
    upper: float


class RiseShareView(ApiModel):
    """The share of the rise that a factor explains, with 90 % limits."""

    value: float
    lower: float
    upper: float


class FactorNameView(ApiModel):
    """Something that answers have in common."""

    kind: str
    """`slice`, `pair`, `document` or `word`."""
    name: str
    value: str
    text: str
    """Name and value in words, such as `prompt.version = v7`."""


class ExampleAnswerView(ApiModel):
    """A bad answer. `question` is the beginning of the question, null if it is not stored."""

    request_id: str
    at: float
    score: float
    question: str | None


class FactorView(ApiModel):
    """A factor that explains a part of the rise."""

    factor: FactorNameView
    parts: list[FactorNameView]
    """The two slices of a pair; otherwise the factor itself."""
    how: Literal["worse", "more"]
    """`worse`: its answers are worse than others and than before. `more`: they were always bad, and there are more."""
    share: RiseShareView
    share_text: str
    """The share in words; for a word it is a lower limit."""
    inside: LimitedRateView | None
    """The rate since the onset of the answers with the factor."""
    outside: LimitedRateView | None
    """The rate since the onset of the answers without it."""
    before: float
    """The rate before the onset of the answers with it."""
    onset: OnsetView | None
    """When the rate of the answers with it rose."""
    cases: int
    bad: int
    part_now: float
    """The share of all answers since the onset that have it."""
    part_before: float
    likewise: list[FactorNameView]
    """Other factors that most of the same bad answers have."""
    examples: list[ExampleAnswerView]


class DiagnosisView(ApiModel):
    """When a rate rose, and what its bad answers have in common."""

    at: float
    app: str
    evaluator: str
    defect_rule: str
    """The name of a defect rule defined in an alert; empty for the evaluator's own."""
    window_seconds: float
    """The rise is searched for in the last two windows of this length."""
    answers: int
    """Judged answers that were read, including those of the week before."""
    other_versions: int
    """Answers judged by other versions of the evaluator; they are left out."""
    state: Literal["found", "nothing_stands_out", "no_rise", "too_few_before"]
    line: str
    """The diagnosis in one line, as in alerts; empty if there is none."""
    onset: OnsetView | None
    changes: list[ChangeView]
    """Changes of the service or the judge in the searched time, oldest first."""
    judged: int
    """Judged answers since the onset."""
    bad: int
    rate_before: LimitedRateView | None
    rate_since: LimitedRateView | None
    factors: list[FactorView]
    """At most three; what explains most comes first."""
    switched: list[FactorNameView]
    """What nearly all answers have had since the onset and hardly any had before: never called a cause."""
    visible: float | None
    """The smallest share of the rise at which a cause would have been found 4 times in 5; null if there is none."""
    needed_before: int
    """How many bad answers from before the rise a diagnosis needs."""
    looked: float | None
    """When the newest answer in the last look was judged; null while there are too few bad answers for a first look."""
    next_look: int | None
    """How many more bad answers the next look needs; null if no alert fires and this was a single look."""


async def diagnosis(context: PageContext, query: DiagnosisQuery) -> DiagnosisView:
    """Diagnose a rate: while an alert on it fires, by the alert's looks, otherwise by one look at all answers.

    Raises:
        BadQueryError: the query does not name an app and an evaluator.
        MonitorError: the history cannot be read.
    """
    if not (query.app and query.evaluator):
        raise BadQueryError("app and evaluator: both are required")
    rule = next((one for one in context.alert_rules(query.evaluator) if one.name == query.defect_rule), None)
    incident = await _firing(context, query) if query.until is None else None
    if incident is not None:
        request = alert_request(incident, rule)
    else:
        request = DiagnosisRequest(query.app, query.evaluator, query.window, query.until, rule)
    found = await context.reports.diagnose(request)
    return _view(found if context.keeps_texts else replace(found, questions={}), query)


def shown_questions(view: DiagnosisView) -> list[str]:
    """Return the requests whose questions are shown."""
    return [one.request_id for factor in view.factors for one in factor.examples if one.question]


async def _firing(context: PageContext, query: DiagnosisQuery) -> Incident | None:
    """Return the incident of the rate while its alert fires; None otherwise, and while it is not written yet."""
    rate = (query.app, query.evaluator, query.defect_rule)
    for one in context.alerts():
        name = one.annotations.get(ID_ANNOTATION)
        if name and one.firing and (one.app, one.evaluator, one.labels.get("defect_rule", "")) == rate:
            record = await context.incidents.find(name)
            return record.incident if record is not None else None
    return None


def _view(one: RateDiagnosis, query: DiagnosisQuery) -> DiagnosisView:
    found = one.found
    return DiagnosisView(
        at=one.until,
        app=one.app,
        evaluator=one.evaluator,
        defect_rule=query.defect_rule,
        window_seconds=one.window,
        answers=one.answers,
        other_versions=one.other_versions,
        state=found.state,
        line=alert_line(one),
        onset=_onset(found.onset),
        changes=[ChangeView(at=change.at, text=change.text) for change in one.changes],
        judged=found.judged,
        bad=found.bad,
        rate_before=_rate(found.rate_before),
        rate_since=_rate(found.rate_since),
        factors=[_factor(*pair, one.questions) for pair in zip(found.factors, one.examples, strict=True)],
        switched=[factor_name(factor) for factor in found.switched],
        visible=found.visible,
        needed_before=LEAST_BAD_BEFORE,
        looked=found.looked,
        next_look=found.next_look,
    )


def _factor(one: FoundFactor, examples: Sequence[ExampleAnswer], questions: Mapping[str, str]) -> FactorView:
    share = one.share
    return FactorView(
        factor=factor_name(one.factor),
        parts=[factor_name(part) for part in one.parts],
        how=one.how,
        share=RiseShareView(value=share.value, lower=share.lower, upper=share.upper),
        share_text=share_of(one),
        inside=_rate(one.inside),
        outside=_rate(one.outside),
        before=one.before,
        onset=_onset(one.onset),
        cases=one.cases,
        bad=one.bad,
        part_now=one.part_now,
        part_before=one.part_before,
        likewise=[factor_name(factor) for factor in one.likewise[:3]],
        examples=[
            ExampleAnswerView(
                request_id=whole(each.request_id),
                at=each.at,
                score=each.score,
                question=whole(questions.get(each.request_id, "")) or None,
            )
            for each in examples
        ],
    )


def factor_name(factor: Factor) -> FactorNameView:
    """Return a factor as it is shown."""
    name, value = whole(factor.name), whole(factor.value)
    return FactorNameView(kind=factor.kind, name=name, value=value, text=whole(in_words(factor)))


def _onset(one: Onset | None) -> OnsetView | None:
    return None if one is None else OnsetView(at=one.at, earliest=one.earliest, latest=one.latest)


def _rate(one: Estimate | None) -> LimitedRateView | None:
    return None if one is None else LimitedRateView(rate=one.rate, lower=one.lower, upper=one.upper)
