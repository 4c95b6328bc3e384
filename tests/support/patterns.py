"""Every regular expression of the monitor, and texts designed to be slow for each.

Patterns are found in two ways: the compiled ones in a module, also in its tuples, tables and classes, and the calls of
`re` in the source. The texts are made from the parsed pattern: for each repeat, the text that leads up to it and many
copies of what it matches, once and repeatedly, followed by a text that makes the match fail.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

import monitor

ANCHORED: Final = frozenset({"match", "fullmatch"})
_METHODS: Final = ANCHORED | {"search", "sub", "subn", "split", "findall", "finditer"}
_CALLS: Final = _METHODS | {"compile"}
_APPLIED_BY: Final = {"without": "match"}
"""Functions whose first argument is a pattern, with the method that they apply."""
_LONG: Final = 8  # a shorter repeat cannot cause much work
_CHARACTERS: Final = "a1 \n.-_:\"'([{<#*/=+,A\té中\u200b"
_FEW: Final = 4
_WORDS: Final = 30  # words without a repeat, from patterns that are long lists
_FLAGS: Final = re.ASCII | re.IGNORECASE | re.DOTALL | re.MULTILINE | re.UNICODE


class Found(NamedTuple):
    """A pattern: the module and name or line where it is, and the methods by which it is used."""

    place: str
    pattern: re.Pattern[Any]
    used: frozenset[str]

    @property
    def apply(self) -> Callable[[str], object]:
        """Use it on a text as the monitor does; if that is unknown, search for every match."""
        one = self.pattern
        if self.used and self.used <= ANCHORED:
            tried: Callable[[Any], object] = one.match if "match" in self.used else one.fullmatch
        else:
            tried = lambda text: deque(one.finditer(text), maxlen=0)  # noqa: E731
        return (lambda text: tried(text.encode())) if isinstance(one.pattern, bytes) else tried


@cache
def every() -> tuple[list[Found], list[str]]:
    """Find every pattern, each once; and the calls of `re` with patterns made from unknown values."""
    held, (written, unknown) = list(compiled()), called()
    known = {(found.pattern.pattern, found.pattern.flags) for found in held}
    more = [one for one in written if one.used or (one.pattern.pattern, one.pattern.flags) not in known]
    return held + more, unknown


def modules() -> list[str]:
    """Yield every module of the monitor that can be imported without running it."""
    found = [info.name for info in pkgutil.walk_packages(monitor.__path__, "monitor.")]
    return ["monitor", *(name for name in found if not name.endswith("__main__"))]


def compiled() -> Iterator[Found]:
    """Find the patterns in modules: at the top level, in containers at any depth, and in classes."""
    uses = _uses()
    seen: set[int] = set()
    for name in modules():
        for place, pattern in _held(vars(importlib.import_module(name)), name, set()):
            if id(pattern) not in seen:
                seen.add(id(pattern))
                bare = re.split(r"[\[(]", place.removeprefix(f"{name}."))[0]
                yield Found(place, pattern, frozenset(uses[name, bare]) if place == f"{name}.{bare}" else frozenset())


def _held(values: Mapping[str, Any], place: str, seen: set[int]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for name, value in list(values.items()):
        if not name.startswith("__"):
            yield from _inside(value, f"{place}.{name}", seen)


def _inside(value: Any, place: str, seen: set[int]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield place, value
        return
    if not isinstance(value, list | tuple | set | frozenset | dict | type) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, type):
        if str(value.__module__).partition(".")[0] == "monitor":
            yield from _held(vars(value), place, seen)
    elif isinstance(value, dict):
        for key, one in list(value.items()):
            yield from itertools.chain(_inside(key, f"{place}[{key!r}]", seen), _inside(one, f"{place}[{key!r}]", seen))
    else:
        for at, one in enumerate(value):
            yield from _inside(one, f"{place}[{at}]", seen)


def _uses() -> dict[tuple[str, str], set[str]]:
    """Return, by module and name, the methods by which a pattern is used there or where it is imported."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, nodes in _nodes():
        where = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                where |= {(one.asname or one.name): (node.module, one.name) for one in node.names}
        plain = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _APPLIED_BY:
                plain.add(id(node.args[0]))
                found[name, ast.unparse(node.args[0])].add(_APPLIED_BY[node.func.id])
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found[where.get(node.value.id, (name, node.value.id))].add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in plain:
                found[where.get(node.id, (name, node.id))].add("handed on")  # it may be used in any way
    return found


@cache
def _nodes() -> list[tuple[str, list[ast.AST]]]:
    top = Path(monitor.__file__).parent
    found = []
    for path in sorted(top.rglob("*.py")):
        inner = path.relative_to(top.parent).with_suffix("").parts
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        found.append((".".join(inner[:-1] if inner[-1] == "__init__" else inner), nodes))
    return found


def called() -> tuple[list[Found], list[str]]:
    """Find the patterns of calls such as `re.sub(r"...", ...)`; and the places of those made from unknown values."""
    found, unknown = [], []
    for name, nodes in _nodes():
        for node in nodes:
            if not _is_call_of_re(node):
                continue
            values = dict(vars(importlib.import_module(name)))
            place = f"{name}: {ast.unparse(node.args[0])}"
            try:
                text = _evaluated(node.args[0], values)
                flags = [one for one in (*node.args[1:], *(word.value for word in node.keywords)) if _is_flag(one)]
                given = sum(int(_evaluated(one, values)) for one in flags)
                used = frozenset({node.func.attr} if node.func.attr != "compile" else ())
                found.append(Found(place, re.compile(text, given), used))
            except (NameError, TypeError, AttributeError):
                unknown.append(place)
    return found, unknown


def _is_call_of_re(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in _CALLS
    )


def _is_flag(node: ast.expr) -> bool:
    return ast.unparse(node).startswith("re.")


