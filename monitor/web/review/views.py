"""The views of the review: queues, answers to label, labels. The JSON API returns them, the pages render them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from monitor.jobs.review import JudgeMeasure, JudgeSays, ReviewCase, ReviewStatus
from monitor.model.label import Label
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.statistics.correction import ShareInterval
from monitor.statistics.judge_errors import JudgeErrors
from monitor.statistics.rates import Estimate
from monitor.statistics.review import Kappa
from monitor.web.diagnosis import FactorNameView, LimitedRateView, factor_name
from monitor.web.texts import whole
from monitor.web.views import ApiModel, DocumentView, EvidenceView, MessageView

_ASKS: Final[Mapping[str | None, str]] = {
    "grounding": "Does the answer say only what its sources say?",
    "answering": "Does the answer give what was asked for?",
    "retrieval": "Are the sources what the question needs?",
    "harm": "Is there nothing harmful in the answer?",
    "form": "Is the answer written as it should be?",
}
"""The question put to reviewers, by what an evaluator measures; yes is good."""


class ReviewQueueView(ApiModel):
    """The judged answers of one app and evaluator, and how far their review has come."""

    app: str
    evaluator: str
    version: str
    labels: int
    """Labelled answers that measure the judge: drawn at random, with a verdict of at least one person."""
    others: int
    """Labelled answers that do not: opened by hand, imported, or labelled only `cannot_tell`."""
    disagreements: int
    """Answers on which people disagree."""
    waiting: int
    """Answers that may be drawn and have no label yet."""
    incidents: dict[str, str]
    """Values of `by` that select the answers of one incident, with its time of firing; only in the list of queues."""
    topics: dict[str, str]
    """Values of `by` that select the questions of one topic, with its name; only in the list of queues."""
    judge_rate: float | None
    """The judge's own defect rate among the answers that labels are drawn from; null if `corrected_rate` is."""
    corrected_rate: float | None
    """The rate as people would label it; null unless both verdicts of the judge have labels."""
    lower: float | None
    """The lower 95 % limit of the corrected rate."""
    upper: float | None
    half_width: float | None
    """Half the distance between the limits: the plus or minus."""
    more: int | None
    """With this many more labels ..."""
    half_width_after: float | None
    """... the half width would be this."""

    @classmethod
    def of(cls, status: ReviewStatus) -> ReviewQueueView:
        """Return a queue as it is shown."""
        found = status.outlook
        return cls(
            app=whole(status.app),
            evaluator=status.evaluator,
            version=status.version,
            labels=status.labels,
            others=status.others,
            disagreements=status.disagreements,
            waiting=status.waiting,
            incidents={},
            topics={},
            judge_rate=found.raw if found else None,
            corrected_rate=found.corrected.rate if found else None,
            lower=found.corrected.lower if found else None,
            upper=found.corrected.upper if found else None,
            half_width=found.half_width if found else None,
            more=found.more if found else None,
            half_width_after=found.half_width_after if found else None,
        )


class LabelView(ApiModel):
    """One person's verdict on one answer."""

    result_id: str
    request_id: str
    app: str
    evaluator: str
    version: str
    reviewer: str
    verdict: Literal["good", "defect", "cannot_tell"]
    level: str | None
    comment: str
    at: float
    draw: Literal["uniform", "stratified", "picked", "imported"]
    """How the answer came to the reviewer."""
    judged_defect: bool
    """What the judge said at that time."""
    score: float | None

    @classmethod
    def of(cls, label: Label) -> LabelView:
        """Return a label as it is shown."""
        return cls(
            result_id=whole(label.result_id),
            request_id=whole(label.request_id),
            app=whole(label.app),
            evaluator=whole(label.evaluator),
            version=whole(label.version),
            reviewer=whole(label.reviewer),
            verdict=label.verdict.value,
            level=None if label.level is None else whole(label.level),
            comment=whole(label.comment),
            at=label.at,
            draw=label.draw.value,
            judged_defect=label.judged_defect,
            score=label.score,
        )


