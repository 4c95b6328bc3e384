"""An incident for people: a line of a list, a page of plain text, and the draft of a post-mortem in Markdown.

Names and texts in it come from traffic and from people: in Markdown they are escaped, or put in a code block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from monitor.cli.console.output import clean, clean_lines, in_markdown
from monitor.model.incident import Incident, IncidentAnswer, IncidentRecord, IncidentStep, RatePeak
from monitor.quantities import human_duration, percent

_SILENT_AFTER: Final = 180.0
"""Seconds without a check after which the report of an open incident says that the monitor may be stopped."""

_FENCE: Final = re.compile(r"`{3,}")


def rows(found: Sequence[IncidentRecord], now: float) -> list[list[str]]:
    """Return the rows of a table of incidents."""
    head = ["id", "severity", "service", "evaluator", "began (UTC)", "lasted", "highest rate", "ended by"]
    return [head, *(_row(one, now) for one in found)]


def _row(record: IncidentRecord, now: float) -> list[str]:
    one = record.incident
    rule = f" ({clean(one.defect_rule)})" if one.defect_rule else ""
    return [
        one.id,
        one.worst,
        clean(one.app),
        f"{clean(one.evaluator)}{rule}",
        _time(record.began),
        _lasted(record, now),
        percent(one.peak.rate) if one.peak is not None else "-",
        one.end.value.replace("_", " ") if one.end is not None else "open",
    ]


def text(record: IncidentRecord, now: float) -> Iterator[str]:
    """Yield an incident as plain lines, harmless to a terminal."""
    one = record.incident
    yield f"Incident {one.id}: {clean(_subject(one))}"
    for name, said in _facts(record, now):
        yield f"{name + ':':14}{clean(said)}"
    yield ""
    yield "Timeline (UTC)"
    for step in _timeline(record):
        yield f"  {_time(step.at)}  {clean(step.text)}"
    for title, found in _diagnoses(record):
        yield ""
        yield title
        yield from (f"  {clean(line)}" for line in found)
    if record.answers:
        yield ""
        yield "Worst answers"
        for number, answer in enumerate(record.answers, 1):
            yield f"  {number}. {clean(_about(answer))}"
            for name, said in _texts(answer):
                first, *more = clean_lines(said)
                yield f"     {name}: {first}"
                yield from (f"       {line}" for line in more if line)
    if record.notes:
        yield ""
        yield "Notes"
        for note in record.notes:
            first, *more = clean_lines(note.text)
            yield f"  {_time(note.at)}  {clean(note.who)}: {first}"
            yield from (f"    {line}" for line in more)


def markdown(record: IncidentRecord, now: float) -> Iterator[str]:
    """Yield the draft of a post-mortem; the headings Cause and Actions are for people to fill in."""
    one = record.incident
    yield f"# Incident {one.id}: {in_markdown(_subject(one))}"
    yield ""
    for name, said in _facts(record, now):
        yield f"- **{name}:** {in_markdown(said)}"
    yield from ("", "## Timeline", "", "| time (UTC) | what happened |", "| --- | --- |")
    for step in _timeline(record):
        yield f"| {_time(step.at)} | {in_markdown(step.text)} |"
    yield from ("", "## What changed", "")
    yield from (f"- {_time(change.at)} UTC: {in_markdown(change.text)}" for change in record.changes)
    if not record.changes:
        yield "No change of the service, the evaluator or the judge is known around the onset."
    yield from ("", "## Diagnosis")
    for title, found in _diagnoses(record):
        yield from ("", f"### {title}", "", *_block("\n".join(map(clean, found))))
    if not record.diagnoses:
        yield from ("", "None.")
    yield from ("", "## Worst answers")
    if not record.answers:
        yield from ("", "None are stored.")
    for number, answer in enumerate(record.answers, 1):
        yield from ("", f"### {number}. {in_markdown(_about(answer))}")
        for name, said in _texts(answer):
            yield from ("", f"{name}:", "", *_block(said))
    yield from ("", "## Notes")
    for note in record.notes:
        yield from ("", f"{_time(note.at)} UTC, {in_markdown(note.who)}:", "", *_block(note.text))
    yield from ("", "## Cause", "", "", "## Actions", "", "- [ ] ")


def _subject(one: Incident) -> str:
    rule = f" ({one.defect_rule})" if one.defect_rule else ""
    return f"{one.evaluator}{rule} of {one.app}, {one.worst}"


def _facts(record: IncidentRecord, now: float) -> Iterator[tuple[str, str]]:
    one, onset = record.incident, record.onset
    if onset is not None:
        yield "Rate rose", f"{_time(onset.at)} UTC (between {_time(onset.earliest)} and {_time(onset.latest)})"
    yield "Alert fired", f"{_time(one.fired)} UTC"
    if one.ended is not None and one.end is not None:
        yield "Ended", f"{_time(one.ended)} UTC, after {_lasted(record, now)}. {one.end.words}"
    elif now - one.checked > _SILENT_AFTER:
        yield "Open", f"the monitor last checked it at {_time(one.checked)} UTC, and may be stopped"
    else:
        yield "Open", f"for {_lasted(record, now)}"
    if one.peak is not None:
        yield "Highest rate", peak_words(one.peak)
    impact = record.impact
    if impact is not None:
        yield (
            "Impact",
            (
                f"about {impact.bad_answers:,.0f} bad answers ({impact.bad_lower:,.0f} to {impact.bad_upper:,.0f})"
                f" of {impact.answers:,.0f}; {impact.judged:,} were scored, {impact.defects:,} of them bad;"
                f" since {_time(impact.since)} UTC"
            ),
        )
    fired = (f"{alert.name} ({alert.severity}{_threshold(alert.threshold)})" for alert in one.alerts)
    yield "Alerts", ", ".join(fired)
    if one.version:
        yield "Evaluator", f"{one.evaluator}, version {one.version}"


def peak_words(peak: RatePeak) -> str:
    """Say how far a rate rose."""
    over = f" over {human_duration(peak.window)}" if peak.window else ""
    return (
        f"{percent(peak.rate)} ({percent(peak.lower)} to {percent(peak.upper)}){over}, {peak.judged:,} scored,"
        f" at {_time(peak.at)} UTC"
    )


def _threshold(share: float | None) -> str:
    return "" if share is None else f", above {percent(share)}"


def _timeline(record: IncidentRecord) -> list[IncidentStep]:
    """Return everything that happened, in chronological order."""
    one, found = record.incident, list(record.incident.steps)
    if record.onset is not None:
        found.append(IncidentStep(record.onset.at, "The rate rises (best guess)."))
    if one.peak is not None:
        found.append(IncidentStep(one.peak.at, f"The rate is at its highest: {percent(one.peak.rate)}."))
    found += [IncidentStep(change.at, f"Changed: {change.text}.") for change in record.changes]
    found += [IncidentStep(note.at, f"Note by {note.who}.") for note in record.notes]
    return sorted(found, key=lambda step: step.at)


def _diagnoses(record: IncidentRecord) -> Iterator[tuple[str, Sequence[str]]]:
    for name, title in (("height", "At its height"), ("end", "At its end")):
        found = record.diagnoses.get(name)
        lines = found.get("lines") if found is not None else None
        if isinstance(lines, list):
            yield title, [str(line) for line in lines]


def _about(answer: IncidentAnswer) -> str:
    level = f" ({answer.level})" if answer.level else ""
    return f"{answer.request_id}, {_time(answer.at)} UTC, score {answer.score:.3g}{level}"


def _texts(answer: IncidentAnswer) -> Iterator[tuple[str, str]]:
    for name, said in (("Question", answer.question), ("Answer", answer.response), ("Why", answer.explanation)):
        if said:
            yield name, said


def _lasted(record: IncidentRecord, now: float) -> str:
    end = record.incident.ended
    return human_duration(max((end if end is not None else now) - record.began, 0.0))


def _block(text: str) -> list[str]:
    """Return a code block whose fence the text cannot close."""
    longest = max((len(one) for one in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return [fence, *clean_lines(text), fence]


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
