"""Reads a rubric, a Markdown file: front matter (the evaluator's definition) and body (the judge's instructions)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import yaml
from pydantic import Field, StringConstraints, ValidationError

from monitor.errors import ConfigError
from monitor.errors.explanation import explain, nearest
from monitor.errors.reading import read_file
from monitor.errors.strict_yaml import KeyTwiceError, load_yaml
from monitor.evaluators._rubric_examples import AT_MOST, RubricExample
from monitor.evaluators._rubric_parts import COMPUTED, MATERIALS, Evidenced, Part, Scored
from monitor.model.outcome import DefectRule, Level, Scale
from monitor.stages import Component, Measures, Needs

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

_MOST_BYTES: Final = 1024**2

# Part of every rubric's version: the version of the frame around it (the form of the answer and of the material).
_FRAME = "3"
_CHECKED_AGAINST: Final = {
    "claims": ("context", "response"),
    "observations": (),
    "intents": ("context", "query"),
    "documents": ("context",),
}
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?\r?\n)---[ \t]*\r?\n(.*)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\{\s{0,9}+(.{0,80}?)\s{0,9}\}\}")  # bounded, so that no text takes long to search


class Anchor(Component):
    """One step of a scale."""

    value: Number
    """The lowest score of the step."""

    level: Name
    """Its name, a value of the metric label `level`."""

    means: str = Field(min_length=1)
    """What a response at this step is like: a sentence for the judge."""


class ScaleEntry(Component):
    """The scale of the scores."""

    lowest: Number
    """The lowest score."""

    highest: Number
    """The highest score."""

    better: Literal["higher", "lower"]
    """Which end is good."""

    whole: bool = True
    """Whether only whole numbers occur."""

    anchors: tuple[Anchor, ...] = Field(min_length=2)
    """The steps in ascending order, the first at `lowest`."""


class DefectEntry(Component):
    """The scores that count as a defect unless the configuration says otherwise. Set exactly one of the three."""

    below: Number | None = None
    """A score below this. Only if higher is better."""

    at_least: Number | Name | None = None
    """This score or more, or this level or a worse one. Only if lower is better."""

    label: Name | None = None
    """Exactly this level."""


class Front(Component):
    """The front matter of a rubric."""

    name: Name
    """Its name in metrics, alerts and configuration: lower-case letters, digits and underscores."""

    definition: str = Field(min_length=1)
    """What it measures, and the source of that definition."""

    measures: Measures | None = None
    """Its subject: `grounding` (is the response based on the documents), `answering` (does it answer the question),
    `retrieval` (did the search find what is needed), `harm` (harm and attacks), `form` (the form of the response)."""

    scale: ScaleEntry
    """The scale of its scores."""

    needs: tuple[Needs, ...]
    """The parts that a case must have to be scored: `context`, `history`, `reference`, `response`. A rubric that shows
    the response also needs it, unless `trivial_score` is `judge`."""

    defect: DefectEntry
    """The scores that count as a defect."""

    requires: tuple[Part, ...] = ()
    """Placeholders that the instructions must contain, beyond those that `needs`, `evidence` and `score` require.
    If an edit drops one, the monitor refuses to start."""

    may_see: Mapping[Part, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Parts of a case that the judge sees only if the evaluator's option `sees` lists them, each with its instructions.
    If a case does not have a part, the part is left out together with its instructions."""

    evidence: Evidenced = "observations"
    """What the judge writes before the score: `claims` (quotes of the response, each supported, contradicted or absent
    in the context), `intents` (the points of the question, each with the documents that answer it), `documents` (each
    relevant or not), or free `observations`."""

    score: Scored = "judged"
    """Where the score comes from: the judge (`judged`), or a count of its evidence, mapped to a scale on which higher
    is better: the share of claims that are supported (`supported_share`), the share of documents that are relevant
    (`relevant_share`), or the square of the share of intents that are answered (`answered_intents`). A case with
    nothing to count is skipped."""

    trivial_score: Number | Literal["skip", "judge"] | None = None
    """The score of a response without content (empty, a colon, "Thought process:"), given without asking the judge.
    Default: the bad end of the scale. `skip`: the case is skipped. `judge`: the judge is asked anyway, for a rubric
    that examines the request or the documents and only shows the response."""

    examples: tuple[RubricExample, ...] = Field(default=(), max_length=AT_MOST)
    """Answers that people judged, shown to the judge as data with the case. Written by `rag-monitor examples`."""

    nothing_retrieved: Number | None = None
    """The score if the retrieval found nothing, given without asking the judge, for a rubric that examines the
    retrieval. Default: the judge is asked, and its prompt says that nothing was found; with `evidence: intents`, the
    bad end of the scale; with `evidence: documents`, the case is skipped."""


