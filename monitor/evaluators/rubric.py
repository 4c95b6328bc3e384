"""An evaluator defined by a prompt and a scale in one Markdown file: those in `rubrics/`, and your own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from monitor.errors import ConfigError
from monitor.errors.explanation import nearest
from monitor.evaluators._rubric_file import RubricFile, read_rubric
from monitor.evaluators._rubric_scoring import ExtensibleRubric, RubricEvaluator
from monitor.stages import Evaluator


class Rubric(RubricEvaluator):
    """A rubric of your own: `type: rubric` and the path of a Markdown file like those in `rubrics/`."""

    file: Path = Field(examples=["rubrics/tone.md"])
    """The Markdown file. A relative path starts at the folder of the configuration file."""

    replaces: bool = False
    """Whether the rubric replaces the built-in evaluator with the same `name` in results, metrics and alerts. Without
    it, using the name of a built-in evaluator is an error."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Evaluator:
        """Make the evaluator that the file describes. Raises `ConfigError` naming the file and the key."""
        given = cls.model_validate(dict(options))
        try:
            made = from_file(given.file)()
        except ConfigError as error:
            raise ConfigError(f"file: {error}") from None
        folder = Path(__file__).parent
        built_in = sorted(path.stem for pattern in ("*.py", "rubrics/*.md") for path in folder.glob(pattern))
        is_built_in = made.name in built_in
        if is_built_in and not given.replaces:
            raise ConfigError(
                f"file: {given.file}: name: {made.name!r} is the name of a built-in evaluator. Give the rubric another"
                " name, or set `replaces: true` beside `file` to use it instead of the built-in one"
            )
        if given.replaces and not is_built_in:
            hint = nearest(made.name, built_in)
            raise ConfigError(f"replaces: {given.file} is named {made.name!r}, which is not a built-in evaluator{hint}")
        return made


def from_file(path: Path) -> type[Evaluator]:
    """Make the evaluator class that a rubric describes; the same class for the same content.

    Raises `ConfigError` naming the file and the key.
    """
    return _class(read_rubric(path))


@functools.cache
def _class(read: RubricFile) -> type[Evaluator]:
    base = ExtensibleRubric if read.may_see else RubricEvaluator

    class Made(base):  # type: ignore[misc, valid-type]
        name: ClassVar[str] = read.name
        version: ClassVar[str] = read.version
        scale = read.scale
        needs = read.needs
        default_defect = read.defect
        measures = read.measures
        quotes: ClassVar[bool] = read.evidence == "claims"
        definition: ClassVar[str] = read.definition
        rubric = read

    Made.__name__ = Made.__qualname__ = "".join(part.capitalize() for part in read.name.split("_"))
    Made.__doc__ = f"The rubric {read.name}."
    return Made
