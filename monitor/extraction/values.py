"""Decode attribute values: JSON in strings within strings, Python reprs, dotted keys. Nothing here raises."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import orjson

from monitor.model.span import Span, Value
from monitor.model.trace import Trace

MAX_TEXT: Final = 4_000_000
"""Maximum characters of a text that is parsed; longer texts are passed on unparsed."""

MAX_REPR: Final = 65_536
"""Maximum characters of a Python repr that is parsed: the parser of literals is slow."""

MAX_CUT: Final = 262_144
"""Maximum characters that are read from the beginning of a cut JSON text."""

MAX_ITEMS: Final = 2_000
"""Maximum number of elements of a list that are read."""

MAX_INDEX: Final = 10_000
"""The highest list index that a dotted key may name."""

_INDEX_DIGITS: Final = len(str(MAX_INDEX))

MAX_COUNT: Final = 10**12
"""The largest count accepted: more cannot be a token count, and sums of many counts must stay serialisable."""

LOWEST_LIMIT: Final = 32
"""The lowest length limit that is detected, in characters: no sender could work with a lower one."""

_STRUCTURED: Final = ('{"', '["', "[{", "{}", "[]", "[[")
_ALSO_PROSE: Final = ("{}", "[]", "[[")
"""Answers may also begin like this, `[[1]] says so`; if such a bracket is closed early, the text is not cut JSON."""

_CUT_DEPTH: Final = 8
_ROUND: Final = (50, 64)
_ENOUGH: Final = 2
_SAMPLE: Final = 8

_LEVELS: Final = 3
_LONGEST_MARK: Final = 500
_REPR_START: Final = frozenset("<ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_REPR_DEPTH: Final = 50
_WIDEST: Final = 256
"""Maximum bits of a whole number: ids are no longer, and Python refuses to format very long numbers."""

_FOREIGN: Final = re.compile(r"\b(?:NaN|Infinity)\b|\\u[dD][89a-fA-F]")
_UNUSABLE: Final = re.compile(
    r"<(?:async[_ ])?(?:generator|coroutine|iterator|function)\b[^<>]*>"
    r"|<[\w.]+(?: [\w.]+)* at 0x[0-9a-fA-F]+>"
    r"|__REDACTED__"
)
_CALL: Final = re.compile(r"<?[A-Z]\w*\(\s*(?:\w+=|<|\))")
_LITERAL: Final = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""


def unfold(value: Value, levels: int = _LEVELS) -> Value:
    """Return the structure in a text: JSON, JSON within JSON (up to `levels`), or a Python literal.

    Any other value, and a text without structure, is returned as it is: `42` and `true` in a text stay text.
    """
    while levels > 0 and isinstance(value, str):
        parsed = _parse(value)
        if parsed is None:
            break
        value, levels = parsed, levels - 1
    return value


def unfold_cut(value: Value) -> Value:
    """Return a value as `unfold` does, and the complete elements of a JSON text that a length limit has cut."""
    whole = unfold(value)
    if not isinstance(whole, str) or whole[:1] not in ("{", "[") or len(whole) > MAX_TEXT:
        return whole
    repaired = _close(whole[:MAX_CUT])
    if repaired is None:
        return value
    parsed: object
    try:
        parsed = orjson.loads(repaired)
    except orjson.JSONDecodeError:
        parsed = _foreign(repaired)
    return parsed if isinstance(parsed, (dict, list)) else value


def usable(text: str) -> bool:
    """Return whether a text is content: not the bare repr of a generator or an object, and not a redaction mark."""
    return len(text) > _LONGEST_MARK or not _UNUSABLE.fullmatch(text.strip())


def is_repr(text: str) -> bool:
    """Return whether a text is an object's repr, possibly cut: `Name(key=...)`, `<Name(...)>`, `Name(key=...`."""
    return text[:1] in _REPR_START and text.rstrip().endswith((")", ")>", "...")) and bool(_CALL.match(text))


