"""People's labels in and out: files, and the servers on which people already label.

import_labels(config, read_labels(content, VerdictWords())).new
export_labels(config, LabelFormat.CSV, LabelFilter(app="shop"))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, InvalidData, MonitorError
from monitor.model.case import Traffic
from monitor.model.label import Label, LabelDraw, LabelVerdict, is_test
from monitor.model.outcome import RateScope
from monitor.operations.export import collect_results
from monitor.operations.labels.langfuse import LangfuseLabels
from monitor.operations.labels.mlflow import MlflowLabels
from monitor.operations.labels.phoenix import PhoenixLabels
from monitor.operations.labels.reading import LabelFile, ReadLabel, VerdictWords
from monitor.operations.labels.server import LabelServer, ResultRef, SentLabels
from monitor.operations.labels.writing import LabelFormat, write_labels
from monitor.operations.storage_folder import existing_history, require_state
from monitor.sinks.langfuse import LangfuseSink
from monitor.sinks.mlflow import Mlflow
from monitor.sinks.phoenix import Phoenix
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader, Search
from monitor.storage.labels import LabelCount, LabelReader, LabelStore

RESULTS_AT_MOST: Final = 200_000
"""Maximum number of results to match labels with, newest first."""

_NAMES: Final = ("id", "request_id", "trace_id", "span_id")


class Half(StrEnum):
    """Which half of the requests: `test` measures the judge, `examples` may be shown to it."""

    TEST = "test"
    EXAMPLES = "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFilter:
    """A selection of labels or results: `since` is the wall-clock second of answers; None: any app or evaluator."""

    app: str | None = None
    evaluator: str | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class LabelImport:
    """The outcome of an import.

    Of the `read` labels, some are `new`, `changed` (their reviewer had said something else), `unchanged`, or
    `forgotten` (their request was erased). `unlabelled` entries had no label yet. `problems` describes all others.
    """

    read: int
    new: int
    changed: int
    unchanged: int
    forgotten: int
    unlabelled: int
    problems: Sequence[str]


def import_labels(
    config: Config, file: LabelFile, wanted: LabelFilter, *, reviewer: str = "", clock: Clock | None = None
) -> LabelImport:
    """Store labels that were read from a file or a server, each with its result in the history.

    A label whose result is no longer there is stored if the file repeats what the judge said, as our own files do.
    `reviewer` names the person if the file does not. Raises `MonitorError` if the history or the labels cannot be read,
    `ConfigError` if there are none.
    """
    now = (clock or SystemClock()).now()
    results = _JudgedAnswers(_results(config, wanted)) if file.labels else _JudgedAnswers(())
    history = HistoryReader(config.storage.path / files.HISTORY)
    problems, counts = list(file.problems), defaultdict[str, int](int)
    store = LabelStore(config.storage.path / files.LABELS, clock or SystemClock())
    try:
        for one in file.labels:
            try:
                label = _label(one, results, reviewer, now)
                if wanted.evaluator not in (None, label.evaluator) or wanted.app not in (None, label.app):
                    continue
                drawn = store.draw_of(label.result_id)
                if drawn is not None:
                    label = replace(label, draw=drawn.draw, probability=drawn.probability)
                elif one.judgement is None or not is_test(label.request_id):
                    # The file does not repeat how it was drawn, or the draw is impossible: the other half of the
                    # requests may be shown to the judge, so none of them is drawn to measure it.
                    label = replace(label, draw=LabelDraw.IMPORTED, probability=None)
                label = replace(label, user=_user(history, label.request_id))
                counts[_keep(store, label)] += 1
            except InvalidData as error:
                problems.append(f"{one.place}: {error}")
    finally:
        store.close()
    return LabelImport(
        len(file.labels),
        counts["new"],
        counts["changed"],
        counts["unchanged"],
        counts["forgotten"],
        file.unlabelled,
        problems,
    )


def export_labels(config: Config, form: LabelFormat, wanted: LabelFilter, *, redact: bool = True) -> tuple[str, int]:
    """Return the labels in a format, and their number. Texts are included if the history still has them, masked.

    Raises `MonitorError` if the labels or the history cannot be read.
    """
    labels = stored_labels(config, wanted)
    cases: dict[str, Mapping[str, Any]] = {}
    if labels and (config.storage.path / files.HISTORY).exists():
        found = collect_results(config.storage, {one.result_id for one in labels}, redact=redact)
        cases = {row["id"]: row for row in found}
    text = write_labels(form, labels, cases)
    shown = (
        labels if form in (LabelFormat.JSONL, LabelFormat.CSV) else [one for one in labels if one.result_id in cases]
    )
    return text, len(shown)


def export_tasks(form: LabelFormat, cases: Mapping[str, Mapping[str, Any]]) -> str:
    """Return answers that still need a label, as returned by `draw_cases`, in a format."""
    return write_labels(form, (), cases)


def stored_labels(config: Config, wanted: LabelFilter) -> list[Label]:
    """Return the labels in the storage folder, oldest first. Raises `MonitorError`."""
    reader = LabelReader(config.storage.path / files.LABELS)
    return reader.find(app=wanted.app, evaluator=wanted.evaluator, since=wanted.since or None)


def label_counts(config: Config) -> list[LabelCount]:
    """Count the labels in the storage folder. Raises `MonitorError`, or `ConfigError` if it is not a monitor's."""
    require_state(config.storage.path)
    return LabelReader(config.storage.path / files.LABELS).counts()


