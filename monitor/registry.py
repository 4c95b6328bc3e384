"""Finds the components of a folder, and of installed plug-ins, and reads one from its configuration entry.

The name of a file is the `type` in the configuration: `type: otlp_http` under `sources` is the one component class in
`monitor/sources/otlp_http.py`, imported only when it is requested. A plug-in registers its class under the entry-point
group `rag_monitor.sources` (likewise for evaluators, sinks and samplers), with the `type` as the entry's name. Markdown
rubrics in `monitor/evaluators/rubrics/` are types too; `monitor/evaluators/rubric.py` makes a class of each.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from monitor.errors import ConfigError
from monitor.errors.explanation import explain, nearest, placed
from monitor.stages import Component, Convention, remember_type

C = TypeVar("C", bound=Component)


@functools.cache
def types(folder: str) -> tuple[str, ...]:
    """Return the names of all components in `folder` ("sources", "evaluators", ...), sorted. Imports none of them."""
    package = importlib.import_module(f"monitor.{folder}")
    own = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}
    rubrics = {path.stem for base in package.__path__ for path in Path(base).glob("rubrics/*.md")}
    return tuple(sorted(own | rubrics | set(_plugged(folder))))


def component(folder: str, type_name: str, contract: type[C]) -> type[C]:
    """Return the class of the type `type_name` in `folder`.

    Raises `ConfigError` that lists the known names, or says what is wrong with a plug-in.
    """
    if type_name not in types(folder):
        there_are = f"there are: {', '.join(types(folder))}"
        raise ConfigError(f"there is no {type_name!r} in {folder}{nearest(type_name, types(folder))}; {there_are}")
    package = importlib.import_module(f"monitor.{folder}")
    for base in package.__path__:
        rubric = Path(base) / "rubrics" / f"{type_name}.md"
        if rubric.is_file():
            made: type[C] = importlib.import_module(f"monitor.{folder}.rubric").from_file(rubric)
            return made
    point = _plugged(folder).get(type_name)
    if point is not None:
        loaded = _load(point, folder, contract)
        remember_type(loaded, type_name)
        return loaded
    return _only_class(f"monitor.{folder}.{type_name}", contract)


def read(
    folder: str,
    entry: Mapping[str, Any],
    contract: type[C],
    place: str,
    *,
    also: Sequence[str] = (),
    meant: Callable[[type[C]], Mapping[str, str]] = lambda _chosen: {},
) -> C:
    """Return the component that a configuration entry describes. `place` (`sources[0]`) begins every message.

    `also` are the keys of such an entry that are read elsewhere; `meant` returns hints by unknown key. Raises
    `ConfigError` that names the place, the key, the value and what is allowed.
    """
    options = dict(entry)
    type_name = options.pop("type", None)
    if not isinstance(type_name, str):
        raise ConfigError(f"{place}: needs a `type`, one of: {', '.join(types(folder))}")
    try:
        chosen = component(folder, type_name, contract)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    try:
        from_options = getattr(chosen, "from_options", None)
        made: C = from_options(options) if from_options else chosen.model_validate(options)
    except ValidationError as error:
        keys = ("type", *also)
        raise ConfigError(explain(error, chosen, options, place=place, also=keys, meant=meant(chosen))) from None
    except ConfigError as error:
        raise ConfigError(placed(error, place, chosen.model_fields)) from None
    except Exception as error:
        if type_name not in _plugged(folder):
            raise
        # Without its message, which may repeat a secret option.
        why = f"{type(error).__name__}{_place(error)}"
        raise ConfigError(f"{place}: the plug-in {type_name!r} cannot read its options: {why}") from None
    return made


@functools.cache
def conventions() -> tuple[Convention, ...]:
    """Return all dialects, in order of precedence. Raises `ConfigError` for a plug-in that cannot be used."""
    package = importlib.import_module("monitor.conventions")
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]
    made = [_only_class(f"monitor.conventions.{name}", Convention)() for name in names]
    made += [_dialect(point) for point in _plugged("conventions").values()]
    return tuple(sorted(made, key=lambda one: (one.precedence, one.name)))


@functools.cache
def _installed() -> Any:
    """Return all installed entry points, cached because reading takes milliseconds. Its type changed in Python 3.12."""
    return importlib.metadata.entry_points()


def _plugged(folder: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in _installed().select(group=f"rag_monitor.{folder}")}


T = TypeVar("T")


def _load(point: importlib.metadata.EntryPoint, folder: str, contract: type[T]) -> type[T]:
    """Import the class of a plug-in. Raises `ConfigError` that names the plug-in and what is wrong with it."""
    plug_in = f"the plug-in {point.value!r} for {folder}/{point.name}"
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import runs arbitrary code
        said = f"{type(error).__name__}: {error}{_place(error)}"
        raise ConfigError(f"{plug_in} cannot be imported: {said}") from None
    if not (inspect.isclass(loaded) and issubclass(loaded, contract)):
        raise ConfigError(f"{plug_in} is not a subclass of {contract.__name__}")
    lacking = [f"the method {name}" for name in sorted(getattr(loaded, "__abstractmethods__", ()))]
    options = getattr(loaded, "model_fields", {})  # an evaluator may set class fields from its options
    declared = {
        name: kind
        for name, kind in _declared(contract).items()
        if name not in options and not isinstance(getattr(loaded, name, None), property)
    }
    lacking += [f"the class field {name}" for name in declared if not hasattr(loaded, name)]
    if lacking:
        raise ConfigError(f"{plug_in} does not define {', '.join(lacking)}")
    for name, kind in declared.items():
        if not _is_of(kind, getattr(loaded, name)):
            raise ConfigError(f"{plug_in}: the class field {name} must be of the type {_type_in_words(kind)}")
    return loaded


def _declared(contract: type) -> dict[str, Any]:
    """Return the class fields that one of our contracts declares, with their types."""
    found: dict[str, Any] = {}
    for base in contract.__mro__:
        if base.__module__.startswith("monitor."):
            kinds = vars(base).get("__annotations__", {})
            fields = {name: kind for name, kind in kinds.items() if str(kind).startswith("ClassVar[")}
            holder = type(base.__name__, (), {"__annotations__": fields, "__module__": base.__module__})
            found |= {name: get_args(kind)[0] for name, kind in get_type_hints(holder).items()}
    return found


def _is_of(kind: Any, value: object) -> bool:
    """Return whether a value is of a type, not only convertible to it; a set may be used for a frozen set."""
    try:
        return bool(TypeAdapter(kind).validate_python(value) == value)
    except ValidationError:
        return False


def _type_in_words(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) and not get_args(kind) else str(kind).replace("typing.", "")


def _dialect(point: importlib.metadata.EntryPoint) -> Convention:
    """Make the dialect of a plug-in. Raises `ConfigError`."""
    loaded = _load(point, "conventions", Convention)
    try:
        made = loaded()
    except Exception as error:  # noqa: BLE001 - as above
        said = f"{type(error).__name__}: {error}{_place(error)}"
        raise ConfigError(f"the plug-in {point.value!r} for conventions/{point.name} cannot be made: {said}") from None
    return made


def _place(error: BaseException) -> str:
    """Return the line of a plug-in that raised an error, such as ` (tone.py, line 3)`; empty if none of it did."""
    found, at = "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith(("<frozen importlib", str(Path(importlib.__file__).parent))):
            found = f" ({Path(file).name}, line {at.tb_lineno})"
        at = at.tb_next
    return found


def _only_class(module_name: str, contract: type[T]) -> type[T]:
    """Return the concrete subclass of `contract` that the module defines. Raises `ConfigError` unless there is one."""
    module = importlib.import_module(module_name)
    found = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, contract)
        and not inspect.isabstract(member)
        and member.__module__ == module_name
    ]
    if len(found) != 1:
        raise ConfigError(f"{module_name} must define exactly one {contract.__name__}, but defines {len(found)}")
    return found[0]
