"""A diagnosis in words: the name of a factor, and the one line that an alert carries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from monitor.jobs.diagnosis import RateDiagnosis
from monitor.quantities import percent
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.diagnosis.onset import Onset
from monitor.statistics.diagnosis.results import FoundFactor

_LONGEST_VALUE: Final = 80
_IN_LINE: Final = 3  # factors that every answer has had since


def in_words(factor: Factor, longest: int = 256) -> str:
    """Name a factor. Its value, which is untrusted, is cut but otherwise unchanged."""
    value = factor.value if len(factor.value) <= longest else f"{factor.value[: longest - 1]}\u2026"
    if factor.kind == "word":
        return f'the word "{value}"'
    return f"{factor.name} {value}" if factor.kind == "document" else f"{factor.name} = {value}"


def alert_line(one: RateDiagnosis) -> str:
    """Say in one line, without control characters, since when the rate is higher and what explains it.

    Empty if there is nothing to say: no rise, or too few bad answers before it.
    """
    found = one.found
    if found.onset is None:
        return ""
    parts = [f"Since {_since(found.onset, one.until)}."]
    if found.factors:
        parts += [_explained(found.factors[0]), *map(_also, found.factors[1:])]
    elif found.awaits_first_look:
        parts.append(f"{found.bad} bad answers are too few to name a cause: it takes {found.next_look} more.")
    elif found.visible is None:
        parts.append(f"Nothing stands out among {found.bad} bad answers, too few to see a single cause.")
    else:
        would = f"a cause of {percent(found.visible)} of the rise would have been seen 4 times in 5"
        parts.append(f"Nothing stands out among {found.bad} bad answers; {would}.")
    if found.switched:
        named = ", ".join(_name([factor]) for factor in found.switched[:_IN_LINE])
        parts.append(f"Since then everything has {named}.")
    return " ".join(parts)


def share_of(one: FoundFactor) -> str:
    """Write the share of the rise that a factor explains; for a word it is a lower limit."""
    share = percent(round(min(max(one.share.value, 0.0), 1.0), 2))
    return f"at least {share}" if one.factor.kind == "word" else share


def _explained(one: FoundFactor) -> str:
    name = _name(one.parts)
    if one.how == "more":
        often = f"{percent(one.part_now)} of the answers, {percent(one.part_before)} before"
        return f"{share_of(one)} of the rise: more of {name} ({often})."
    rates = ""
    if one.inside is not None and one.outside is not None:
        rates = f" ({percent(one.inside.rate)} bad, elsewhere {percent(one.outside.rate)})"
    return f"{share_of(one)} of the rise: {name}{rates}."


def _also(one: FoundFactor) -> str:
    return f"Also {share_of(one)}: {'more of ' if one.how == 'more' else ''}{_name(one.parts)}."


def _name(parts: Sequence[Factor]) -> str:
    name = " and ".join(in_words(part, _LONGEST_VALUE) for part in parts)
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name)


def _since(onset: Onset, until: float) -> str:
    at, day = _moment(onset.at), _moment(onset.at).date()
    near = all(_moment(other).date() == day for other in (onset.earliest, onset.latest))
    date = "" if near and _moment(until).date() == day else f"{at:%Y-%m-%d} "
    ends = (
        f"{_moment(end):%H:%M}" if near else f"{_moment(end):%Y-%m-%d %H:%M}" for end in (onset.earliest, onset.latest)
    )
    return f"{date}{at:%H:%M} UTC ({' to '.join(ends)})"


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
