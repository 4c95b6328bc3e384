"""What `rag-monitor export` writes: results of the history, each answer once, personal data masked."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from monitor.cli.export_shapes import SHAPES
from monitor.config.sections import Storage
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Traffic
from monitor.model.foreign import Via
from monitor.model.outcome import Standing
from monitor.privacy.detectors import pieces
from monitor.quantities import parse_duration
from monitor.storage import files
from monitor.storage.history.reader import Reader, Search
from monitor.storage.history.rows import dump

_MOST: Final = 100_000
"""Results that are looked at, the newest: their texts are held in memory."""

_MARK: Final = re.compile(r"\[REDACTED_\w+\]")
_KEY_END: Final = re.compile(r"-----END [A-Z ]{0,60}PRIVATE KEY-----")


class Wanted(NamedTuple):
    """What is to be written; `since` in wall-clock seconds."""

    defects: bool
    sample: int | None
    since: float
    app: str | None
    evaluator: str | None
    redacted: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """The rows, of how many results they are, how many of these had no texts, and how often something was masked."""

    rows: list[dict[str, Any]]
    results: int
    without_texts: int
    masked: int
    cut: bool


def seconds_ago(since: str, now: float) -> float:
    """The wall-clock second so long ago. Raises `ConfigError`."""
    try:
        return now - parse_duration(since)
    except ValueError as error:
        raise ConfigError(f"--since: {error}") from None


def collect(storage: Storage, wanted: Wanted) -> Exported:
    """The cases that are wanted, the newest first. Raises `ConfigError` where there are none with their texts."""
    path = storage.path / files.HISTORY
    if not path.exists():
        raise ConfigError(f"storage.path: there is no history at {path}; give the monitor's configuration by -c")
    search = Search(
        apps=(wanted.app,) if wanted.app is not None else (),
        evaluator=wanted.evaluator,
        since=wanted.since,
        outcome="defect" if wanted.defects else "score",
        order="newest",
        limit=_MOST,
    )
    try:
        found = Reader(path).search(search)
    except MonitorError as error:
        raise ConfigError(str(error)) from None
    results = [row for row in found if row["standing"] != Standing.ASIDE and row["traffic"] == Traffic.PRODUCTION]
    told = [row for row in (_with_texts(row, Reader(path)) for row in results) if "response" in row]
    if results and not told:
        raise ConfigError(
            "storage.texts: `all` is needed for an export; of these results only the verdicts were kept. Set it:"
            " it holds for what is judged from then on"
        )
    chosen = list(_once(told))
    if wanted.sample is not None:
        chosen = sorted(chosen, key=lambda one: _hash(one[0]["id"]))[: wanted.sample]
    masks = _Masks() if wanted.redacted else None
    rows = [_row(row, seen, masks) for row, seen in chosen]
    return Exported(rows, len(results), len(results) - len(told), masks.number if masks else 0, len(found) == _MOST)


def _with_texts(row: dict[str, Any], history: Reader) -> dict[str, Any]:
    """The row; of a verdict of others with the texts of the case, which stand with those of ours."""
    if "response" in row or row.get("via", Via.OWN) == Via.OWN:
        return row
    with suppress(MonitorError):
        ours = next((one for one in history.by_trace(row["trace_id"]) if "response" in one), {})
        return row | {key: ours[key] for key in ("request", "retrieved_context", "response", "user_id") if key in ours}
    return row


def write(found: Exported, shape: str, output: Path | None, stdout: TextIO) -> None:
    """One line for each row. Raises `ConfigError` where the file cannot be written."""
    text = "".join(dump(SHAPES[shape](row)).decode() + "\n" for row in found.rows)
    if output is None:
        stdout.write(text)
        stdout.flush()
        return
    try:
        output.touch(mode=0o600)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written: {error.strerror}") from None


def told(found: Exported) -> str:
    """What was written, in words."""
    said = [f"{len(found.rows)} cases of {found.results} results", f"{found.masked} pieces of personal data masked"]
    if found.without_texts:
        said.append(f"{found.without_texts} results without texts left out")
    if found.cut:
        said.append(f"only the newest {_MOST:,} results were looked at")
    return "; ".join(said)


def normalised(text: str) -> str:
    """Texts that differ in case, in white space or in how a character is coded are the same."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def mask(text: str) -> tuple[str, int]:
    """The text with marks such as `[REDACTED_PHONE_NUMBER]` for what `pii_leak` finds, and for how many."""
    number = 0
    while found := [one for one in pieces(text) if not _MARK.fullmatch(text, one.start, one.end)]:
        number += len(found)  # and again: of two that overlap only one is found
        for piece in sorted(found, key=lambda piece: piece.start, reverse=True):
            kind = "".join(one if one.isalnum() else "_" for one in piece.kind.upper())
            end = _end_of_key(text, piece.end) if piece.kind == "private key" else piece.end
            text = f"{text[: piece.start]}[REDACTED_{kind}]{text[end:]}"
    return text, number


def _end_of_key(text: str, at: int) -> int:
    """What is found of a private key is its first line: it goes on to its last one, or to the end."""
    last = _KEY_END.search(text, at)
    return last.end() if last else len(text)


class _Masks:
    """Masks every text within a value, and counts."""

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
    """Each question and answer once for each evaluator and version, the newest, and how often there was such a one."""
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
        "request_id": row["trace_id"],
        "app": row["app"],
        "evaluator": row["evaluator"],
        "version": row["version"],
        "verdict": "defect" if row["defect"] else "good",
        "score": row["score"],
        "defect": None,
        "timestamp": row["answered_at"] or row["judged_at"],
        "seen": seen,
        **(masks.within(texts) if masks else texts),
    }


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"export").digest()
