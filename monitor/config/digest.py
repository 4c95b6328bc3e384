"""The section `digest`: who gets the figures of the past week, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from monitor.alerts.notify import Notifier, named_notifiers
from monitor.config.sections import Section
from monitor.errors import ConfigError
from monitor.errors.explanation import nearest

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAILY: Final = "daily"
_WEEK: Final = 7
_ALLOWED: Final = "a weekday or `daily`, and a time, such as `monday 09:00`"


@dataclass(frozen=True, slots=True)
class DueTimes:
    """The times at which a digest is due: each day or each `weekday` (0: Monday), at a local time in `zone`.

    If a change to summer time skips the time, it is due an hour later; if the time occurs twice, the first one counts.
    """

    weekday: int | None
    hour: int
    minute: int
    zone: tzinfo

    def latest(self, now: float) -> float:
        """Return the last due time up to `now`. Times are seconds since 1970."""
        return max(at for at in self._around(now) if at <= now)

    def following(self, now: float) -> float:
        """Return the first due time after `now`."""
        return min(at for at in self._around(now) if at > now)

    def _around(self, now: float) -> Iterator[float]:
        """Yield the due times around `now`, before and after it."""
        today = datetime.fromtimestamp(now, self.zone).date()
        for ahead in range(-_WEEK - 1, _WEEK + 2):
            day = today + timedelta(ahead)
            if self.weekday is None or day.weekday() == self.weekday:
                yield datetime(day.year, day.month, day.day, self.hour, self.minute, tzinfo=self.zone).timestamp()


class DigestSettings(Section):
    """A digest for people: rates against the week before, spend, the judge's health, coverage (docs/digest.md)."""

    every: str | None = Field(default=None, examples=["monday 09:00"])
    """When to send it: a weekday or `daily`, and a time, such as `monday 09:00`. It covers the time since the previous
    one was due: a week or a day. Default: not sent; `rag-monitor digest` prints one at any time."""

    to: tuple[Annotated[str, Field(max_length=64)], ...] = Field(default=(), examples=[["slack"]])
    """Who gets it: entries of `notify`, by `name`, or by type if they have no name. `webhook`, `slack` and `apprise`
    can receive a digest."""

    timezone: str = "UTC"
    """The time zone of `every`, such as `Europe/Berlin`: a name of the IANA time zone database."""

    @field_validator("every", mode="after")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            _parse(value)
        return value

    @field_validator("timezone", mode="after")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        _zone(value)
        return value

    @model_validator(mode="after")
    def _has_a_receiver(self) -> DigestSettings:
        if self.every is not None and not self.to:
            raise ValueError("`every` needs `to`: the entries of `notify` that get the digest")
        if self.to and self.every is None:
            raise ValueError(f"`to` needs `every`: {_ALLOWED}")
        return self

    def receivers(self, notifiers: Sequence[Notifier]) -> Mapping[str, Notifier]:
        """Return the entries of `notify` that get the digest, by name. Raises `ConfigError` if one cannot get it."""
        known, found = named_notifiers(notifiers), dict[str, Notifier]()
        able = [name for name, one in known.items() if one is None or one.takes_messages]
        for index, name in enumerate(self.to):
            place, one = f"digest.to[{index}]", known.get(name)
            if name not in known:
                choice = (
                    f"; choose one of {', '.join(able)}" if able else ", which has no entry that can be sent a digest"
                )
                raise ConfigError(f"{place}: {name!r} is not an entry of `notify`{nearest(name, able)}{choice}")
            if one is None:
                raise ConfigError(f"{place}: several entries of `notify` are {name!r}; give each its own `name`")
            if not one.takes_messages:
                raise ConfigError(
                    f"{place}: {name!r} takes alerts only; webhook, slack and apprise can be sent a digest"
                )
            if name in found:
                raise ConfigError(f"{place}: {name!r} is listed twice")
            found[name] = one
        return found

    @property
    def schedule(self) -> DueTimes | None:
        """When a digest is due; None: never."""
        return None if self.every is None else DueTimes(*_parse(self.every), _zone(self.timezone))


def _parse(text: str) -> tuple[int | None, int, int]:
    day, _, clock = " ".join(text.lower().split()).partition(" ")
    hour, _, minute = clock.partition(":")
    if day not in (*_DAYS, _DAILY):
        raise ValueError(f"{text!r:.80} is not {_ALLOWED}{nearest(day, (*_DAYS, _DAILY))}")
    whole = len(hour) in (1, 2) and len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdigit()  # noqa: PLR2004
    if not whole or int(hour) > 23 or int(minute) > 59:  # noqa: PLR2004
        raise ValueError(f"{text!r:.80} is not {_ALLOWED}: the time must be from 00:00 to 23:59")
    return (None if day == _DAILY else _DAYS.index(day)), int(hour), int(minute)


def _zone(name: str) -> tzinfo:
    if name == "UTC":  # a machine may have no database of time zones
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found, or a path
        raise ValueError(
            f"{name!r:.80} is not a time zone that this machine knows, such as `UTC` or `Europe/Berlin`"
        ) from None