def open_server(config: Config, kind: str, *, name: str = "", queue: str = "", project: str = "default") -> LabelServer:
    """Return the server of the configured sink of type `kind`: `langfuse`, `phoenix` or `mlflow`.

    `name`: the name of annotations there, if it is not the evaluator's. `queue`: an annotation queue of Langfuse.
    `project`: a project of Phoenix. Raises `ConfigError` if there is no such sink.
    """
    for sink in config.sinks:
        match kind, sink:
            case "langfuse", LangfuseSink():
                return LangfuseLabels(sink, name=name, queue=queue)
            case "phoenix", Phoenix():
                return PhoenixLabels(sink, name=name, project=project)
            case "mlflow", Mlflow():
                return MlflowLabels(sink, name=name)
    raise ConfigError(f"sinks: no sink of type `{kind}`; its address and key are needed")


def pull_labels(
    config: Config, server: LabelServer, wanted: LabelFilter, words: VerdictWords, *, clock: Clock | None = None
) -> LabelImport:
    """Read people's labels of the wanted results from a server, and store them. Raises `MonitorError`."""
    with server:
        found = server.pull([_ref(row) for row in _results(config, wanted)], words)
    return import_labels(config, found, wanted, clock=clock)


def push_labels(config: Config, server: LabelServer, wanted: LabelFilter) -> SentLabels:
    """Write the stored labels to a server, except imported ones. Raises `MonitorError`."""
    labels = [one for one in stored_labels(config, wanted) if one.draw is not LabelDraw.IMPORTED]
    refs = {row["id"]: _ref(row) for row in _results(config, replace(wanted, since=0.0))}
    with server:
        return server.push(labels, refs)


def _results(config: Config, wanted: LabelFilter) -> list[dict[str, Any]]:
    path = existing_history(config.storage.path / files.HISTORY)
    search = Search(
        apps=(wanted.app,) if wanted.app is not None else (),
        evaluator=wanted.evaluator,
        since=wanted.since,
        order="newest",
        limit=RESULTS_AT_MOST,
    )
    return [
        row
        for row in HistoryReader(path).search(search)
        if row["scope"] in (RateScope.LIVE, RateScope.LATE) and row["traffic"] == Traffic.PRODUCTION
    ]


def _ref(row: Mapping[str, Any]) -> ResultRef:
    return ResultRef(row["id"], row["request_id"], row["trace_id"], row["span_id"], row["evaluator"])


