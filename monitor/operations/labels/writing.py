"""Writes people's labels as files: JSON Lines, CSV, Argilla's and Label Studio's JSON.

Files written here can be read by `reading` without loss; Argilla and Label Studio show the texts of a case to people.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from monitor.model.label import Label
from monitor.operations.labels.reading import COMMENT, FORMULA, LEVEL, QUESTION
from monitor.storage.history.rows import dump


class LabelFormat(StrEnum):
    """The formats of files."""

    JSONL = "jsonl"
    CSV = "csv"
    ARGILLA = "argilla"
    LABEL_STUDIO = "label-studio"


def write_labels(form: LabelFormat, labels: Iterable[Label], cases: Mapping[str, Mapping[str, Any]]) -> str:
    """Write labels, and the cases that have none yet, in a format.

    `cases` are rows like those of `rag-monitor export`, by the id of the result, for results whose texts are kept:
    files for Argilla and Label Studio contain these texts, and leave out labels without texts. A case without a label
    becomes a task.
    """
    by_result: dict[str, list[Label]] = {}
    for one in labels:
        by_result.setdefault(one.result_id, []).append(one)
    ids = [*by_result, *(one for one in cases if one not in by_result)]
    match form:
        case LabelFormat.ARGILLA:
            return _as_json(_argilla(cases[one], by_result.get(one, ())) for one in ids if one in cases)
        case LabelFormat.LABEL_STUDIO:
            return _as_json(_label_studio(cases[one], by_result.get(one, ())) for one in ids if one in cases)
        case LabelFormat.CSV:
            return _as_csv(row for one in ids for row in _rows(by_result.get(one, ()), cases.get(one)))
        case _:
            rows = (row for one in ids for row in _rows(by_result.get(one, ()), cases.get(one)))
            return "".join(dump(row).decode() + "\n" for row in rows)


_OF_CASE: Final = ("request", "retrieved_context", "response")
_ABOUT: Final = ("id", "request_id", "app", "evaluator", "version", "draw", "probability")
_COLUMNS: Final = (
    *(
        "id",
        "request_id",
        "app",
        "evaluator",
        "version",
        "human_label",
        "human_level",
        "comment",
        "reviewer",
        "labelled_at",
    ),
    *("draw", "probability", "judged_defect", "score", "weight", "question", "sources", "answer"),
)


def label_row(label: Label) -> dict[str, Any]:
    """Return a label as a row that `read_labels` can read without loss."""
    return {
        "id": label.result_id,
        "request_id": label.request_id,
        "app": label.app,
        "evaluator": label.evaluator,
        "version": label.version,
        "human_label": label.verdict.value,
        "human_level": label.level,
        "comment": label.comment,
        "reviewer": label.reviewer,
        "labelled_at": iso(label.at),
        "draw": label.draw.value,
        "probability": label.probability,
        "judged_defect": label.judged_defect,
        "score": label.score,
        "weight": label.weight,
    }


def _rows(labels: Sequence[Label], case: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    texts = {key: case[key] for key in _OF_CASE} if case is not None else {}
    for one in labels:
        yield label_row(one) | texts
    if not labels and case is not None:
        yield {key: case.get(key) for key in _ABOUT} | {"human_label": None} | texts


def _texts(case: Mapping[str, Any]) -> dict[str, str]:
    sources = "\n\n".join(f"[{n}] {one['content']}" for n, one in enumerate(case["retrieved_context"], 1))
    return {"question": case["request"]["query"], "sources": sources, "answer": case["response"]}


def _argilla(case: Mapping[str, Any], labels: Sequence[Label]) -> dict[str, Any]:
    metadata = {key: case[key] for key in _ABOUT[1:] if case.get(key) is not None}
    responses: dict[str, list[dict[str, Any]]] = {}
    for one in labels:
        said = {QUESTION: one.verdict.value, COMMENT: one.comment, LEVEL: one.level}
        for name, value in said.items():
            if value:
                responses.setdefault(name, []).append({"value": value, "user_id": one.reviewer})
    texts = {key: value or " " for key, value in _texts(case).items()}  # Argilla accepts no empty field
    return {"id": case["id"], "fields": texts, "metadata": metadata, "responses": responses}


def _label_studio(case: Mapping[str, Any], labels: Sequence[Label]) -> dict[str, Any]:
    about = {key: case[key] for key in _ABOUT if case.get(key) is not None}
    annotations = []
    for one in labels:
        result = [_choice(QUESTION, "choices", one.verdict.value)]
        result += [_choice(COMMENT, "text", one.comment)] if one.comment else []
        result += [_choice(LEVEL, "choices", one.level)] if one.level else []
        at = iso(one.at)
        annotations.append(
            {"result": result, "completed_by": {"email": one.reviewer}, "created_at": at, "updated_at": at}
        )
    return {"data": about | _texts(case), "annotations": annotations}


def _choice(name: str, kind: str, value: str) -> dict[str, Any]:
    shape = "choices" if kind == "choices" else "textarea"
    return {"from_name": name, "to_name": "answer", "type": shape, "value": {kind: [value]}}


def _as_json(items: Iterable[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(dump(one).decode() for one in items) + "\n]\n"


def _as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    out = io.StringIO(newline="")
    table = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        cells = {key: row[key] for key in _COLUMNS if row.get(key) is not None}
        cells |= _texts(row) if "request" in row else {}
        table.writerow({key: _celled(value) for key, value in cells.items()})
    return out.getvalue()


def _celled(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, with an apostrophe before it if it begins like one."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def iso(at: float) -> str:
    """Write a time in seconds since the epoch as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