def repr_field(text: str, names: str) -> str | None:
    """Return the first complete string assigned to one of `names` (a regex) in a repr, unescaped; else None."""
    found = re.search(rf"\b(?:{names})=" + _LITERAL, text[:MAX_REPR])
    if found is None:
        return None
    literal = _literal(found[1])
    return literal if isinstance(literal, str) else None


def without_field(text: str, names: str) -> str:
    """Remove the string that `repr_field` finds from a repr: its content could be mistaken for other fields."""
    head, tail = text[:MAX_REPR], text[MAX_REPR:]
    return re.sub(rf"\b(?:{names})=" + _LITERAL, "", head, count=1) + tail


def elements(value: Value) -> Sequence[Value] | None:
    """Return the elements of a list (no more than `MAX_ITEMS`); None for anything else."""
    if isinstance(value, (list, tuple)):
        return value[:MAX_ITEMS]
    return None


def first(mapping: Mapping[str, Value], keys: Sequence[str]) -> Value:
    """Return the value of the first of `keys` that is present and not None."""
    for key in keys:
        value = mapping.get(key)
        if value is not None:
            return value
    return None


def number(value: Value) -> float | None:
    """Return a finite number, also from a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if abs(parsed) < float("inf") else None


def count(value: Value) -> int | None:
    """Return a whole number from 0 to `MAX_COUNT`, also from a text; None for anything else."""
    parsed = number(value)
    return int(parsed) if parsed is not None and 0 <= parsed <= MAX_COUNT else None


def text(value: Value) -> str:
    """Return a text as it is, and a number as text; empty for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return ""


def dump(value: Value) -> str:
    """Return a value as JSON; empty for a text or an empty value."""
    try:
        return "" if value is None or isinstance(value, str) or value in ([], {}) else orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return ""


def unflatten(attributes: Mapping[str, Value], prefix: str) -> list[Value] | None:
    """Build the list that attributes spell out by dotted keys (`prefix.0.message.role`), with None for a missing index.

    If there are no such keys, return the list that `prefix` itself holds, or None.
    """
    rows: dict[int, dict[str, Value]] = {}
    beginning = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(beginning):
            index, _, path = key[len(beginning) :].partition(".")
            if _is_index(index):
                _place(rows.setdefault(int(index), {}), path, value)
    if rows:
        return [_lists(rows[index]) if index in rows else None for index in range(max(rows) + 1)]
    listed = elements(attributes.get(prefix))
    return list(listed) if listed is not None else None


def length_limit(trace: Trace) -> int:
    """Return the number of characters at which the texts of a trace were cut; 0 if nothing suggests that they were.

    With an `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` no value is longer, and values that reach it end anywhere: JSON breaks
    off, and different texts have exactly the same length, a round number.
    """
    every = _texts(trace)
    longest = max(map(len, every), default=0)
    if longest < LOWEST_LIMIT:
        return 0
    texts = list(islice(dict.fromkeys([one for one in every if len(one) == longest]), _SAMPLE))
    if any(map(broken, texts)):
        return longest
    is_round = any(longest % step in (0, step - 1) for step in _ROUND)
    return longest if len(texts) >= _ENOUGH and is_round else 0


def broken(text: str) -> bool:
    """Return whether a text starts like JSON but is not valid JSON: a length limit has cut it."""
    if not text.startswith(_STRUCTURED) or not isinstance(unfold(text), str):
        return False
    return not text.startswith(_ALSO_PROSE) or not isinstance(unfold_cut(text), str)


def error_of(span: Span) -> str:
    """Return the error that a span reports; empty if it did not fail."""
    if span.status != "error":
        return ""
    if span.status_message:
        return span.status_message
    messages = [span.attributes.get("error.type")]
    messages += [event.attributes.get("exception.message") for event in span.events if event.name == "exception"]
    return next((found for one in messages if (found := text(one))), "error")


def _place(row: dict[str, Value], path: str, value: Value) -> None:
    *above, last = path.split(".")
    for step in above:
        inner = row.get(step)
        if not isinstance(inner, dict):
            inner = {}
            row[step] = inner
        row = inner
    row.setdefault(last, value)


