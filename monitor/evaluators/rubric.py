"""An evaluator defined by a prompt and a scale in one Markdown file: those in `rubrics/`, and your own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from monitor.evaluators._rubric_file import RubricFile, read_rubric
from monitor.evaluators._rubric_scoring import RubricEvaluator
from monitor.stages import Evaluator


class Rubric(RubricEvaluator):
    """A rubric of your own: `type: rubric` and the path of a Markdown file like those in `rubrics/`."""

    file: Path = Field(examples=["rubrics/tone.md"])
    """The Markdown file. A relative path starts at the working directory."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Evaluator:
        """Make the evaluator that the file describes. Raises `ConfigError` naming the file and the key."""
        return from_file(cls.model_validate(dict(options)).file)()


def from_file(path: Path) -> type[Evaluator]:
    """Make the evaluator class that a rubric describes; the same class for the same content.

    Raises `ConfigError` naming the file and the key.
    """
    return _class(read_rubric(path))


@functools.cache
def _class(read: RubricFile) -> type[Evaluator]:
    class Made(RubricEvaluator):
        name: ClassVar[str] = read.name
        version: ClassVar[str] = read.version
        scale = read.scale
        needs = read.needs
        default_defect = read.defect
        measures = read.measures
        definition: ClassVar[str] = read.definition
        rubric = read

    Made.__name__ = Made.__qualname__ = "".join(part.capitalize() for part in read.name.split("_"))
    Made.__doc__ = f"The rubric {read.name}."
    return Made