@dataclass(frozen=True, slots=True)
class RubricFile:
    """A valid rubric. `materials` are the parts of a case that the judge sees, in order.

    `may_see` are further parts that it can be shown, each with its instructions. `trivial_score` is None if no score is
    given to a response without content by rule, `nothing_retrieved` if none is given to an empty retrieval by rule.
    `source` is the text of the whole file.
    """

    name: str
    version: str
    definition: str
    measures: Measures | None
    scale: Scale
    needs: frozenset[Needs]
    defect: DefectRule
    evidence: Evidenced
    score: Scored
    trivial_score: float | None
    nothing_retrieved: float | None
    materials: tuple[str, ...]
    may_see: Mapping[Part, str] = field(hash=False)
    instructions: str
    examples: tuple[RubricExample, ...] = field(hash=False)
    source: str


def read_rubric(path: Path) -> RubricFile:
    """Read the rubric in a file. Raises `ConfigError` with the file, the key and the allowed values."""
    try:
        raw = read_file(path, at_most=_MOST_BYTES)
        found = _FRONT.fullmatch(raw.decode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8") from None
    if found is None:
        raise ConfigError(
            f"{path}: must begin with a front matter between two lines `---`, followed by the instructions"
        )
    front = _front(found[1], path)
    scale = _scale(front.scale, path)
    materials = _materials(found[2], front, path)
    return RubricFile(
        name=front.name,
        version=hashlib.blake2b(_FRAME.encode() + b"\n" + raw, digest_size=6).hexdigest(),
        definition=front.definition,
        measures=front.measures,
        scale=scale,
        needs=_needs(front, materials),
        defect=_defect(front.defect, scale, path),
        evidence=front.evidence,
        score=_score(front, path),
        trivial_score=_trivial_score(front, scale, materials, path),
        nothing_retrieved=_nothing_retrieved(front, scale, path),
        materials=materials,
        may_see=_may_see(front, materials, path),
        instructions=_instructions(found[2], front.scale),
        examples=front.examples,
        source=raw.decode(),
    )


def _front(text: str, path: Path) -> Front:
    try:
        loaded = load_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: the front matter is {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2})" if mark is not None else ""
        what = error.problem if isinstance(error, KeyTwiceError) else "the front matter is not YAML"
        raise ConfigError(f"{path}: {what}{where}") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: the front matter must be keys and values: {', '.join(Front.model_fields)}")
    try:
        return Front.model_validate(loaded)
    except ValidationError as error:
        raise ConfigError(explain(error, Front, loaded, file=str(path))) from None


def _scale(entry: ScaleEntry, path: Path) -> Scale:
    levels = tuple(Level(anchor.level, anchor.value) for anchor in entry.anchors)
    try:
        scale = Scale(entry.lowest, entry.highest, entry.better, levels, whole=entry.whole)
    except ValueError as error:
        raise ConfigError(f"{path}: scale: {error}") from None
    outside = [level.name for level in levels if not scale.holds(level.start)]
    if outside:
        raise ConfigError(f"{path}: scale.anchors: {', '.join(outside)} is not on the scale")
    if len({level.name for level in levels}) != len(levels):
        raise ConfigError(f"{path}: scale.anchors: two anchors have the same level")
    if entry.whole and (not scale.holds(entry.lowest) or not scale.holds(entry.highest)):
        raise ConfigError(f"{path}: scale: lowest and highest must be whole numbers, or `whole: false`")
    return scale


def _defect(entry: DefectEntry, scale: Scale, path: Path) -> DefectRule:
    names = [level.name for level in scale.levels]
    given = [key for key in ("below", "at_least", "label") if getattr(entry, key) is not None]
    if len(given) != 1:
        raise ConfigError(f"{path}: defect: needs one of below, at_least, label; it has {', '.join(given) or 'none'}")
    if entry.label is not None:
        if entry.label not in names:
            raise ConfigError(f"{path}: defect.label: there is no level {entry.label!r}; there are: {', '.join(names)}")
        return DefectRule("label", label=entry.label)
    kind: Literal["below", "at_least"] = "below" if entry.below is not None else "at_least"
    if (kind == "below") != (scale.better == "higher"):
        raise ConfigError(
            f"{path}: defect.{kind}: on a scale where {scale.better} is better this would be the good end"
        )
    threshold = entry.below if entry.below is not None else entry.at_least
    if isinstance(threshold, str):
        if threshold not in names:
            raise ConfigError(
                f"{path}: defect.at_least: there is no level {threshold!r}; there are: {', '.join(names)}"
            )
        threshold = scale.start_of(threshold)
    if threshold is None or not scale.lowest <= threshold <= scale.highest:
        raise ConfigError(f"{path}: defect.{kind}: {threshold} lies outside {scale.lowest:g} to {scale.highest:g}")
    return DefectRule(kind, threshold)