def _lists(value: Value, depth: int = 16) -> Value:
    """Turn mappings whose keys are all indexes into lists."""
    if not isinstance(value, dict) or depth == 0:
        return value
    if value and all(map(_is_index, value)):
        return [_lists(value[key], depth - 1) for key in sorted(value, key=int)]
    return {key: _lists(inner, depth - 1) if isinstance(inner, dict) else inner for key, inner in value.items()}


def _is_index(key: str) -> bool:
    # The length is checked first: it is enough to rule out the name of a field, which most keys are.
    return len(key) <= _INDEX_DIGITS and key.isascii() and key.isdecimal() and int(key) <= MAX_INDEX


def _parse(candidate: str) -> Value:
    """Parse the list, mapping or string that a text encodes; None if it encodes none of these."""
    stripped = candidate.strip()
    if stripped[:1] not in ("{", "[", '"') or len(stripped) > MAX_TEXT:
        return None
    parsed: object
    try:
        parsed = orjson.loads(stripped)
    except orjson.JSONDecodeError:
        parsed = _lenient(stripped)
    return parsed if isinstance(parsed, (str, dict, list)) else None


def _lenient(stripped: str) -> object:
    """Parse texts that strict JSON rejects but senders write: NaN, half an escaped emoji, the repr of a literal."""
    parsed = _foreign(stripped)
    if parsed is None and stripped[0] != '"' and stripped[-1] in "}]":
        return _literal(stripped)
    return parsed


def _foreign(text: str) -> object:
    """Parse JSON with NaN or half an escaped emoji; None for any other text."""
    if _FOREIGN.search(text):
        try:
            return _plain(json.loads(text, parse_constant=lambda _: None))
        except (ValueError, RecursionError):
            pass
    return None


def _literal(source: str) -> object:
    if len(source) > MAX_REPR or _nesting(source) > _REPR_DEPTH:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of `'\d'`, which is ordinary content here
            return _plain(ast.literal_eval(source))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _plain(literal: object) -> object:
    """Reduce a literal to JSON types: keys become texts, and texts become encodable."""
    if isinstance(literal, str):
        return _encodable(literal)
    if isinstance(literal, dict):
        return {str(_plain(key)): _plain(inner) for key, inner in literal.items()}
    if isinstance(literal, (list, tuple, set)):
        return [_plain(inner) for inner in literal]
    if isinstance(literal, int) and literal.bit_length() > _WIDEST:
        return None
    return literal if isinstance(literal, (bool, int, float, bytes)) else None


def _encodable(text: str) -> str:
    """Make a text encodable: join the two escaped halves of a character, replace a single half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _nesting(source: str) -> int:
    deepest = depth = 0
    for char in source:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


def _tokens(source: str) -> Iterator[tuple[int, str]]:
    """Yield the structural characters of a JSON text outside its strings, each with its end position."""
    inside = escaped = False
    for at, char in enumerate(source):
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in "{}[],":
            yield at, char


def _close(source: str) -> str | None:
    """Return a cut JSON text up to its last complete element, with its brackets closed; None if it was not cut."""
    closers: list[str] = []
    end = 0
    for at, char in _tokens(source):
        if char in "{[":
            closers.append("}" if char == "{" else "]")
        elif char != "," and (not closers or closers.pop() != char):
            return None
        if not closers:
            return None
        end = at if char == "," else at + 1
    return source[:end] + "".join(reversed(closers)) if closers else None


def _texts(trace: Trace) -> list[str]:
    """Return all texts in the attributes of a trace."""
    found: list[str] = []
    for attributes in (*(span.attributes for span in trace.spans), *(record.attributes for record in trace.records)):
        _add_texts(found, attributes.values(), _CUT_DEPTH)
    return found


def _add_texts(found: list[str], several: Iterable[Value], depth: int) -> None:
    for value in several:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, (list, tuple, Mapping)) and depth > 1:
            _add_texts(found, value.values() if isinstance(value, Mapping) else value, depth - 1)
