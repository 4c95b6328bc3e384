"""An explanation of a reading as lines of text: each field, where it came from, and what was left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Final

from monitor.explain import FIELDS, Explanation, Origin, Unused
from monitor.model.case import Case

_SHOWN: Final = 70
"""Characters of a text that are shown."""

_REASON: Final = 200
"""Characters of an error that are shown: some are whole stack traces."""

_MOST: Final = 12
"""Lines on what was not used."""

_WIDTH: Final = 10
_READ_AS: Final = {
    "query": "a question",
    "documents": "documents",
    "response": "an answer",
    "": "a text that no dialect reads",
}


def lines(found: Explanation) -> Iterator[str]:
    """One trace, as it is shown to a person."""
    reading = found.reading
    why = " ".join(reading.error.split())
    why = f": {why[:_REASON]}{'...' if len(why) > _REASON else ''}" if why else ""
    yield f"{reading.case.request_id}  {reading.status}{why}"
    for field in FIELDS:
        value, origins = _value(reading.case, field), found.origins.get(field, ())
        if not value and not origins:
            if field in ("question", "context", "answer", "model"):
                yield f"  {field:{_WIDTH}}-"
            continue
        yield f"  {field:{_WIDTH}}{value or '-'}"
        for origin in _merged(origins):
            yield f"  {'':{_WIDTH}}  from {origin}"
    if found.unused:
        yield "  there, but not used:"
        for one in islice(found.unused, _MOST):
            yield f"    {_left(one)}"
        if len(found.unused) > _MOST:
            yield f"    and {len(found.unused) - _MOST} more"


def as_json(found: Explanation) -> str:
    """The same as one JSON object: the row that the case is, the origins of its fields, and what was not used."""
    origins = {name: [asdict(one) for one in found.origins.get(name, ())] for name in FIELDS}
    unused = [asdict(one) for one in found.unused]
    return json.dumps({"case": found.reading.as_row(), "origins": origins, "unused": unused}, ensure_ascii=False)


def _value(case: Case, field: str) -> str:
    """A field of a case in one line; empty where there is nothing."""
    usage = case.usage
    counts = (("in", usage.input_tokens), ("out", usage.output_tokens), ("in all", usage.total_tokens))
    shown = {
        "question": _quoted(case.request.query),
        "history": f"{len(case.request.history)} turns" if case.request.history else "",
        "context": _context(case),
        "answer": _quoted(case.response),
        "model": case.model,
        "usage": ", ".join(f"{number} {name}" for name, number in counts if number is not None),
        "session": case.session_id,
        "user": case.user_id,
    }
    return shown[field]


def _context(case: Case) -> str:
    number = len(case.retrieved_context)
    if not number:
        return ""
    taken = " taken out of the prompt" if case.context_source == "prompt" else ""
    return f"{number} document{'s' if number > 1 else ''}{taken}: {_quoted(case.retrieved_context[0].content)}"


def _quoted(text: str) -> str:
    folded = " ".join(text.split())
    return f'"{folded[:_SHOWN]}{"..." if len(folded) > _SHOWN else ""}"' if folded else ""


def _merged(origins: Sequence[Origin]) -> list[str]:
    """Origins in words, those that differ by the span alone made one."""
    spans: dict[tuple[str, str, str], list[str]] = {}
    for one in origins:
        spans.setdefault((one.convention, one.span_name, ", ".join(one.keys)), []).append(one.span_id)
    return [
        f"{convention or 'no dialect'}, span {name!r} {ids[0]}{f' and {len(ids) - 1} more' if ids[1:] else ''}: {keys}"
        for (convention, name, keys), ids in spans.items()
    ]


def _left(one: Unused) -> str:
    where = f"span {one.origin.span_name!r}" + (f" and {one.spans - 1} more" if one.spans > 1 else "")
    return f"{_READ_AS[one.said]} of {one.size} characters in {where}: {', '.join(one.origin.keys)}"