class _JudgedAnswers:
    """The results of the history, by every id that a label may use for them."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._by_id: dict[str, Mapping[str, Any]] = {}
        self._by_name: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            self._by_id[row["id"]] = row
            for name in _NAMES[1:]:
                if row[name]:
                    self._by_name[name, row[name], row["evaluator"]].append(row)

    def find(self, one: ReadLabel) -> Mapping[str, Any] | None:
        """Return the result that a label is about; None if there is none.

        Raises `InvalidData` if there are several, as with a trace of several requests.
        """
        if one.result_id and (row := self._by_id.get(one.result_id)) is not None:
            return row
        for name in ("span_id", "request_id", "trace_id"):
            value = getattr(one, name)
            found = self._by_name.get((name, value, one.evaluator), []) if value else []
            versions: dict[str, Mapping[str, Any]] = {}
            for row in found:
                versions.setdefault(row["request_id"], row)  # the newest of several versions of the evaluator
            if len(versions) > 1:
                where = name.removesuffix("_id")
                raise InvalidData(
                    f"{where} {value!r:.80} has {len(versions)} answers: name one by `id` or `request_id`"
                )
            if versions:
                return next(iter(versions.values()))
        return None


def _label(one: ReadLabel, results: _JudgedAnswers, reviewer: str, now: float) -> Label:
    who = one.reviewer or reviewer
    if not who:
        raise InvalidData("has no reviewer: set --reviewer")
    row = results.find(one)
    if row is not None:
        of = {
            "result_id": row["id"],
            "request_id": row["request_id"],
            "app": row["app"],
            "evaluator": row["evaluator"],
            "version": row["version"],
            "judged_defect": bool(row["defect"]),
            "score": row["score"],
            "weight": row["weight"],
            "answered_at": row["answered_at"] or row["evaluated_at"],
        }
    elif one.judgement is not None and one.result_id and one.request_id and one.evaluator:
        said = one.judgement
        of = {
            "result_id": one.result_id,
            "request_id": one.request_id,
            "app": said.app,
            "evaluator": one.evaluator,
            "version": said.version,
            "judged_defect": said.defect,
            "score": said.score,
            "weight": said.weight,
        }
    else:
        name = next(each for each in (one.result_id, one.request_id, one.trace_id, one.span_id) if each)
        raise InvalidData(f"no result in the history for {name!r:.80}" + (f" of {one.evaluator}" * bool(one.evaluator)))
    return Label(
        **of,
        reviewer=who,
        verdict=one.verdict,
        level=one.level,
        comment=one.comment,
        at=one.at if one.at is not None else now,
        draw=LabelDraw(one.draw) if one.draw in tuple(LabelDraw) else LabelDraw.IMPORTED,
        probability=one.probability,
    )


def _user(history: HistoryReader, request_id: str) -> str:
    try:
        return history.user_of(request_id)
    except MonitorError:
        return ""


def _keep(store: LabelStore, label: Label) -> str:
    before = next((one for one in store.of_result(label.result_id) if one.reviewer == label.reviewer), None)
    if before is not None and (before.verdict, before.level, before.comment) == (
        label.verdict,
        label.level,
        label.comment.strip(),
    ):
        return "unchanged"
    if before is not None:
        label = replace(label, draw=before.draw, probability=before.probability)  # how it was drawn stays true
    if not store.put(label):
        return "forgotten"
    return "changed" if before is not None else "new"


def agreed_labels(labels: Iterable[Label]) -> dict[str, bool]:
    """Return people's verdict (defect or not) by result id, without results on which they disagree or cannot tell."""
    said: dict[str, set[bool]] = defaultdict(set)
    for one in labels:
        if one.verdict is not LabelVerdict.CANNOT_TELL:
            said[one.result_id].add(one.verdict is LabelVerdict.DEFECT)
    return {result: verdicts.pop() for result, verdicts in said.items() if len(verdicts) == 1}


def halved(labels: Iterable[Label], half: Half | None) -> list[Label]:
    """Return the labels of one half of the requests, the same every time; None: all."""
    return [one for one in labels if half is None or is_test(one.request_id) == (half is Half.TEST)]
