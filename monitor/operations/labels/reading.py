"""Reads people's labels from files: JSON Lines, CSV, Argilla's and Label Studio's JSON.

The format is recognised from the content, so a file that comes back from a tool needs no option. For each entry without
a valid label there is a message with its place, its value, and what is allowed.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from monitor.errors import ConfigError
from monitor.model.label import LATEST, LabelVerdict
from monitor.storage.history.rows import load

VERDICTS: Final[Mapping[str, LabelVerdict]] = {
    **dict.fromkeys(("good", "pass", "passed", "correct", "ok", "yes", "true", "no defect"), LabelVerdict.GOOD),
    **dict.fromkeys(("defect", "bad", "fail", "failed", "incorrect", "wrong", "no", "false"), LabelVerdict.DEFECT),
    **dict.fromkeys(("cannot tell", "unsure", "not sure", "unclear", "skip"), LabelVerdict.CANNOT_TELL),
}
"""What answers of other tools mean, in lower case, with `_` and `-` as spaces. True and 1 mean good: questions in those
tools ask whether the answer is right."""

QUESTION, COMMENT, LEVEL = "verdict", "comment", "level"
"""The names of our questions in Argilla and Label Studio, used when writing a file and when it comes back."""

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")
"""Beginnings of cells that a spreadsheet takes for formulas. We write an apostrophe before them; reading removes it."""

LONGEST_COMMENT: Final = 4_000
_MILLISECONDS: Final = 1e11  # as seconds: the year 5138
_PROBLEMS_AT_MOST: Final = 1_000
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """What the answers of a tool mean, in addition to `VERDICTS`: lower-case words that mean good, or a defect.

    `below`: numbers below it mean a defect, all others good; None: numbers other than 0 and 1 are not read.
    """

    good: Collection[str] = ()
    defect: Collection[str] = ()
    below: float | None = None

    def read(self, value: Any) -> LabelVerdict:
        """Return what a value means. Raises `ValueError`, whose message continues "verdict "."""
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        word = " ".join(str(value).casefold().replace("_", " ").replace("-", " ").split())
        if word in {each.casefold() for each in self.good}:
            return LabelVerdict.GOOD
        if word in {each.casefold() for each in self.defect}:
            return LabelVerdict.DEFECT
        number = _number(value)
        if number is not None and self.below is not None:
            return LabelVerdict.DEFECT if number < self.below else LabelVerdict.GOOD
        if number in (0, 1):
            return LabelVerdict.GOOD if number else LabelVerdict.DEFECT
        found = VERDICTS.get(word)
        if found is None:
            hint = "set --defect-below" if number is not None else "name it with --good or --defect"
            raise ValueError(f"{value!r:.60} is not known; allowed: good, defect, cannot_tell, or {hint}")
        return found


class Judgement(NamedTuple):
    """What the judge said about a labelled result. Our own files repeat it, because labels outlive the history."""

    app: str
    version: str
    defect: bool
    score: float | None
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLabel:
    """A label from a file or a server: the result it is about, and what a person said about it.

    The result is named by `result_id`; or by `request_id`, `trace_id` or `span_id`, with `evaluator`. `place` is its
    place in the source, for messages. `at` is in seconds since the epoch, None if the source does not say. `draw` and
    `probability` (as in `Label`) and `judgement` are set if the file is one of ours, and empty otherwise.
    """

    place: str
    verdict: LabelVerdict
    result_id: str = ""
    request_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    evaluator: str = ""
    reviewer: str = ""
    comment: str = ""
    level: str | None = None
    at: float | None = None
    draw: str = ""
    probability: float | None = None
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The content of a file: labels, the number of entries without one, and messages about unreadable entries."""

    labels: Sequence[ReadLabel]
    unlabelled: int
    problems: Sequence[str]


def read_labels(content: bytes, words: VerdictWords, *, name: str = "") -> LabelFile:
    """Read a file in any of the formats. Raises `ConfigError` if it is in none of them."""
    text = content.decode("utf-8-sig", "replace")
    found = _Found(words)
    if name.lower().endswith(".csv"):
        _read_csv(text, found)
    elif (whole := _json_array(text)) is not None:
        for number, item in enumerate(whole, 1):
            _read_item(item, f"entry {number}", found)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                _read_line(line, f"line {number}", found)
    return LabelFile(found.labels, found.unlabelled, found.problems)


class _Found:
    def __init__(self, words: VerdictWords) -> None:
        self.words = words
        self.labels: list[ReadLabel] = []
        self.unlabelled = 0
        self.problems: list[str] = []

    def problem(self, place: str, what: str) -> None:
        if len(self.problems) < _PROBLEMS_AT_MOST:
            self.problems.append(f"{place}: {what}")

    def add(self, place: str, value: Any, about: Mapping[str, Any], **said: Any) -> None:
        """Keep a label; `about` names its result."""
        if value is None or value in ("", []):
            self.unlabelled += 1
            return
        try:
            verdict = self.words.read(value)
        except ValueError as error:
            self.problem(place, f"verdict {error}")
            return
        one = {key: _text(about.get(key)) for key in ("request_id", "trace_id", "span_id", "evaluator")}
        result_id = _text(about.get("result_id")) or _text(about.get("id"))
        if not result_id and not (one["evaluator"] and any(one.values())):
            self.problem(place, "names no result: needs `id`, or `request_id` and `evaluator`")
            return
        said["comment"] = _text(said.get("comment"))[:LONGEST_COMMENT]
        said["reviewer"] = _text(said.get("reviewer"))
        draw, probability = _text(about.get("draw")), _number(about.get("probability"))
        if not draw or probability is None or not 0 < probability <= 1:
            draw, probability = "", None
        self.labels.append(
            ReadLabel(
                place=place,
                verdict=verdict,
                result_id=result_id,
                draw=draw,
                probability=probability,
                judgement=_judgement(about),
                request_id=one["request_id"],
                trace_id=one["trace_id"],
                span_id=one["span_id"],
                evaluator=one["evaluator"],
                **said,
            )
        )


