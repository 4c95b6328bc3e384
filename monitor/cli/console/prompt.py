"""A prompt as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.cli.console.text import clean
from monitor.judge.recording import Exchange


def prompt_lines(one: Exchange) -> Iterator[str]:
    """Yield the messages that were sent; only what could steer a terminal is replaced."""
    for message in one.call.messages:
        yield f"[{message['role']}]"
        yield from clean_lines(message["content"])


def clean_lines(text: str) -> list[str]:
    """Split a text into lines, each harmless to a terminal."""
    return [clean(line) for line in text.split("\n")]