class ReviewView(ApiModel):
    """All queues."""

    at: float
    reviewer: str
    blind: bool
    orders: dict[str, str]
    """The orders in which answers can be requested, and what each is for."""
    queues: list[ReviewQueueView]
    """At most thirty, those of judges first."""
    left_out: int
    """How many more queues there are; `app` selects those of one app."""


class LimitedShareView(ApiModel):
    """A share or a kappa, with its 95 % limits."""

    value: float
    lower: float
    upper: float


class ErrorFactorView(ApiModel):
    """What many errors of the judge have in common."""

    parts: list[FactorNameView]
    """The two slices of a pair, otherwise one factor."""
    inside: LimitedRateView
    """The share of the judge's verdicts that are wrong among the answers with the factor."""
    outside: LimitedRateView
    """The same share among the other answers."""
    answers: int
    """Labelled answers with the factor."""
    missed: int
    """Defects among them that the judge called good."""
    alarmed: int
    """Good answers that it called a defect."""
    likewise: list[FactorNameView]
    """Other factors that most of these errors have."""


class JudgeView(ApiModel):
    """How good a judge is, by the labels that measure it. Figures are null if there are too few labels."""

    at: float
    app: str
    evaluator: str
    version: str
    labels: int
    """Labelled answers that measure it."""
    sensitivity: LimitedShareView | None
    """The share of the defects that it finds."""
    specificity: LimitedShareView | None
    """The share of the good answers that it calls good."""
    kappa_with_people: LimitedShareView | None
    """Cohen's kappa between the judge and people, over all traffic."""
    kappa_of_people: LimitedShareView | None
    """Cohen's kappa between two people, over the answers that both have labelled."""
    labelled_twice: int
    """The number of such pairs of labels."""
    compared: int
    """Labelled answers that are still in the history, one per session or question: errors are compared among these."""
    missed: int
    """Defects among them that the judge called good."""
    alarmed: int
    """Good answers that it called a defect."""
    factors: list[ErrorFactorView]
    """What the errors have in common, at most three; none if chance explains them."""

    @classmethod
    def of(cls, app: str, found: JudgeMeasure, errors: JudgeErrors, now: float) -> JudgeView:
        """Return what is shown at the wall-clock second `now`."""
        return cls(
            at=now,
            app=whole(app),
            evaluator=found.evaluator,
            version=found.version,
            labels=found.labels,
            sensitivity=_limited(found.sensitivity),
            specificity=_limited(found.specificity),
            kappa_with_people=_limited(found.with_people),
            kappa_of_people=_limited(found.of_people),
            labelled_twice=found.of_people.both if found.of_people is not None else 0,
            compared=errors.answers,
            missed=errors.missed,
            alarmed=errors.alarmed,
            factors=[
                ErrorFactorView(
                    parts=[factor_name(part) for part in one.parts],
                    inside=_rate(one.inside),
                    outside=_rate(one.outside),
                    answers=one.answers,
                    missed=one.missed,
                    alarmed=one.alarmed,
                    likewise=[factor_name(each) for each in one.likewise[:3]],
                )
                for one in errors.factors
            ],
        )


def _limited(one: ShareInterval | Kappa | None) -> LimitedShareView | None:
    return None if one is None else LimitedShareView(value=one.value, lower=one.lower, upper=one.upper)


def _rate(one: Estimate) -> LimitedRateView:
    return LimitedRateView(rate=one.rate, lower=one.lower, upper=one.upper)


class ReviewLabelsView(ApiModel):
    """Labels, newest first."""

    at: float
    show: Literal["mine", "disagreements", "all"]
    labels: list[LabelView]


