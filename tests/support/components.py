"""A configuration for any component, from the examples of its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monitor.stages import Component

TRIVIAL = ["", " \n", ":", ".", "Thought process:", "\u200b"]
"""Responses without content."""


def options(component: type[Component], folder: Path, api: str = "", brokers: str = "") -> dict[str, Any]:
    """Return the options of `component` that have an example, with it. Paths and addresses are replaced by the test's.

    Files are in `folder`, addresses are `api`, a port is any free one, Kafka is at `brokers`.
    """
    found: dict[str, Any] = {}
    for name, field in component.model_fields.items():
        example = (field.examples or [None])[0]
        if name == "brokers":
            found[name] = brokers or example
        elif field.annotation in (Path, Path | None) and example:
            found[name] = folder / example
        elif isinstance(example, str) and example.startswith("http"):
            found[name] = api or example
        elif name == "port":
            found[name] = 0
        elif name == "protocol" and api:
            found[name] = "http"
        elif example is not None:
            found[name] = example
    return found
