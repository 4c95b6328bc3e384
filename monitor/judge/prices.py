"""Looks up what a model costs: as configured, else in litellm's price list, read without importing litellm."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.errors import ConfigError
from monitor.judge.settings import JudgeSettings

_LIST = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class Tariff:
    """US dollars per token of the prompt and per token of the answer."""

    input: float = 0.0
    output: float = 0.0

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of a call."""
        return input_tokens * self.input + output_tokens * self.output


def tariff(settings: JudgeSettings) -> Tariff | None:
    """Return the price of the configured model; None if it is unknown.

    Raises `ConfigError` if it is unknown and a budget is in dollars: such a budget would never be spent.
    """
    if settings.price is not None:
        return Tariff(settings.price.input_per_million / 1e6, settings.price.output_per_million / 1e6)
    found = _listed(settings.model or "")
    if found is None and settings.budget.in_dollars:
        raise ConfigError(
            f"judge.budget is in dollars, but LiteLLM knows no price for judge.model {settings.model!r}; "
            "set judge.price {input_per_million, output_per_million}, or a budget in evaluations_per_day"
        )
    return found


def _listed(model: str) -> Tariff | None:
    provider, _, name = model.partition("/")
    entry = _list().get(model)
    if entry is None and name:
        entry = _list().get(name)
        if entry is not None and entry.get("litellm_provider") != provider:
            return None  # another provider's model of the same name, with another price
    if entry is None:
        return None
    prices = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
    if any(not isinstance(one, (int, float)) or not math.isfinite(one) or one < 0 for one in prices):
        return None
    return Tariff(*prices)


@functools.cache
def _list() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    for base in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(base) / _LIST
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_bytes())
            return found
    return {}
