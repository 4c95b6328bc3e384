"""Durations, sizes and rates as people write them (`30s`, `7d`, `2GiB`, `10%`) and read them (`3 min`, `2.4 %`).

timeout: Duration = 30.0      # accepts 30, "30s", "1m30s"; seconds
at_most: Size = 2 * 1024**3   # accepts 2147483648, "2GiB", "500MB"; bytes
sample: Rate = 1.0            # accepts 0.1, "10%"; 0 <= rate <= 1

`format_duration` and `format_size` are exact, so that they can be parsed again; the other texts are rounded.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {
    "": 1,
    "B": 1,
    **{f"{p}B": 1000**i for i, p in enumerate("kMGT", 1)},
    **{f"{p}iB": 1024**i for i, p in enumerate("KMGT", 1)},
}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw])\s*)+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?i?B?)")


def parse_duration(value: object) -> float:
    """Return seconds, >= 0, from a number of seconds or a text such as `30s`, `1m30s`, `7d`. Raises `ValueError`."""
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", value))
        if math.isfinite(seconds):
            return seconds
    return _number(value, "a duration: seconds, or a number with ms, s, m, h, d or w, such as `30s`")


def parse_size(value: object) -> int:
    """Return bytes, >= 0, from a number or a text such as `2GiB`, `500MB`. Raises `ValueError`."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())) and match[2] in _BYTES:
        size = float(match[1]) * _BYTES[match[2]]
        if math.isfinite(size):
            return int(size)
    return int(_number(value, "a size: bytes, or a number with kB, MB, GB, KiB, MiB or GiB, such as `2GiB`"))


def parse_rate(value: object) -> float:
    """Read a share, 0 <= rate <= 1, from a number or a text such as `10%`. Raises `ValueError`."""
    allowed = "a rate: a number from 0 to 1, or a percentage from 0% to 100%"
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?\s*%", value.strip()):
        value = float(value.strip().rstrip("% ")) / 100
    rate = _number(value, allowed)
    if rate > 1:
        raise ValueError(f"{value!r} is not {allowed}")
    return rate


def format_duration(seconds: float) -> str:
    """Write the shortest exact text: 3600 -> `1h`, 90 -> `90s`."""
    for unit, size in reversed(_SECONDS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.15g}{unit}"
    return f"{seconds:.15g}s"


def format_size(size: int) -> str:
    """Write the shortest exact text: 2147483648 -> `2GiB`, 1000 -> `1000B`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _BYTES[unit] and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def percent(share: float | None) -> str:
    """Write a share in percent, rounded for people: `31 %`, `2.4 %`, `0.04 %`; a dash for None."""
    if share is None:
        return "-"
    digits = 0 if share >= 0.0995 or share == 0 else 1 if share >= 0.001 else 2  # noqa: PLR2004 - 9.95 % rounds to 10 %
    return f"{share * 100:.{digits}f} %"


def precise_percent(share: float) -> str:
    """Write a share in percent with three significant digits, as thresholds need: `0.125 %`, `4.2 %`, `15 %`."""
    return f"{share * 100:.3g} %"


def human_number(value: float) -> str:
    """Write a number of 0 or more, rounded for people, large ones without an exponent: `0.25`, `12.5`, `20,000`."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"  # noqa: PLR2004 - 999.5 rounds to 1,000


def number_of(count: float, noun: str) -> str:
    """Write how many there are, in whole numbers: `0 answers`, `1 answer`, `2,000 answers`."""
    written = f"{count:,.0f}"
    return f"{written} {noun}" if written == "1" else f"{written} {noun}s"


def human_duration(seconds: float) -> str:
    """Write a duration, rounded for people: `4 ms`, `0.4 s`, `45 s`, `3 min`, `6 h`, `7 d`."""
    if seconds < 0.1:  # noqa: PLR2004 - as it says
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    seconds = round(seconds, 1) if seconds < 10 else round(seconds)  # noqa: PLR2004 - as it says
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"


def timing(seconds: float) -> str:
    """Write a measured time with three digits: `0.41 ms`, `1.25 s`."""
    unit, value = ("s", seconds) if seconds >= 1 else ("ms", seconds * 1e3)
    return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"


def dollars(amount: float) -> str:
    """Write an amount so that even the price of a single evaluation shows: `$0.00042`, `$12.60`; a dash for nothing."""
    if not amount:
        return "-"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.2g}" if amount >= 0.0001 else f"${amount:.1e}"  # noqa: PLR2004


def _number(value: object, allowed: str) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):  # an int of more than 308 digits
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return number
    raise ValueError(f"{value!r} is not {allowed}")


Duration: TypeAlias = Annotated[float, BeforeValidator(parse_duration)]
Size: TypeAlias = Annotated[int, BeforeValidator(parse_size)]
Rate: TypeAlias = Annotated[float, BeforeValidator(parse_rate)]
