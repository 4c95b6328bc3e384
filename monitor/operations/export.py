"""Exports scored answers from the history as a data set: each answer once, personal data masked, room for a label."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from monitor.config.sections import StorageSettings
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Traffic, trace_of
from monitor.model.external import ScoreSource
from monitor.model.outcome import RateScope
from monitor.operations.storage_folder import existing_history
from monitor.privacy import audit
from monitor.privacy.detectors import pieces
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader, Search
from monitor.telemetry.events import Event

MAX_RESULTS: Final = 100_000
"""How many results are read, newest first: their texts are kept in memory."""

_NO_VERDICT: Final = (RateScope.NON_PRODUCTION, RateScope.RANKING)
"""Scopes of results that say nothing of an answer of the service: tests, and scores that only put answers in order."""

_CHOSEN: Final = (RateScope.BACKFILL, RateScope.USER_DISLIKED)
"""Scopes of answers that somebody chose: they are in no rate, so no sample of all answers measures a judge by them."""

_MARK: Final = re.compile(r"\[REDACTED_\w+\]")
_KEY_END: Final = re.compile(r"-----END [A-Z ]{0,60}PRIVATE KEY-----")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Which results to export: `since` in wall-clock seconds, None for any app or evaluator.

    `defects_only` leaves out good answers. `sample` is how many rows to draw by a hash of their ids; None: all.
    `labels` has people's verdicts by the id of the result; with it, only results on which people agree are exported,
    each with its label, and repeats are not left out.
    """

    defects_only: bool = True
    sample: int | None = None
    since: float = 0.0
    app: str | None = None
    evaluator: str | None = None
    labels: Mapping[str, bool] | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """The rows, newest first, and their numbers.

    `results` counts the results that match the filter, `without_texts` those of them without texts. `masked` counts
    pieces of personal data. `truncated`: there were more than `MAX_RESULTS`.
    """

    rows: list[dict[str, Any]]
    results: int
    without_texts: int
    masked: int
    truncated: bool


def collect(storage: StorageSettings, wanted: ExportFilter, *, redact: bool = True) -> Export:
    """Collect the cases of scored results, and record in the audit log that their texts were exported.

    `redact`: mask personal data and secrets in every text. Raises `ConfigError` if there is no history, or if its
    results have no texts.
    """
    path = existing_history(storage.path / files.HISTORY)
    search = Search(
        apps=(wanted.app,) if wanted.app is not None else (),
        evaluator=wanted.evaluator,
        since=wanted.since,
        outcome="defect" if wanted.defects_only else "score",
        order="newest",
        limit=MAX_RESULTS,
    )
    history = HistoryReader(path)
    try:
        found = history.search(search)
    except MonitorError as error:
        raise ConfigError(str(error)) from None
    left_out = _NO_VERDICT if wanted.defects_only or wanted.sample is None else (*_NO_VERDICT, *_CHOSEN)
    results = [row for row in found if row["scope"] not in left_out and row["traffic"] == Traffic.PRODUCTION]
    if wanted.labels is not None:
        results = [row for row in results if row["id"] in wanted.labels]
    complete = [row for row in (_with_texts(row, history) for row in results) if "response" in row]
    if results and not complete:
        raise ConfigError(
            "storage.texts: must be `all` for an export; these results were stored without texts. The setting applies"
            " only to new results"
        )
    chosen = list(_once(complete)) if wanted.labels is None else [(row, 1) for row in complete]
    if wanted.sample is not None:
        chosen = sorted(chosen, key=lambda one: _draw(one[0]["id"]))[: wanted.sample]
    labels = wanted.labels or {}
    rows, masked = _exported(history, storage, [(row, seen, labels.get(row["id"])) for row, seen in chosen], redact)
    return Export(
        rows,
        results=len(results),
        without_texts=len(results) - len(complete),
        masked=masked,
        truncated=len(found) == MAX_RESULTS,
    )


def collect_results(storage: StorageSettings, ids: Collection[str], *, redact: bool = True) -> list[dict[str, Any]]:
    """Collect the cases of these results, as `collect` does, without those whose texts are not kept.

    Raises `MonitorError` if the history cannot be read.
    """
    history = HistoryReader(storage.path / files.HISTORY)
    complete = [row for row in (_with_texts(row, history) for row in history.by_ids(ids)) if "response" in row]
    return _exported(history, storage, [(row, 1, None) for row in complete], redact)[0]


