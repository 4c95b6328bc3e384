"""Reads the configuration file: YAML, in which `${NAME}` is replaced by an environment variable."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from monitor.config.model import Config
from monitor.config.secrets import VARIABLE, hide, literal_secrets, without_secrets
from monitor.errors import ConfigError
from monitor.errors.explanation import SECRETS, explain, kind_of

_LONGEST_LINE = 100  # characters of a line that are shown
_SECRET_IN_LINE = re.compile(rf"\b(?:{'|'.join(sorted(SECRETS, key=len, reverse=True))})[\"']?\s*:")
_MOST_VALUES = 100_000
_DEEPEST = 50


def load(path: Path | None) -> Config:
    """Read the configuration file at `path`; None: all defaults. Raises `ConfigError`."""
    if path is None:
        return parse({})
    return parse_text(read_text(path), str(path), path.parent)


def read_text(path: Path) -> str:
    """Return the text of the configuration file. Raises `ConfigError`."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def as_written(text: str) -> Mapping[str, Any]:
    """Return what stands in the text of a valid file, with its variables."""
    data: Mapping[str, Any] = _loaded(text) or {}
    return data


def parse_text(text: str, place: str = "configuration", folder: Path | None = None) -> Config:
    """Read the configuration from YAML text. Relative paths start at `folder`, that of the file.

    Raises `ConfigError`; its lines begin with `place`.
    """
    try:
        data = _loaded(text)
    except _TooMuchError as error:
        raise ConfigError(f"{place}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{place}: {_in_yaml(error, text)}") from None
    except RecursionError:
        raise ConfigError(f"{place}: not valid YAML: it is nested too deeply") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: must be a mapping of sections, such as `sources:`, not {kind_of(data)}")
    try:
        return parse(_with_rubrics_from(folder, data) if folder is not None else data)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{place}: {line}" for line in str(error).splitlines())) from None


def parse(data: Mapping[str, Any]) -> Config:
    """Read the configuration from a plain mapping. Raises `ConfigError`."""
    try:
        resolved = _with_environment(data, "")
        return Config.model_validate(resolved)
    except ValidationError as error:
        raise ConfigError(without_secrets(explain(error, Config, resolved), data)) from None
    except ConfigError as error:
        raise ConfigError(without_secrets(str(error), data)) from None


def readable_secrets(path: Path | None) -> list[str]:
    """Return a warning for each secret that is written out in a configuration file that other users can read."""
    if path is None:
        return []
    try:
        return list(literal_secrets(path, _loaded(path.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, _TooMuchError):
        return []  # it has been read already, or it is refused for that


def _loaded(text: str) -> Any:
    """Read YAML. Aliases may stand for a lot: they are counted as often as they occur, before anything is made."""
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
                raise _TooMuchError(f"not valid: it is nested more than {_DEEPEST} levels deep")
            if found > _MOST_VALUES:
                raise _TooMuchError(
                    f"not valid: it holds more than {_MOST_VALUES:,} values, each alias with all it stands for"
                )
            if isinstance(one, yaml.MappingNode):
                waiting += ((part, depth + 1) for pair in one.value for part in pair)
            elif isinstance(one, yaml.SequenceNode):
                waiting += ((part, depth + 1) for part in one.value)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _TooMuchError(Exception):
    """YAML that holds more than any configuration needs."""


def _in_yaml(error: yaml.YAMLError, text: str) -> str:
    """Say in one line what is wrong with YAML, where, and how the line reads; not its value, where that is a secret."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(str(getattr(error, "problem", "") or "it cannot be read").split())
    if "'\\t'" in problem:
        problem = "a tab; YAML is indented with spaces"
    problem = problem.replace("'<stream end>'", "the end of the file").replace("'<block end>'", "the end of the block")
    if mark is None:
        return f"not valid YAML: {problem}"
    lines = text.splitlines()
    line = lines[mark.line].strip() if mark.line < len(lines) else ""
    secret = _SECRET_IN_LINE.search(line)
    line = hide(f"{line[: secret.end()]} ..." if secret else line)
    problem = re.sub("'[^']*'", "...", problem) if secret and not isinstance(error, _TwiceError) else hide(problem)
    if _is_in_text(lines, mark.line):
        line = ""  # of a text that began above, which may be a secret
    shown = f": `{line[:_LONGEST_LINE]}`" if line else ""
    said = problem if isinstance(error, _TwiceError) else f"not valid YAML: {problem}"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}{shown}"


def _is_in_text(lines: list[str], number: int) -> bool:
    """Tell whether a line has no key, no dash and no bracket: it goes on with a text."""
    line = lines[number].strip() if number < len(lines) else ""
    return bool(line) and not re.search(r":(\s|$)|^[-?\[{#]|^[\w.-]+\s*$", line)


def _with_rubrics_from(folder: Path, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make rubric files, API key files and canary cases relative to `folder`."""
    canary = data.get("canary")
    if isinstance(canary, dict) and isinstance(canary.get("cases"), str):
        data = {**data, "canary": {**canary, "cases": str(folder / canary["cases"])}}
    data = _with_keys_from(folder, data)
    entries = data.get("evaluators")
    if not isinstance(entries, list):
        return data
    moved = [
        {**entry, "file": str(folder / entry["file"])}
        if isinstance(entry, dict) and isinstance(entry.get("file"), str)
        else entry
        for entry in entries
    ]
    return {**data, "evaluators": moved}


def _with_keys_from(folder: Path, data: Mapping[str, Any]) -> Mapping[str, Any]:
    def moved(judge: Any) -> Any:
        named = judge.get("api_key_file") if isinstance(judge, dict) else None
        if not isinstance(named, str) or not named or named.startswith("${"):  # a variable names a whole path
            return judge
        return {**judge, "api_key_file": str(folder / named)}

    found = {"judge": moved(data["judge"])} if "judge" in data else {}
    if isinstance(data.get("judges"), dict):
        found["judges"] = {name: moved(judge) for name, judge in data["judges"].items()}
    return {**data, **found}


def _with_environment(value: Any, place: str) -> Any:
    """Replace every `${NAME}`."""
    if isinstance(value, Mapping):
        return {key: _with_environment(one, f"{place}.{key}" if place else str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_environment(one, f"{place}[{index}]") for index, one in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"{place}: the environment variable {match[1]} is not set")
        return found

    return VARIABLE.sub(replace, value)


class _TwiceError(yaml.constructor.ConstructorError):
    """A key that occurs twice, which is valid YAML."""


class _StrictLoader(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
        if key in seen:
            message = f"the key {key!r} occurs twice, first in line {seen[key]}"
            raise _TwiceError(None, None, message, key_node.start_mark)
        seen[key] = key_node.start_mark.line + 1
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
