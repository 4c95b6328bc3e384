"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from monitor.errors import ConfigError

T = TypeVar("T")


def read(option: str, parse: Callable[[str], T], text: str) -> T:
    """Parse the text of an option. What `parse` refuses by `ValueError` or `ConfigError` is a usage error of it."""
    try:
        return parse(text)
    except (ValueError, ConfigError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