def _exported(
    history: HistoryReader,
    storage: StorageSettings,
    chosen: Sequence[tuple[dict[str, Any], int, bool | None]],
    redact: bool,
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of results, with `seen` and their labels, and the number of masked pieces."""
    short = {row["id"] for row, _, _ in chosen if "retrieved_context" not in row}  # a search shortens long rows
    whole = {row["id"]: row for row in history.by_ids(short)}
    masks = _Masks() if redact else None
    rows = [
        _row(whole.get(row["id"], row), seen, masks) | {"defect": label}
        for row, seen, label in chosen
        if row["id"] not in short or "retrieved_context" in whole.get(row["id"], {})
    ]
    if rows:
        requests = sorted({row["request_id"] for row in rows})
        audit.record(storage.path, Event.TEXTS_EXPORTED, by="export", redacted=redact, requests=requests)
    return rows, masks.number if masks else 0


def _with_texts(row: dict[str, Any], history: HistoryReader) -> dict[str, Any]:
    """Add the texts of the case to an external score: they are stored with the monitor's own results."""
    if "response" in row or row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN:
        return row
    with suppress(MonitorError):
        ours = next((one for one in history.by_trace(row["request_id"]) if "response" in one), {})
        return row | {key: ours[key] for key in ("request", "retrieved_context", "response", "user_id") if key in ours}
    return row


def normalised(text: str) -> str:
    """Return one form for all texts that differ only in case, white space or the encoding of a character."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def mask(text: str) -> tuple[str, int]:
    """Replace findings of `pii_leak` by marks such as `[REDACTED_PHONE_NUMBER]`; count the replacements."""
    number = 0
    while found := [one for one in pieces(text) if not _MARK.fullmatch(text, one.start, one.end)]:
        number += len(found)  # then search again: of two overlapping pieces, only one is found
        for piece in sorted(found, key=lambda piece: piece.start, reverse=True):
            kind = "".join(one if one.isalnum() else "_" for one in piece.kind.upper())
            end = piece.end
            if piece.kind == "private key":  # only its first line is found: it extends to its last line, or to the end
                end = last.end() if (last := _KEY_END.search(text, piece.end)) else len(text)
            text = f"{text[: piece.start]}[REDACTED_{kind}]{text[end:]}"
    return text, number


class _Masks:
    """Masks every text within a value, and counts the masked pieces."""

    def __init__(self) -> None:
        self.number = 0

    def within(self, value: Any) -> Any:
        if isinstance(value, str):
            text, number = mask(value)
            self.number += number
            return text
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if isinstance(value, dict):
            return {key: self.within(one) for key, one in value.items()}
        return value


def _once(results: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the newest result of each answer, evaluator and version, and how many results had the same texts."""
    seen: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in results:
        texts = (normalised(row["request"]["query"]), normalised(row["response"]))
        seen.setdefault((row["app"], row["evaluator"], row["version"], *texts), []).append(row)
    for rows in seen.values():
        yield rows[0], len(rows)


def _row(row: Mapping[str, Any], seen: int, masks: _Masks | None) -> dict[str, Any]:
    texts = {
        "request": row["request"],
        "retrieved_context": [{key: one[key] for key in ("content", "doc_uri")} for one in row["retrieved_context"]],
        "response": row["response"],
        "explanation": row["explanation"],
    }
    return {
        "id": row["id"],
        "request_id": row["request_id"],
        "app": row["app"],
        "evaluator": row["evaluator"],
        "version": row["version"],
        "verdict": "defect" if row["defect"] else "good",
        "score": row["score"],
        "defect": None,
        "timestamp": row["answered_at"] or row["evaluated_at"],
        "seen": seen,
        **(masks.within(texts) if masks else texts),
    }


def _draw(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"export").digest()


_LABEL: Final = ("id", "request_id", "evaluator", "verdict", "defect")
"""The fields that `calibrate` needs: every shape has them."""
_ABOUT: Final = ("app", "version", "score", "explanation", "timestamp", "seen")


def _flat(row: Mapping[str, Any], question: str, contexts: str, answer: str, reference: str) -> dict[str, Any]:
    return {
        question: row["request"]["query"],
        contexts: [one["content"] for one in row["retrieved_context"]],
        answer: row["response"],
        reference: None,
        "history": row["request"]["history"],
        **{name: row[name] for name in _LABEL + _ABOUT},
    }


def _nested(row: Mapping[str, Any], tool: str) -> dict[str, Any]:
    given = {**row["request"], "retrieved_context": row["retrieved_context"]}
    about, answer = {name: row[name] for name in _ABOUT}, {"response": row["response"]}
    fields: dict[str, Any]
    match tool:
        case "mlflow":
            tags = {key: str(row[key]) for key in ("app", "evaluator", "version", "verdict")}
            fields = {"inputs": given, "outputs": row["response"], "expectations": {}, "tags": tags}
        case "langfuse":
            fields = {"input": given, "expectedOutput": None, "metadata": answer | about}
            fields["sourceTraceId"] = trace_of(row["request_id"])
        case _:
            fields = {"input": given, "output": answer, "metadata": about}
    return fields | {name: row[name] for name in _LABEL}


SHAPES: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {
        "case": dict,
        "ragas": lambda row: _flat(row, "user_input", "retrieved_contexts", "response", "reference"),
        "deepeval": lambda row: _flat(row, "input", "retrieval_context", "actual_output", "expected_output"),
        "mlflow": lambda row: _nested(row, "mlflow"),
        "langfuse": lambda row: _nested(row, "langfuse"),
        "phoenix": lambda row: _nested(row, "phoenix"),
    }
)
"""Functions that give a row the field names of a tool that imports it.

Ragas (`SingleTurnSample`), DeepEval (`LLMTestCase`), MLflow 3 (records of `mlflow.genai.datasets`), Langfuse (dataset
items of its public API), Phoenix (examples of its data sets).
"""