def _evaluated(node: ast.expr, values: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), values)


# -- texts


class Slow(NamedTuple):
    """A recipe for a text: a start, a repeated part, and an end."""

    start: str
    unit: str
    end: str
    half: str = ""

    def text(self, length: int) -> str:
        """Return a text of about `length` characters; with a `half`, that fills the second half."""
        room = length // 2 if self.half else length
        second = self.half * (room // len(self.half)) if self.half else ""
        return self.start + self.unit * max(room // len(self.unit), 1) + second + self.end


def slow_texts(pattern: re.Pattern[Any]) -> list[Slow]:
    """Return recipes for texts that could make `pattern` slow."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & _FLAGS)
    shape = _Shape(tree)
    recipes: dict[Slow, None] = {}

    def add(start: str, unit: str, half: str = "") -> None:
        if unit:
            recipes[Slow(start, unit, "\0", half)] = None

    for prefix, units in shape.repeats:
        for unit in units:
            add(prefix, unit)
            if prefix:
                add("", prefix + unit)
                add("", prefix + unit + " ")
                add("", prefix + " ", unit)
    for (_, first), (_, second) in itertools.pairwise(shape.repeats):
        add("", first[0] + second[0])
        add("", first[0], second[0])
    for word in list(shape.words)[:: len(shape.words) // _WORDS + 1]:
        add("", word)
        add("", word + " ")
    return list(recipes)


class _Shape:
    """The texts that a parsed pattern matches: its repeats with the text before each, and its words."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._literal = sorted({chr(value) for op, value in _leaves(tree) if op is sre.LITERAL})
        self._characters = list(dict.fromkeys([*_CHARACTERS, *self._literal]))
        self.repeats: list[tuple[str, list[str]]] = []
        self.words: dict[str, None] = {}
        self._walk(tree, "")
        whole = self._sample(tree)
        self.words[whole] = None
        self.words.pop("", None)

    def _walk(self, tree: Any, prefix: str) -> None:
        run = ""
        for op, value in tree:
            run = run + chr(value) if op is sre.LITERAL else run
            if op is not sre.LITERAL and run:
                self.words[run] = None
                run = ""
            if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                _, most, body = value
                if most >= _LONG and (units := self._units(body)):
                    self.repeats.append((prefix, units))
                self._walk(body, prefix)
            elif op is sre.BRANCH:
                for branch in value[1]:
                    self._walk(branch, prefix)
            elif op is sre.SUBPATTERN:
                self._walk(value[3], prefix)
            elif op is sre.ATOMIC_GROUP or op in (sre.ASSERT, sre.ASSERT_NOT):
                self._walk(value if op is sre.ATOMIC_GROUP else value[1], prefix)
            prefix += self._node(op, value)
        if run:
            self.words[run] = None

    def _units(self, body: Any) -> list[str]:
        if len(body) == 1 and body[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._taken(body)
        return [unit for unit in self._variants(body, 4 * _FEW) if unit]

    def _variants(self, tree: Any, at_most: int = 2 * _FEW) -> list[str]:
        return list(dict.fromkeys([self._sample(tree), *self._branches(tree)]))[:at_most]

    def _branches(self, tree: Any) -> Iterator[str]:
        """Yield texts that a body matches, with each of its branches, and with each character replaced in turn."""
        parts = [self._node(op, value) for op, value in tree]
        for at, (op, value) in enumerate(tree):
            options: Sequence[str] = ()
            if op is sre.BRANCH:
                options = [one for branch in value[1][:_FEW] for one in self._variants(branch)]
            elif op is sre.SUBPATTERN:
                options = list(self._branches(value[3]))[:_FEW]
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                options = [unit * max(value[0], 1) for unit in self._units(value[2])[:_FEW]]
            elif op in (sre.NOT_LITERAL, sre.ANY, sre.IN):
                options = self._taken(tree[at : at + 1])
            for option in options:
                yield "".join((*parts[:at], option, *parts[at + 1 :]))

    def _taken(self, one: Any) -> list[str]:
        test = compiler.compile(one, self._tree.state.flags)
        taken = [character for character in self._characters if test.fullmatch(character)]
        own = [character for character in self._literal if character in taken[_FEW:]]
        return (
            [*taken[:_FEW], *own[:_FEW]]
            or [chr(v) for op, v in _leaves(one) if op is sre.LITERAL][:1]
            or _of_ranges(one)
        )

    def _sample(self, tree: Any) -> str:
        return "".join(self._node(op, value) for op, value in tree)

    def _node(self, op: Any, value: Any) -> str:
        """Return a text that one node matches."""
        if op is sre.LITERAL:
            return chr(value)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return self._sample(value[2]) * min(value[0], 64)
        inner = {sre.BRANCH: lambda: value[1][0], sre.SUBPATTERN: lambda: value[3], sre.ATOMIC_GROUP: lambda: value}
        if op in inner:
            return self._sample(inner[op]())
        if op in (sre.NOT_LITERAL, sre.ANY, sre.IN):
            one = parser.SubPattern(self._tree.state, [(op, value)])
            return next(iter(self._taken(one)), "")
        return ""


def _leaves(tree: Any) -> Iterator[tuple[Any, Any]]:
    for op, value in tree:
        if op is sre.IN:
            yield from ((kind, inner) for kind, inner in value)
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from _leaves(branch)
        elif op is sre.SUBPATTERN:
            yield from _leaves(value[3])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield from _leaves(value[2])
        elif op is sre.ATOMIC_GROUP:
            yield from _leaves(value)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _leaves(value[1])
        else:
            yield op, value


def _of_ranges(one: Any) -> list[str]:
    return [chr(value[0]) for op, value in _leaves(one) if op is sre.RANGE][:_FEW]
