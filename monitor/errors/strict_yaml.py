"""Reads YAML that people write. Aliases may expand to a lot, so values are counted before any is constructed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import yaml

from monitor.errors import ConfigError

_MOST_VALUES: Final = 20_000
_DEEPEST: Final = 50
_TOO_DEEP: Final = f"not valid: it is nested more than {_DEEPEST} levels deep"
_TOO_MANY: Final = f"not valid: it has more than {_MOST_VALUES:,} values, counting what each alias stands for"

_MERGE: Final = "tag:yaml.org,2002:merge"
_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
}
"""The types that YAML recognises from the form of a value, or from a tag (`!!int`)."""


class KeyTwiceError(yaml.constructor.ConstructorError):
    """A key that occurs twice, which is valid YAML."""


def load_yaml(text: str) -> Any:
    """Return the content of YAML as plain values. Raises `YAMLError`, or `ConfigError` if it expands to too much.

    A key that occurs twice is also an error.
    """
    loader = _StrictLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        waiting, found = [(node, 1)], 0
        while waiting:
            one, depth = waiting.pop()
            found += 1
            if depth > _DEEPEST:
                raise ConfigError(_TOO_DEEP)
            if found > _MOST_VALUES:
                raise ConfigError(_TOO_MANY)
            if isinstance(one, yaml.MappingNode):
                waiting += ((part, depth + 1) for pair in one.value for part in pair)
            elif isinstance(one, yaml.SequenceNode):
                waiting += ((part, depth + 1) for part in one.value)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _StrictLoader(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys, and stops if the document is too deep or too long."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._found = self._depth = 0
        self._flat: set[int] = set()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Count what is written. An alias counts as one value here."""
        self._found += 1
        if self._found > _MOST_VALUES:
            raise ConfigError(_TOO_MANY)
        if self._depth == _DEEPEST:
            raise ConfigError(_TOO_DEEP)
        self._depth += 1
        made: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return made

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge in what merge keys (`<<: *base`) name; keys written directly take precedence, and may occur once."""
        if id(node) not in self._flat:
            self._flat.add(id(node))
            self._refuse_twice(node)
            super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value. Raises `YAMLError` with its place, also if it looks like a date or number but is not."""
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, ConfigError):
            raise
        except Exception as error:
            kind = _KINDS.get(node.tag.rpartition(":")[2], "a value of that type")
            problem = f"this cannot be read as {kind}; put it in quotes if it is a text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    def _refuse_twice(self, node: yaml.MappingNode) -> None:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in seen:
                message = f"the key {key!r:.100} occurs twice, first in line {seen[key]}"
                raise KeyTwiceError(None, None, message, key_node.start_mark)
            seen[key] = key_node.start_mark.line + 1


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
