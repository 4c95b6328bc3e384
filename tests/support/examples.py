"""How many examples a property test uses: all, fewer in `make test`, more on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings

F = TypeVar("F", bound=Callable[..., Any])

TIMES: Final = int(os.environ.get("PROPERTY_TIMES", "0"))
"""0 uses the same examples each time; N draws new ones, N times as many: `PROPERTY_TIMES=10 pytest tests/property`."""

_USUAL: Final = 50
_QUICK: Final = 12

# Two busy cores do not allow deadlines or a time limit for drawing.
for name, number in {"project": _USUAL, "quick": _QUICK}.items():
    settings.register_profile(
        name,
        max_examples=number * max(TIMES, 1),
        derandomize=not TIMES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def load(*, quick: bool) -> None:
    """Set how many examples are used by properties imported from now on."""
    settings.load_profile("quick" if quick else "project")


def examples(number: int) -> Callable[[F], F]:
    """Use `number` examples in the whole suite, and proportionally fewer or more in other runs."""
    return settings(
        max_examples=max(number * settings().max_examples // _USUAL, 1), suppress_health_check=list(HealthCheck)
    )
