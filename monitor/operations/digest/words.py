"""A digest in words for people: one screen of sentences, the same for a terminal, a chat, a mail and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple, TypeAlias

from monitor.jobs.documents import DocumentsReport
from monitor.jobs.unanswered import UnansweredReport
from monitor.operations.digest import ComparedRate, Digest, JudgedShare, JudgeFigures, to_mend
from monitor.quantities import dollars, human_duration, number_of, percent
from monitor.statistics.rates import Difference, Estimate
from monitor.statistics.topics import OTHER, topic_words

Quote: TypeAlias = Callable[[str], str]
"""Makes a name written by a stranger harmless where the words are shown."""

RATES_SHOWN: Final = 15
_APPS_SHOWN, _EVALUATORS_SHOWN, _REASONS_SHOWN = 5, 6, 4
_INCIDENTS_SHOWN, _DOCUMENTS_SHOWN, _TOPICS_SHOWN = 5, 3, 4


class DigestSection(NamedTuple):
    """A heading with its lines."""

    heading: str
    lines: tuple[str, ...]


def title_of(digest: Digest, quote: Quote, zone: tzinfo = UTC) -> str:
    """Return what a digest is about: `Answers of shop, Mon 9 March 09:00 to Mon 16 March 09:00 UTC`."""
    about = f"Answers of {quote(digest.app)}" if digest.app is not None else "Answers"
    begin, end = (datetime.fromtimestamp(at, zone) for at in (digest.since, digest.until))
    return f"{about}, {begin:%a %Y-%m-%d %H:%M} to {end:%a %Y-%m-%d %H:%M %Z}".rstrip()


def sections_of(digest: Digest, quote: Quote) -> Iterator[DigestSection]:
    """Yield the sections. They contain only our own words, and names that went through `quote`."""
    yield DigestSection("Bad answers, with 95 % limits, compared with the period before", tuple(_rates(digest, quote)))
    if digest.incidents:
        yield DigestSection("Incidents", tuple(_incidents(digest, quote)))
    documents = tuple(line for one in digest.documents for line in _documents(one, quote))
    if documents:
        yield DigestSection("Documents to fix", documents)
    questions = tuple(line for one in digest.unanswered for line in _unanswered(one, quote))
    if questions:
        yield DigestSection("Unanswered questions", questions)
    if digest.judge is not None:
        yield DigestSection("The judge", tuple(_judge(digest.judge, digest.judge_before)))
    if digest.coverage:
        yield DigestSection("What was judged", tuple(_coverage(digest, quote)))


def _rates(digest: Digest, quote: Quote) -> Iterator[str]:
    if not digest.rates:
        yield "No answer was judged: there is nothing to report."
        return
    for one in digest.rates[:RATES_SHOWN]:
        yield f"{quote(one.app)}, {quote(one.evaluator)}: {_rate(one.now)}. {_change(one)}"
    more = len(digest.rates) - RATES_SHOWN + digest.unlisted
    if more > 0:
        left = [one for one in digest.rates[RATES_SHOWN:] if one.verdict in ("rose", "fell")]
        surely = f", {len(left)} of them with a significant change" if left else ""
        yield f"{more:,} more rates{surely}: rag-monitor digest --app NAME"
    if any(one.change is not None for one in digest.rates):
        yield "A change due to chance is called significant in at most 1 digest in 20."


def _rate(one: Estimate) -> str:
    return f"{percent(one.rate)} ({percent(one.lower)} to {percent(one.upper)}) of {one.judged:,} judged"


def _change(one: ComparedRate) -> str:
    if one.before is None or one.change is None:
        if one.verdict == "another_version":
            return "Not compared: another version of the evaluator judged the period before."
        return "Nothing from the period before to compare with."
    before = f"before {percent(one.before.rate)} of {one.before.judged:,}"
    if one.verdict == "too_little":
        return f"Too little data to tell; {before}."
    if one.verdict == "no_sure_change":
        return f"No significant change ({_points(one.change)}); {before}."
    return f"{one.verdict.capitalize()} significantly, by {_points(one.change)}; {before}."


def _points(change: Difference) -> str:
    if change.value < 0 and change.upper < 0:
        change = Difference(-change.value, -change.upper, -change.lower)
    if change.clear:
        return f"{100 * change.value:.1f} points ({100 * change.lower:.1f} to {100 * change.upper:.1f})"
    return f"{100 * change.lower:+.1f} to {100 * change.upper:+.1f} points"


def _incidents(digest: Digest, quote: Quote) -> Iterator[str]:
    for record in digest.incidents[:_INCIDENTS_SHOWN]:
        one = record.incident
        rule = f", {quote(one.defect_rule)}" if one.defect_rule else ""
        peak = f", up to {percent(one.peak.rate)} of {one.peak.judged:,} judged" if one.peak is not None else ""
        lasted = "still open" if one.ended is None else f"for {human_duration(max(one.ended - record.began, 0.0))}"
        began = datetime.fromtimestamp(record.began, UTC)
        about = f"{quote(one.app)}, {quote(one.evaluator)}{rule}"
        yield f"{about}: {one.worst} since {began:%a %Y-%m-%d %H:%M} UTC, {lasted}{peak} ({quote(one.id)})."
    if len(digest.incidents) > _INCIDENTS_SHOWN:
        yield f"{len(digest.incidents) - _INCIDENTS_SHOWN:,} more: rag-monitor incidents."


def _documents(report: DocumentsReport, quote: Quote) -> Iterator[str]:
    listed = to_mend(report)
    for one in [one for one in listed if one.surely_worse][:_DOCUMENTS_SHOWN]:
        found = f"{percent(one.rate.rate)} ({percent(one.rate.lower)} to {percent(one.rate.upper)})"
        about = f"{quote(report.app)}, {quote(report.evaluator)}"
        yield f"{about}: significantly worse with {quote(one.address)}: {found} of {one.answers:,} bad."
    unused = [one for one in report.documents if one.never_used]
    if unused:
        most = max(unused, key=lambda one: (one.answers, one.address))
        number = "1 document is" if len(unused) == 1 else f"{len(unused):,} documents are"
        yield (
            f"{quote(report.app)}: {number} retrieved and never used, most often {quote(most.address)}"
            f" ({number_of(most.answers, 'answer')})."
        )


def _unanswered(report: UnansweredReport, quote: Quote) -> Iterator[str]:
    if report.rate is None or not report.unanswered:
        return
    rate = f"{percent(report.rate.rate)} ({percent(report.rate.lower)} to {percent(report.rate.upper)})"
    trend = {
        "rise": ", significantly more than before",
        "fall": ", significantly fewer than before",
    }.get(report.change, "")
    yield f"{quote(report.app)}: {rate} of {number_of(report.questions, 'question')}{trend}."
    topics = [one for one in report.topics if one.name != OTHER][:_TOPICS_SHOWN]
    if topics:
        named = (f"{quote(topic_words(one.name))} ({percent(one.share)})" for one in topics)
        yield f"Most of them are about: {', '.join(named)}."


def _judge(now: JudgeFigures, before: JudgeFigures | None) -> Iterator[str]:
    if not (now.evaluations or now.calls):
        yield "It was not asked."
    else:
        missed = sum(now.unscored.values())
        spent = f"{dollars(now.dollars) if now.dollars else 'no dollars'} for {number_of(now.calls, 'call')}"
        if before is None:
            yield f"Spent {spent}; the cost of the period before is not kept."
        else:
            was = f"{dollars(before.dollars) if before.dollars else 'no dollars'} for {before.calls:,}"
            yield f"Spent {spent}; before {was}."
        if not now.evaluations:
            return  # the judge found that its evaluators do not apply
        took = f" {human_duration(now.seconds)} an evaluation on average." if now.seconds is not None else ""
        if not missed:
            yield f"All {now.evaluations:,} evaluations produced a score.{took}"
            return
        reasons = list(now.unscored.items())
        listed = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in reasons[:_REASONS_SHOWN])
        rest = sum(number for _, number in reasons[_REASONS_SHOWN:])
        listed += f", {rest:,} other" if rest else ""
        share = percent(missed / now.evaluations)
        yield f"{share} of {now.evaluations:,} evaluations produced no score: {listed}.{took}"
        if before is not None and before.evaluations:
            yield f"Before, {percent(sum(before.unscored.values()) / before.evaluations)} produced none."


def _coverage(digest: Digest, quote: Quote) -> Iterator[str]:
    apps = sorted(digest.coverage, key=lambda one: (-(one.answers or 0), one.app))
    for one in apps[:_APPS_SHOWN]:
        yield f"{quote(one.app)}: {_judged(one, quote)}"
    if len(apps) > _APPS_SHOWN:
        yield f"{number_of(len(apps) - _APPS_SHOWN, 'more app')}."


def _judged(one: JudgedShare, quote: Quote) -> str:
    many = sorted(one.judged.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f", {len(many) - _EVALUATORS_SHOWN} more evaluators" if len(many) > _EVALUATORS_SHOWN else ""
    if not one.answers:
        listed = ", ".join(f"{number:,} by {quote(name)}" for name, number in many[:_EVALUATORS_SHOWN])
        return f"{listed}{more}. How many answers there were is not kept."
    # The judge may finish just after a period ends, and a request log may be younger than the history.
    shares = ((name, min(number / one.answers, 1.0)) for name, number in many[:_EVALUATORS_SHOWN])
    listed = ", ".join(f"{percent(share)} by {quote(name)}" for name, share in shares)
    return f"{number_of(one.answers, 'answer')}, judged {listed}{more}."
