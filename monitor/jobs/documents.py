"""Finds in a monitor's history which documents are behind bad answers, and which are retrieved but never used.

documents_report(AnswerReader(path), DocumentsRequest("shop", "groundedness", 7 * 86_400.0), now).documents
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from monitor.statistics.diagnosis.cases import Factor, JudgedCase, WeighedCase, sums_of
from monitor.statistics.group_rates import LEAST_CASES, ComparedGroup, compare_groups, corrected_z, group_sums
from monitor.statistics.rates import Estimate, Sums, difference, estimate
from monitor.storage.history.answers import Answers, JudgedAnswer

ANSWERS_AT_MOST: Final = 10_000
"""The most answers read for a period: the newest."""

DOCUMENTS_AT_MOST: Final = 5_000
"""The most documents listed: those retrieved most often."""

_FORMULA: Final = re.compile("(^|;) *(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
"""What a spreadsheet takes for the beginning of a formula. Some treat a semicolon as the end of a cell, and full-width
signs as plain ones."""

LEAST_NEVER_USED: Final = 10
"""The fewest answers, none of which uses a document, for it to be called never used."""

Order: TypeAlias = Literal["worst", "unused", "retrieved", "rise"]
Change: TypeAlias = Literal["rise", "fall", ""]


class DocumentsRequest(NamedTuple):
    """Documents retrieved for one app in the last `window` seconds, compared with as many seconds before.

    The evaluator says which answers are bad.
    """

    app: str
    evaluator: str
    window: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUse:
    """A document and the answers for which it was retrieved.

    `answers` and `bad` are counts; `rate` is the weighted rate of bad answers with 95 % limits. `surely_worse`: worse
    than the answers without it by more than chance explains; `beside`: only together with this other document, which is
    worse. `compared`: false if it has too few answers, or nearly all. `known_use` is the number of answers for which it
    is known whether they use it, `used` the weighted share that does, `never_used` whether none does. `before`: the
    rate in the period before; `change`: whether the rate differs significantly from it. `example`: the request of the
    newest bad answer.
    """

    address: str
    answers: int
    bad: int
    rate: Estimate
    surely_worse: bool = False
    beside: str = ""
    compared: bool = False
    z: float | None = None
    known_use: int = 0
    used: Estimate | None = None
    never_used: bool = False
    before: Estimate | None = None
    change: Change = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsReport:
    """The documents of a period, worst first.

    `since` is the time of the first answer that was read, later than the period's start if there are more than
    `ANSWERS_AT_MOST` (`cut`). `without`: answers for which no document was retrieved. `left_out`: documents beyond
    `DOCUMENTS_AT_MOST`. `compared`: how many documents were compared with the rest. `other_versions`: answers of the
    period that an older version of the evaluator judged; no figure includes them. `unread`: lines of files that are
    not results.
    """

    app: str
    evaluator: str
    since: float
    until: float
    answers: int
    answers_before: int
    without: int
    cut: bool
    rate: Estimate | None
    compared: int
    left_out: int
    documents: tuple[DocumentUse, ...]
    other_versions: int = 0
    unread: int = 0


def documents_report(stored: Answers, request: DocumentsRequest, now: float) -> DocumentsReport:
    """Compare the documents of a period with each other and with the period before. Takes up to some seconds.

    Args:
        stored: the source of the answers.
        request: what to look at.
        now: the end of the period, in seconds since 1970.

    Raises as `stored` does.
    """
    app, evaluator, window = request
    begin = now - window
    read = _weighed(stored.judged_answers(app, evaluator, begin, now + 1, ANSWERS_AT_MOST))
    past_read = _weighed(stored.judged_answers(app, evaluator, begin - window, begin, ANSWERS_AT_MOST))
    version = read[-1].version if read else ""
    answers, before = ([one for one in some if one.version == version] for some in (read, past_read))
    compared = compare_groups(_cases(answers))
    past = {factor.value: sums for factor, sums in group_sums(_cases(before)).items()}
    most = sorted(compared.groups, key=lambda one: (-one.sums.judged, one.factor.value))[:DOCUMENTS_AT_MOST]
    uses, examples = _uses(answers), _examples(answers)
    tried = sum(group.sums.judged >= LEAST_CASES <= past.get(group.factor.value, Sums()).judged for group in most)
    limit = corrected_z(tried, sides=2)
    documents = (_document(one, past, uses, examples, limit) for one in most)
    return DocumentsReport(
        app=app,
        evaluator=evaluator,
        since=read[0].at if len(read) >= ANSWERS_AT_MOST else begin,
        until=now,
        answers=len(answers),
        answers_before=len(before),
        without=sum(not one.features.documents for one in answers),
        cut=len(read) >= ANSWERS_AT_MOST,
        rate=estimate(compared.whole),
        compared=compared.tried,
        left_out=len(compared.groups) - len(most),
        documents=tuple(in_order(documents, "worst")),
        other_versions=len(read) - len(answers),
    )


def in_order(documents: Iterable[DocumentUse], order: Order) -> list[DocumentUse]:
    """Sort documents.

    `worst`: significantly worse ones first, then by the lower limit of their rate. `unused`: never used ones first,
    then by the upper limit of the share that uses them. `retrieved`: by the number of answers. `rise`: significant
    rises first, then by how far the rate rose.
    """
    if order == "retrieved":
        return sorted(documents, key=lambda one: (-one.answers, one.address))
    if order == "unused":
        return sorted(
            documents,
            key=lambda one: (not one.never_used, one.used.upper if one.used else 2.0, -one.answers, one.address),
        )
    if order == "rise":
        return sorted(
            documents,
            key=lambda one: (
                one.change != "rise",
                one.before.rate - one.rate.rate if one.before is not None else math.inf,
                one.address,
            ),
        )
    return sorted(
        documents,
        key=lambda one: (
            not one.surely_worse,
            -(one.z or 0.0) if one.surely_worse else 0.0,
            -one.rate.lower,
            -one.rate.rate,
            -one.answers,
            one.address,
        ),
    )


def found_in(documents: Iterable[DocumentUse], text: str) -> list[DocumentUse]:
    """Return the documents whose address contains a text, ignoring case."""
    wanted = text.casefold()
    return [one for one in documents if wanted in one.address.casefold()]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows of `as_objects` as comma-separated values.

    Anything that a spreadsheet would run as a formula is prefixed with an apostrophe; control characters become spaces.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return written.getvalue()


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if not isinstance(value, str):
        return value
    plain = "".join(one if one.isprintable() else " " for one in value)
    return _FORMULA.sub(r"\g<0>'", plain)


def as_objects(report: DocumentsReport, documents: Sequence[DocumentUse]) -> list[Mapping[str, Any]]:
    """Return documents of a report in plain JSON types; rates and shares are from 0 to 1, null where unknown."""
    return [
        {
            "app": report.app,
            "evaluator": report.evaluator,
            "document": one.address,
            "answers": one.answers,
            "bad": one.bad,
            "rate": one.rate.rate,
            "rate_lower": one.rate.lower,
            "rate_upper": one.rate.upper,
            "surely_worse": one.surely_worse,
            "beside": one.beside,
            "compared": one.compared,
            "use_known": one.known_use,
            "used": one.used.rate if one.used else None,
            "used_lower": one.used.lower if one.used else None,
            "used_upper": one.used.upper if one.used else None,
            "never_used": one.never_used,
            "rate_before": one.before.rate if one.before else None,
            "change": one.change,
            "example": one.example,
        }
        for one in documents
    ]


def _weighed(answers: Iterable[JudgedAnswer]) -> list[JudgedAnswer]:
    """Leave out damaged rows."""
    return [one for one in answers if one.weight > 0 and math.isfinite(one.weight)]


def _cases(answers: Iterable[JudgedAnswer]) -> list[JudgedCase]:
    return [
        JudgedCase(
            one.at,
            one.defect,
            one.unit,
            tuple(Factor("document", "document", address) for address in one.features.documents),
            one.weight,
        )
        for one in answers
    ]


def _uses(answers: Iterable[JudgedAnswer]) -> dict[str, list[WeighedCase]]:
    """Return, by document, the answers for which it is known whether they use it: `bad` means used."""
    units: dict[str, int] = {}
    found: dict[str, list[WeighedCase]] = defaultdict(list)
    for answer in answers:
        features = answer.features
        used = "0" * len(features.documents) if answer.refused and not features.used else features.used
        unit = units.setdefault(answer.unit, len(units))
        for address, digit in zip(features.documents, used, strict=False):
            found[address].append(WeighedCase(answer.at, answer.weight, digit == "1", unit, ()))
    return found


def _examples(answers: Iterable[JudgedAnswer]) -> dict[str, str]:
    """Return, by document, the request of the newest bad answer."""
    return {address: one.request_id for one in answers if one.defect for address in one.features.documents}


def _document(
    group: ComparedGroup,
    past: Mapping[str, Sums],
    uses: Mapping[str, Sequence[WeighedCase]],
    examples: Mapping[str, str],
    limit: float,
) -> DocumentUse:
    address, rate = group.factor.value, estimate(group.sums)
    assert rate is not None  # noqa: S101 - a group has an answer
    used = sums_of(uses.get(address, ()))
    before = past.get(address, Sums())
    return DocumentUse(
        address=address,
        answers=group.sums.judged,
        bad=group.sums.defects,
        rate=rate,
        surely_worse=group.surely_worse,
        beside=group.beside.value if group.beside is not None else "",
        compared=group.z is not None,
        z=group.z,
        known_use=used.judged,
        used=estimate(used),
        never_used=used.judged >= LEAST_NEVER_USED and not used.defects,
        before=estimate(before),
        change=change_of(before, group.sums, limit),
        example=examples.get(address, ""),
    )


def change_of(before: Sums, now: Sums, limit: float) -> Change:
    """Return whether a rate differs significantly from the earlier one; `limit` is in standard deviations."""
    found = difference(before, now, limit) if before.judged >= LEAST_CASES <= now.judged else None
    return "" if found is None or not found.clear else "rise" if found.value > 0 else "fall"
