"""Whether a sender's attribute limit has cut the texts of a trace: the protocol leaves no mark of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from monitor.content import values
from monitor.model.span import Value
from monitor.model.trace import Trace

LOWEST: Final = 32
"""Characters below which a limit is not looked for: no sender could work with it."""

_STRUCTURED: Final = ('{"', '["', "[{", "{}", "[]", "[[")
_ALSO_PROSE: Final = ("{}", "[]", "[[")
"""These begin answers too, `[[1]] says so`; where such a bracket is closed before the end the text is no cut JSON."""

_DEPTH: Final = 8
_ROUND: Final = (50, 64)
_ENOUGH: Final = 2
_SAMPLE: Final = 8


def limit_of(trace: Trace) -> int:
    """The number of characters at which the texts of a trace were cut; 0 where nothing suggests that they were.

    Where `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` is in force no value is longer, and those that reach it end anywhere: JSON
    breaks off, and different texts have the very same length, a round number.
    """
    longest, texts = LOWEST, set[str]()
    for text in _texts(trace):
        if len(text) > longest:
            longest = len(text)
            texts = {text}
        elif len(text) == longest and len(texts) < _SAMPLE:
            texts.add(text)
    if any(broken(text) for text in texts):
        return longest
    is_round = any(longest % step in (0, step - 1) for step in _ROUND)
    return longest if len(texts) >= _ENOUGH and is_round else 0


def broken(text: str) -> bool:
    """Whether a text starts as JSON does and is none."""
    if not text.startswith(_STRUCTURED) or not isinstance(values.unfold(text), str):
        return False
    return not text.startswith(_ALSO_PROSE) or not isinstance(values.unfold_cut(text), str)


def _texts(trace: Trace) -> Iterator[str]:
    for span in trace.spans:
        yield from _of(span.attributes, _DEPTH)
    for record in trace.records:
        yield from _of(record.attributes, _DEPTH)


def _of(value: Value, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth > 0 and isinstance(value, Mapping):
        for inner in value.values():
            yield from _of(inner, depth - 1)
    elif depth > 0 and isinstance(value, (list, tuple)):
        for inner in value:
            yield from _of(inner, depth - 1)
