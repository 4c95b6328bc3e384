"""Reads the configuration file: YAML, in which `${NAME}` is replaced by an environment variable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from monitor.config.model import Config
from monitor.config.secrets import VARIABLE, hide, literal_secrets, without_secrets
from monitor.errors import ConfigError
from monitor.errors.explanation import SECRETS, explain, kind_of
from monitor.errors.reading import read_file
from monitor.errors.strict_yaml import KeyTwiceError, load_yaml

_MOST_BYTES: Final = 1024**2  # the limit of a Kubernetes ConfigMap
_MOST_LINES: Final = 25  # of an explanation
_LONGEST_LINE: Final = 1_000  # characters of one of them
_LONGEST_QUOTE = 100  # characters of a line of the file that are shown
_SECRET_IN_LINE = re.compile(rf"\b(?:{'|'.join(sorted(SECRETS, key=len, reverse=True))})[\"']?\s*:")


def load(path: Path | None) -> Config:
    """Read the configuration file at `path`, or return the defaults for None. Raises `ConfigError`."""
    if path is None:
        return parse({})
    return parse_text(read_text(path), str(path), path.parent)


def read_text(path: Path, *, pipe: bool = True) -> str:
    """Return the text of the configuration file, or of a `pipe` if that is allowed. Raises `ConfigError`."""
    try:
        return read_file(path, at_most=_MOST_BYTES, pipe=pipe).decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is not UTF-8 text (byte {error.start + 1})") from None


def as_written(text: str) -> Mapping[str, Any]:
    """Return the content of a valid file, with variables not replaced."""
    data: Mapping[str, Any] = load_yaml(text) or {}
    return data


def parse_text(text: str, place: str = "configuration", folder: Path | None = None) -> Config:
    """Read the configuration from YAML text. Relative paths start at `folder`, the folder of the file.

    Raises `ConfigError`; its lines begin with `place`.
    """
    try:
        data = load_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{place}: {_in_yaml(error, text)}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: must be a mapping of sections, such as `sources:`, not {kind_of(data)}")
    try:
        return parse(_with_rubrics_from(folder, data) if folder is not None else data)
    except ConfigError as error:
        lines = (f"{place}: {line:.{_LONGEST_LINE}}" for line in str(error).splitlines()[:_MOST_LINES])
        raise ConfigError("\n".join(lines)) from None


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
    """Return a warning for each secret written literally in a configuration file that other users can read."""
    if path is None:
        return []
    try:
        return list(literal_secrets(path, load_yaml(read_text(path, pipe=False))))
    except (ConfigError, yaml.YAMLError):
        return []  # `load` reports the error


def _in_yaml(error: yaml.YAMLError, text: str) -> str:
    """Say in one line what is wrong with the YAML and where, and quote the line, but not a value that is a secret."""
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
    problem = re.sub("'[^']*'", "...", problem) if secret and not isinstance(error, KeyTwiceError) else hide(problem)
    if _is_in_text(lines, mark.line):
        line = ""  # part of a text that began above, which may be a secret
    shown = f": `{line[:_LONGEST_QUOTE]}`" if line else ""
    said = problem if isinstance(error, KeyTwiceError) else f"not valid YAML: {problem}"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}{shown}"


def _is_in_text(lines: list[str], number: int) -> bool:
    """Return whether a line has no key, no dash and no bracket, and so continues a text."""
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