class JudgementView(ApiModel):
    """What the judge said about an answer. `level` and `label` are empty if it gave none."""

    defect: bool
    score: float | None
    level: str
    label: str
    explanation: str
    evidence: list[EvidenceView]

    @classmethod
    def of(cls, judged: JudgeSays) -> JudgementView:
        """Return what the judge said as it is shown."""
        return cls(
            defect=judged.defect,
            score=judged.score,
            level=whole(judged.level),
            label=whole(judged.label),
            explanation=whole(judged.explanation),
            evidence=[
                EvidenceView(
                    claim=whole(one.claim), verdict=one.verdict, start=one.start, end=one.end, note=whole(one.note)
                )
                for one in judged.evidence
            ],
        )


class ReviewCaseView(ApiModel):
    """An answer to label. In a blind review `judge` is null and `others` empty until the reviewer has labelled it."""

    at: float
    result_id: str
    request_id: str
    app: str
    evaluator: str
    version: str
    asks: str
    """What the evaluator asks, in words; may be empty."""
    defect: str
    """When the judge calls an answer a defect; empty for an evaluator that is no longer configured."""
    levels: list[str]
    """The levels of the evaluator's scale, from its low end; empty if an answer can only be good or a defect."""
    draw: Literal["uniform", "stratified", "picked", "imported"]
    answered_at: float | None
    question: str
    history: list[MessageView]
    documents: list[DocumentView]
    response: str
    cut: bool
    """Whether texts are cut off here."""
    stretches: list[tuple[int, int]]
    """Passages of the response that the judge looked at, as character offsets, without its verdict on them. Empty for
    an evaluator that only lists faults, until its verdict may be seen."""
    own: LabelView | None
    """The reviewer's label; null without one."""
    judge: JudgementView | None
    others: list[LabelView]
    """Labels of other reviewers."""
    changes: list[LabelView]
    """Earlier labels that their reviewers replaced, oldest first; empty until the reviewer has labelled it."""

    @property
    def disputed(self) -> bool:
        """Whether people disagree."""
        return {"good", "defect"} <= {one.verdict for one in (self.own, *self.others) if one is not None}

    @property
    def refuted(self) -> bool:
        """Whether the reviewer disagrees with the judge."""
        if self.own is None or self.judge is None or self.own.verdict == "cannot_tell":
            return False
        return self.judge.defect != (self.own.verdict == "defect")


def case_view(
    case: ReviewCase, configured: Iterable[ConfiguredEvaluator], changes: Iterable[Label], now: float
) -> ReviewCaseView:
    """Return an answer as it is shown, at the wall-clock second `now`."""
    own = next((one for one in configured if one.evaluator.name == case.evaluator), None)
    # A judge quotes everything it checks; a local evaluator quotes only faults, which would reveal its verdict.
    telling = case.judged is None and (own is None or own.evaluator.cost == "local")
    return ReviewCaseView(
        at=now,
        result_id=whole(case.result_id),
        request_id=whole(case.request_id),
        app=whole(case.app),
        evaluator=whole(case.evaluator),
        version=whole(case.version),
        asks=_ASKS.get(own.evaluator.measures, "") if own is not None else "",
        defect=own.defect.words if own is not None else "",
        levels=list(case.levels),
        draw=case.draw.value,
        answered_at=case.answered_at or None,
        question=whole(case.question),
        history=[MessageView(role=whole(one.role), content=whole(one.content)) for one in case.turns],
        documents=[
            DocumentView(
                content=whole(one.content),
                doc_uri=whole(one.doc_uri),
                doc_id=whole(one.doc_id),
                kind=one.kind,
                score=None,
            )
            for one in case.sources
        ],
        response=whole(case.answer),
        cut=case.cut,
        stretches=[] if telling else list(case.stretches),
        own=LabelView.of(case.own) if case.own is not None else None,
        judge=JudgementView.of(case.judged) if case.judged is not None else None,
        others=[LabelView.of(one) for one in case.others],
        changes=[LabelView.of(one) for one in changes if case.own is not None],
    )
