"""Questions that the service does not answer, by topic: nothing was retrieved, or the answer only refuses.

unanswered_report(AnswerReader(path), kept_topics, UnansweredRequest("shop", 7 * 86_400.0), now).topics
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from monitor.jobs.documents import Change, change_of
from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.group_rates import compare_groups, corrected_z, group_sums
from monitor.statistics.rates import Estimate, Sums, estimate
from monitor.statistics.topics import OTHER, QuestionTopic, QuestionWords, is_word, renewed, topic_of, topic_words
from monitor.storage.history.answers import Answers, AskedQuestion
from monitor.storage.history.features import CaseFeatures

QUESTIONS_AT_MOST: Final = 10_000
"""The most questions read for a period: the newest."""

EXAMPLES: Final = 3
_NOTHING_FOUND: Final = "retrieved_nothing"


class UnansweredRequest(NamedTuple):
    """Questions to one app in the last `window` seconds, compared with as many seconds before."""

    app: str
    window: float


@dataclass(frozen=True, slots=True)
class UnansweredQuestion:
    """An unanswered question: its request, the time of the response, and its text, empty if it is not stored.

    `nothing_found`: nothing was retrieved. `refused`: the answer only refuses.
    """

    request_id: str
    at: float
    text: str
    nothing_found: bool
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredTopic:
    """The questions of one topic.

    `asked` and `unanswered` count the questions that were looked at; `requests` is how many unanswered requests they
    stand for, and `share` their part of all unanswered ones. `rate` is the weighted part of the topic's questions that
    is unanswered, with 95 % limits, `before` the same for the period before, `change` whether they differ.
    `surely_more`: more often unanswered than other topics, by more than chance explains. `examples` are the newest,
    from different people if possible.
    """

    name: str
    asked: int
    unanswered: int
    nothing_found: int
    refused: int
    requests: float
    share: float
    rate: Estimate
    before: Estimate | None
    change: Change
    surely_more: bool
    examples: tuple[UnansweredQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredReport:
    """The unanswered questions of a period, by topic, the most frequent first.

    `questions` is how many were looked at, `unanswered` how many of these are unanswered; `requests` is how many
    requests the latter stand for. `rate` is the weighted part that is unanswered, `before` the same for the period
    before. `since` is later than the period's start if it has more than `QUESTIONS_AT_MOST` questions (`cut`). `topics`
    has only topics with unanswered questions. `unread`: lines of files that are not results.
    """

    app: str
    since: float
    until: float
    questions: int
    questions_before: int
    cut: bool
    unanswered: int
    requests: float
    rate: Estimate | None
    before: Estimate | None
    change: Change
    topics: tuple[UnansweredTopic, ...]
    unread: int = 0


def unanswered_report(
    stored: Answers, topics: Iterable[QuestionTopic], request: UnansweredRequest, now: float
) -> UnansweredReport:
    """Group the unanswered questions of a period by topic. Takes up to some seconds.

    Args:
        stored: the source of the questions.
        request: what to look at.
        topics: the known topics of the app; new ones are added as in `topics.renewed`.
        now: the end of the period, in seconds since 1970.

    Raises as `stored` does.
    """
    app, window = request
    begin = now - window
    asked = _weighed(stored.asked_questions(app, begin, now + 1, QUESTIONS_AT_MOST))
    past = _weighed(stored.asked_questions(app, begin - window, begin, QUESTIONS_AT_MOST))
    known = renewed(topics, [question_of(one.features) for one in (*past, *asked)])
    by_topic: dict[str, list[AskedQuestion]] = defaultdict(list)
    for one in asked:
        by_topic[topic_of(known, one.features.words)].append(one)
    found = compare_groups(_cases(asked, known))
    past_sums = {factor.value: sums for factor, sums in group_sums(_cases(past, known)).items()}
    whole = group_sums(_cases(past, ())).get(_topic(OTHER), Sums())
    limit = corrected_z(len(by_topic), sides=2)
    unanswered = [one for one in asked if is_unanswered(one)]
    requests = sum(one.weight for one in unanswered)
    shown = {
        name: _newest([one for one in questions if is_unanswered(one)], EXAMPLES)
        for name, questions in by_topic.items()
    }
    texts = stored.question_texts([one.request_id for examples in shown.values() for one in examples])
    listed = []
    for group in found.groups:
        name, rate = group.factor.value, estimate(group.sums)
        if rate is None or not group.sums.defects:
            continue
        own = [one for one in by_topic[name] if is_unanswered(one)]
        weight = sum(one.weight for one in own)
        listed.append(
            UnansweredTopic(
                name=name,
                asked=group.sums.judged,
                unanswered=group.sums.defects,
                nothing_found=sum(one.features.context == _NOTHING_FOUND for one in own),
                refused=sum(one.refused for one in own),
                requests=weight,
                share=weight / requests,
                rate=rate,
                before=estimate(past_sums.get(name, Sums())),
                change=change_of(past_sums.get(name, Sums()), group.sums, limit),
                surely_more=group.surely_worse and name != OTHER,
                examples=tuple(_example(one, texts) for one in shown[name]),
            )
        )
    listed.sort(key=lambda one: (one.name == OTHER, -one.requests, one.name))
    return UnansweredReport(
        app=app,
        since=asked[0].at if len(asked) >= QUESTIONS_AT_MOST else begin,
        until=now,
        questions=len(asked),
        questions_before=len(past),
        cut=len(asked) >= QUESTIONS_AT_MOST,
        unanswered=len(unanswered),
        requests=requests,
        rate=estimate(found.whole),
        before=estimate(whole),
        change=change_of(whole, found.whole, corrected_z(1, sides=2)),
        topics=tuple(listed),
    )


def is_unanswered(one: AskedQuestion) -> bool:
    """Whether nothing was retrieved for a question, or its answer only refuses."""
    return one.refused or one.features.context == _NOTHING_FOUND


def question_of(features: CaseFeatures) -> QuestionWords:
    """Return the words that topics are made from."""
    return QuestionWords(features.unit, features.words)


def is_readable(report: UnansweredReport) -> bool:
    """Return whether the topics have readable names: they are hashes if texts are not stored."""
    return all(is_word(one.name) for one in report.topics)


def as_object(report: UnansweredReport) -> Mapping[str, Any]:
    """Return a report in plain JSON types; times are seconds since 1970, rates and shares 0 to 1."""
    return {
        "app": report.app,
        "since": report.since,
        "until": report.until,
        "questions": report.questions,
        "unanswered": report.unanswered,
        "requests": report.requests,
        **_rates(report.rate, report.before, report.change),
        "topics": [
            {
                "topic": topic_words(one.name),
                "asked": one.asked,
                "unanswered": one.unanswered,
                "nothing_found": one.nothing_found,
                "refused": one.refused,
                "requests": one.requests,
                "share": one.share,
                **_rates(one.rate, one.before, one.change),
                "surely_more": one.surely_more,
                "examples": [
                    {
                        "request_id": example.request_id,
                        "at": example.at,
                        "text": example.text,
                        "nothing_found": example.nothing_found,
                        "refused": example.refused,
                    }
                    for example in one.examples
                ],
            }
            for one in report.topics
        ],
    }


def _rates(rate: Estimate | None, before: Estimate | None, change: Change) -> Mapping[str, Any]:
    return {
        "rate": rate.rate if rate else None,
        "rate_lower": rate.lower if rate else None,
        "rate_upper": rate.upper if rate else None,
        "rate_before": before.rate if before else None,
        "change": change,
    }


def _weighed(questions: Iterable[AskedQuestion]) -> list[AskedQuestion]:
    return [one for one in questions if one.weight > 0 and math.isfinite(one.weight)]


def _cases(questions: Iterable[AskedQuestion], topics: Sequence[QuestionTopic]) -> list[JudgedCase]:
    return [
        JudgedCase(
            one.at,
            is_unanswered(one),
            one.unit,
            (_topic(topic_of(topics, one.features.words)),),
            one.weight,
        )
        for one in questions
    ]


def _topic(name: str) -> Factor:
    return Factor("word", "topic", name)


def _newest(questions: Sequence[AskedQuestion], number: int) -> list[AskedQuestion]:
    """Return the newest questions, each from a different person or session as far as possible."""
    latest = sorted(questions, key=lambda one: (-one.at, one.request_id))
    firsts: dict[str, AskedQuestion] = {}
    for one in latest:
        firsts.setdefault(one.unit, one)
    chosen = list(firsts.values())[:number]
    ids = {one.request_id for one in chosen}
    return [*chosen, *(one for one in latest if one.request_id not in ids)][:number]


def _example(one: AskedQuestion, texts: Mapping[str, str]) -> UnansweredQuestion:
    text = texts.get(one.request_id, "")
    return UnansweredQuestion(one.request_id, one.at, text, one.features.context == _NOTHING_FOUND, one.refused)