def _score(front: Front, path: Path) -> Scored:
    computed = COMPUTED.get(front.score)
    if computed is None:
        return front.score
    if front.evidence != computed.evidence:
        raise ConfigError(f"{path}: score: {front.score} is counted from `evidence: {computed.evidence}`")
    if front.scale.better != "higher":
        raise ConfigError(f"{path}: score: {front.score} needs scale.better `higher`")
    if front.scale.whole:
        raise ConfigError(f"{path}: score: {front.score} is a share, so the scale needs `whole: false`")
    return front.score


def _needs(front: Front, materials: tuple[str, ...]) -> frozenset[Needs]:
    implied: set[Needs] = {"response"} if "response" in materials and front.trivial_score != "judge" else set()
    return frozenset(front.needs) | implied


def _trivial_score(front: Front, scale: Scale, materials: tuple[str, ...], path: Path) -> float | None:
    given = front.trivial_score
    if given is not None and "response" not in materials:
        raise ConfigError(f"{path}: trivial_score: the instructions show no response; remove it")
    if given == "judge" and "response" in front.needs:
        raise ConfigError(f"{path}: trivial_score: `judge` is for a rubric that does not need the response")
    if given in ("skip", "judge"):
        return None
    if given is None:
        return _bad_end(scale)
    if isinstance(given, str) or not scale.holds(given):
        raise ConfigError(f"{path}: trivial_score: {given} is not on the scale")
    return given


def _nothing_retrieved(front: Front, scale: Scale, path: Path) -> float | None:
    given = front.nothing_retrieved
    if given is None:
        return _bad_end(scale) if front.evidence == "intents" else None
    if "context" not in front.needs:
        raise ConfigError(f"{path}: nothing_retrieved: is for a rubric with `needs: [context]`")
    if not scale.holds(given):
        raise ConfigError(f"{path}: nothing_retrieved: {given:g} is not on the scale")
    return given


def _bad_end(scale: Scale) -> float:
    return scale.lowest if scale.better == "higher" else scale.highest


def _materials(body: str, front: Front, path: Path) -> tuple[str, ...]:
    """Return the parts that the body shows. It must show all parts it needs, and the scale if the judge scores."""
    used = set(_PLACEHOLDER.findall(body))
    allowed = {*MATERIALS, "scale"}
    unknown = sorted(used - allowed)
    if unknown:
        hint = nearest(unknown[0], sorted(allowed))
        raise ConfigError(f"{path}: unknown placeholder {_braced(unknown)}{hint}; allowed: {_braced(sorted(allowed))}")
    judged = front.score == "judged"
    missing = sorted({*front.needs, *front.requires, *(("scale",) if judged else ())} - used)
    if missing:
        single = f" ({{{missing[0]}}} needs two braces)" if f"{{{missing[0]}}}" in body else ""
        raise ConfigError(f"{path}: the instructions lack the placeholder {_braced(missing)}{single}")
    if not judged and "scale" in used:
        raise ConfigError(f"{path}: {_braced(['scale'])} must not be used: the score is computed, the judge gives none")
    against = sorted(set(_CHECKED_AGAINST[front.evidence]) - used)
    if against:
        raise ConfigError(f"{path}: evidence: {front.evidence} need {_braced(against)}, which is missing")
    if not used - {"scale"}:
        raise ConfigError(f"{path}: the instructions show nothing of a case; allowed: {_braced(sorted(allowed))}")
    return tuple(name for name in MATERIALS if name in used)


def _may_see(front: Front, materials: tuple[str, ...], path: Path) -> dict[Part, str]:
    """Return the further parts that the judge can be shown, with their instructions."""
    always = [name for name in front.may_see if name in materials]
    if always:
        raise ConfigError(f"{path}: may_see: the judge always sees {_braced(always)}")
    written = {}
    for name, text in front.may_see.items():
        if _PLACEHOLDER.findall(text) != [name]:
            raise ConfigError(f"{path}: may_see.{name}: must contain {_braced([name])}, once, and no other placeholder")
        written[name] = _PLACEHOLDER.sub(lambda m: f"the data block `{m[1]}`", text.strip())
    return written


def _instructions(body: str, scale: ScaleEntry) -> str:
    kind = "whole numbers" if scale.whole else "any number"
    lines = [f"Scores: {kind} from {scale.lowest:g} to {scale.highest:g}."]
    ends = [anchor.value - 1 for anchor in scale.anchors[1:]] + [scale.highest]
    for anchor, end in reversed(list(zip(scale.anchors, ends, strict=True))):
        span = f"{anchor.value:g} to {end:g}" if scale.whole and end > anchor.value else f"{anchor.value:g}"
        lines.append(f"- {span}: {anchor.means}")
    shown = "\n".join(lines)
    return _PLACEHOLDER.sub(lambda m: shown if m[1] == "scale" else f"the data block `{m[1]}`", body.strip())


def _braced(names: Sequence[str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)
