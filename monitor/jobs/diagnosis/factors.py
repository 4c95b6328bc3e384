"""The factors that a diagnosis compares: an answer's features as named values, such as `tenant = acme`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from statistics import quantiles
from typing import Final

from monitor.statistics.diagnosis.cases import Factor
from monitor.storage.history.answers import JudgedAnswer

_PARTS: Final = 5


class FactorReader:
    """Turns features into factors. Scores and lengths are cut into five parts at the quantiles of the baseline.

    `hours`: include the hour of the day. It is a factor only if the searched time includes each hour more than once:
    otherwise the hour only reflects the time since the onset.
    """

    def __init__(self, baseline: Sequence[JudgedAnswer], slices: Sequence[str], *, hours: bool = False) -> None:
        self._slices = frozenset(slices)
        self._hours = hours
        features = [one.features for one in baseline]
        self._scores = _cuts([one.score for one in features if one.score is not None])
        self._questions = _cuts([one.question_length for one in features if one.question_length])
        self._answers = _cuts([one.answer_length for one in features if one.answer_length])

    def factors(self, answer: JudgedAnswer) -> tuple[Factor, ...]:
        """Return the factors of an answer."""
        one = answer.features
        known = dict(one.slices)
        found = [Factor("slice", name, value, pairs=name in self._slices) for name, value in known.items()]
        values = set(known.values())
        named = {"model": one.model, **{f"{name} version": value for name, value in one.versions.items()}}
        named = {name: value for name, value in named.items() if value and value not in values}
        if "language" not in known:
            named["language"] = one.language
        if self._hours:
            named["hour of the day (UTC)"] = str(int(answer.at // 3600 % 24))
        # Retrieving something is normal: next to searches that find nothing, it would look like a cause.
        named |= {"context": "" if one.context == "retrieved" else one.context.replace("_", " "), "user": one.user}
        named |= {
            "retriever score": _part(one.score, self._scores),
            "question length": _part(one.question_length or None, self._questions),
        }
        if one.context != "no_retrieval":
            named["documents"] = _number(one.number)
        found += [Factor("slice", name, value) for name, value in named.items() if value]
        outcomes = {"answer length": _part(one.answer_length or None, self._answers)}
        if answer.refused is not None:
            outcomes["refusal"] = "yes" if answer.refused else "no"
        found += [Factor("slice", name, value, outcome=True) for name, value in outcomes.items() if value]
        found += [Factor("document", "document", address) for address in one.documents]
        folders = dict.fromkeys(_folder(address) for address in one.documents)
        found += [Factor("document", "folder", folder) for folder in folders if folder]
        found += [Factor("word", "word", word) for word in one.words]
        return tuple(found)


def _folder(address: str) -> str:
    return address.rpartition("/")[0].rstrip("/")


def _cuts(values: Sequence[float]) -> tuple[float, ...]:
    """Return the four values that divide the values into five parts; empty without enough different values."""
    return tuple(quantiles(values, n=_PARTS)) if len(set(values)) >= _PARTS else ()


def _part(value: float | None, cuts: Sequence[float]) -> str:
    """Return in words which part a value is in; empty if the value is not known."""
    if value is None or not cuts:
        return ""
    at = bisect_right(cuts, value)
    if at == 0:
        return f"below {cuts[0]:.3g}"
    return f"{cuts[at - 1]:.3g} or more" if at == len(cuts) else f"{cuts[at - 1]:.3g} to {cuts[at]:.3g}"


def _number(documents: int) -> str:
    limits = ((0, "0"), (2, "1 or 2"), (4, "3 or 4"), (5, "5"))
    return next((name for most, name in limits if documents <= most), "6 or more")