def _judgement(row: Mapping[str, Any]) -> Judgement | None:
    app, version = _text(row.get("app")), _text(row.get("version"))
    flag, weight = str(row.get("judged_defect")).casefold(), _number(row.get("weight"))
    if not app or not version or flag not in ("true", "false") or weight is None or weight <= 0:
        return None
    return Judgement(app, version, flag == "true", _number(row.get("score")), weight)


def _read_line(line: str, place: str, found: _Found) -> None:
    try:
        row = load(line.encode())
    except ValueError:
        found.problem(place, "is not JSON")
        return
    _read_item(row, place, found)


def _read_item(item: Any, place: str, found: _Found) -> None:
    if not isinstance(item, dict):
        found.problem(place, f"must be an object, not {type(item).__name__}")
    elif isinstance(item.get("annotations"), list) and isinstance(item.get("data"), dict):
        _read_label_studio(item, place, found)
    elif isinstance(item.get("responses"), dict) and isinstance(item.get("fields"), dict):
        _read_argilla(item, place, found)
    else:
        _read_row(item, place, found)


def _read_row(row: Mapping[str, Any], place: str, found: _Found) -> None:
    """Read one of our rows, of `labels --export` or `export`, or a flat row of another tool."""
    value = row.get("human_label")
    if "defect" in row and value is None:
        flag = row["defect"]
        if isinstance(flag, str) and flag.casefold() in ("true", "false"):
            flag = flag.casefold() == "true"
        if flag is not None and flag != "" and not isinstance(flag, bool):
            found.problem(place, f"`defect` must be true or false, not {flag!r:.40}")
            return
        value = None if flag in (None, "") else ("defect" if flag else "good")
    said = {
        "comment": row.get("comment"),
        "reviewer": row.get("reviewer"),
        "level": _text(row.get("human_level")) or None,
        "at": parse_time(row.get("labelled_at")),
    }
    found.add(place, value, row, **said)


def _read_csv(text: str, found: _Found) -> None:
    csv.field_size_limit(16 * 1024 * 1024)
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            _read_row({key: _uncelled(value) for key, value in row.items() if key}, f"line {rows.line_num}", found)
    except csv.Error as error:
        raise ConfigError(f"line {rows.line_num}: not CSV: {error}") from None


def _read_argilla(record: Mapping[str, Any], place: str, found: _Found) -> None:
    """Read a record written by `dataset.records.to_json()` of Argilla 2: answers by question, then by user."""
    metadata = record.get("metadata")
    about = {"id": record.get("id"), **(metadata if isinstance(metadata, dict) else {})}
    answers = record["responses"]
    given = answers.get(QUESTION)
    others = {name: _by_user(answers.get(name)) for name in (COMMENT, LEVEL)}
    if not isinstance(given, list) or not given:
        found.unlabelled += 1
        return
    for answer in given:
        if not isinstance(answer, dict):
            found.problem(place, f"an answer must be an object, not {type(answer).__name__}")
            continue
        user = _text(answer.get("user_id"))
        said = {"comment": others[COMMENT].get(user), "level": _text(others[LEVEL].get(user)) or None}
        found.add(place, answer.get("value"), about, reviewer=user, at=None, **said)


def _by_user(answers: Any) -> dict[str, Any]:
    if not isinstance(answers, list):
        return {}
    return {_text(one.get("user_id")): one.get("value") for one in answers if isinstance(one, dict)}


def _read_label_studio(task: Mapping[str, Any], place: str, found: _Found) -> None:
    """Read a task exported by Label Studio (JSON): its annotations, each with the answers of one person."""
    done = [one for one in task["annotations"] if isinstance(one, dict) and not one.get("was_cancelled")]
    if not done:
        found.unlabelled += 1
    for annotation in done:
        answers = {}
        results = annotation.get("result")
        for one in results if isinstance(results, list) else ():
            if isinstance(one, dict) and isinstance(one.get("value"), dict):
                value = one["value"]
                answers[_text(one.get("from_name"))] = value.get("choices") or value.get("text") or value.get("rating")
        who = annotation.get("completed_by")
        who = who.get("email") or who.get("id") if isinstance(who, dict) else who
        said = {
            "comment": _first(answers.get(COMMENT)),
            "level": _text(_first(answers.get(LEVEL))) or None,
            "reviewer": who,
            "at": parse_time(annotation.get("updated_at") or annotation.get("created_at")),
        }
        found.add(place, answers.get(QUESTION), task["data"], **said)


def _uncelled(value: Any) -> Any:
    return value[1:] if isinstance(value, str) and value.startswith("'") and value[1:].startswith(FORMULA) else value


def _json_array(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        found = load(text.encode())
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}") from None
    return found if isinstance(found, list) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _number(value: Any) -> float | None:
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except OverflowError:  # a whole number with hundreds of digits
        return None
    return number if math.isfinite(number) else None


def parse_time(value: Any) -> float | None:
    """Read a time: ISO 8601, UTC unless it says otherwise, or seconds or milliseconds since the epoch.

    None for anything else, and for times before 1970 or after the year 9999.
    """
    number = _number(value)
    if number is not None:
        at = number / 1000 if number > _MILLISECONDS else number
    else:
        try:
            stamp = datetime.fromisoformat(_text(value))
            at = (stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return at if 0 <= at < LATEST else None
