"""Limits and intervals of what is kept on the disk, as the documentation and the comments beside them promise them."""

from __future__ import annotations

import dataclasses
import inspect
from types import ModuleType

import pytest

from monitor.storage import (
    checks,
    damage,
    erasing,
    files,
    folder,
    incidents,
    labels,
    severe_cases,
    sqlite,
    state_file,
)
from monitor.storage.history import (
    answers,
    features,
    feed,
    judged,
    languages,
    reader,
    rows,
    settings,
    tables,
    writer,
)
from monitor.storage.history import erasing as history_erasing
from monitor.storage.request_log import recorder, recording
from monitor.storage.request_log import store as request_store
from monitor.storage.spool import memory, open_spool, poison, queue, retained, salvage, store, table

KIB, MIB, GIB = 1024, 1024 * 1024, 1024 * 1024 * 1024
SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0

PROMISED = [
    # docs/incidents.md and docs/privacy.md
    (incidents, "MOST", 1000),
    (incidents, "MOST_BYTES", 64 * MIB),
    (incidents, "NOTES_AT_MOST", 100),
    (incidents, "LONGEST_NOTE", 4000),
    (incidents, "ANSWERS_AT_MOST", 10),
    # docs/labels.md
    (labels, "MOST", 1_000_000),
    (labels, "MOST_BYTES", GIB),
    (labels, "LONGEST_COMMENT", 4000),
    (labels, "CHANGES_AT_MOST", 20),
    (labels, "_LONGEST_NAME", 512),
    # docs/reliability.md
    (severe_cases, "MOST", 20_000),
    (severe_cases, "_DAY", DAY),
    (recorder, "_WAITING", 5000),
    (sqlite, "_CHECK_UP_TO", 64 * MIB),
    (store, "_CHECK_AT_OPEN", 256 * MIB),
    (sqlite, "_CHECK_EVERY", DAY),
    (sqlite, "_SUSPECT_EVERY", MINUTE),
    (sqlite, "_REPAIR_EVERY", 30.0),
    (damage, "COPIES", 3),
    (damage, "COPIES_BYTES", GIB),
    (damage, "SALVAGE_SECONDS", 10.0),
    (tables, "PAST_RESULTS_AT_MOST", 5000),
    # docs/privacy.md and docs/deployment.md
    (poison, "MAX_FILES", 20),
    (poison, "MAX_BYTES", 64 * MIB),
    (poison, "MOST_LIVES", 2),
    (state_file, "_KEPT_FOR", 14 * DAY),
    # intervals that comments beside them name
    (state_file, "_EVERY", SECOND),
    (recorder, "_EVERY", SECOND),
    (recorder, "_LAST_PAUSE", 5.0),
    (recorder, "_TIDY_EVERY", MINUTE),
    (writer, "TIDY_EVERY", MINUTE),
    (erasing, "_WAIT_TO_ERASE", MINUTE),
    (feed, "_TIMEOUT", 30.0),
    (queue, "_IDLE", 0.5),
    (queue, "_SAY_AGAIN", 30.0),
    (store, "_OPEN_EVERY", SECOND),
    (store, "_PRUNE_EVERY", HOUR),
    (table, "_LOOK_EVERY", 0.25),
    # what bounds memory and the length of one transaction
    (memory, "MAX_DRAWS", 100_000),
    (memory, "MAX_RESULT_IDS", 200_000),
    (memory, "_FILLED", 0.6),
    (memory, "_LEAST", 64),
    (table, "PAGE", 16 * KIB),
    (table, "_LOG_PAGES", 1024),
    (queue, "_COMMIT_BYTES", 8 * MIB),
    (queue, "_DELETES", 512),
    (queue, "_DELETES_IN_TROUBLE", 16),
    (queue, "_OVERHEAD", 256),
    (retained, "_OVERHEAD", 256),
    (store, "_READ_BYTES", 4 * MIB),
    (poison, "_ENTRIES", 256),
    (recorder, "_STEPS_WAITING", 50_000),
    (recorder, "_MINUTES_WAITING", 60),
    (recorder, "_AT_ONCE", 500),
    (request_store, "_PRUNE_AT_ONCE", 500),
    (request_store, "_MOST_OF_ONE", 250),
    (incidents, "_PRUNE_AT_ONCE", 50),
    (incidents, "_LONGEST_FINDING", 64 * KIB),
    (tables, "_PRUNE_AT_ONCE", 500),
    (tables, "_WITHOUT_FOLLOWERS", 100),
    (damage, "_AT_ONCE", 64),
    (damage, "_IN_A_TRANSACTION", 4096),
    (damage, "_GAPS", 20_000),
    (damage, "_ONE_BY_ONE", 64),
    (damage, "_HIGHEST", 2**62),
    (sqlite, "_VERSIONS", 10_000),
    (folder, "_MOST_BYTES", 1000),
    (features, "MOST_BYTES", 4 * KIB),
    (features, "_HASHED_CONTENT", 4096),
    # lengths of what is kept of texts, in characters
    (features, "_WORDS", 24),
    (features, "_WORD_LENGTH", 32),
    (features, "_READ", 2000),
    (features, "_DOCUMENTS", 12),
    (features, "_ADDRESS_LENGTH", 160),
    (features, "_SLICES", 24),
    (features, "_VALUE_LENGTH", 128),
    (languages, "_READ", 500),
    (answers, "_LONGEST_QUESTION", 300),
    # placeholders in one query: SQLite takes 999 where it is old
    (erasing, "_ERASE_AT_ONCE", 500),
    (history_erasing, "_AT_ONCE", 200),
    (answers, "_AT_ONCE", 500),
    (judged, "_AT_ONCE", 500),
    (reader, "_AT_ONCE", 500),
    (reader, "_IDS_AT_ONCE", 500),
    # formats
    (rows, "SCHEMA", 1),
    (tables, "MINUTE", 60),
    (tables, "QUARTER", 900),
    (request_store, "MINUTE", 60),
    (folder, "FORMAT", 1),
]

FORMATS = [
    (incidents, 1),
    (labels, 1),
    (severe_cases, 1),
    (state_file, 1),
    (tables, 4),
    (request_store, 1),
    (retained, 1),
    (table, 2),
]

MUTABLE = {store.Batch: "it is filled while it is made"}
KEYWORDS_ONLY = (reader.Search, features.CaseFeatures)
MODULES = [module for module in globals().values() if isinstance(module, ModuleType) and module != dataclasses]
CLASSES = sorted(
    {
        found
        for module in (*MODULES, checks, files, salvage, settings)
        for found in vars(module).values()
        if isinstance(found, type)
        and dataclasses.is_dataclass(found)
        and found.__module__.startswith("monitor.storage")
    },
    key=lambda one: one.__qualname__,
)


@pytest.mark.parametrize(("module", "name", "value"), PROMISED, ids=lambda one: str(getattr(one, "__name__", one)))
def test_a_limit_is_what_is_promised(module: ModuleType, name: str, value: float) -> None:
    assert getattr(module, name) == value


@pytest.mark.parametrize(("module", "number"), FORMATS, ids=lambda one: str(getattr(one, "__name__", one)))
def test_the_number_of_a_format_changes_only_with_its_schema(module: ModuleType, number: int) -> None:
    assert module.FORMAT.version == number


@pytest.mark.parametrize("found", CLASSES, ids=lambda one: one.__name__)
def test_what_is_handed_out_cannot_be_changed_and_takes_no_other_names(found: type) -> None:
    assert found.__dataclass_params__.frozen is (found not in MUTABLE)
    assert "__slots__" in vars(found)


@pytest.mark.parametrize("found", KEYWORDS_ONLY, ids=lambda one: one.__name__)
def test_many_fields_of_one_kind_are_given_by_name(found: type) -> None:
    assert all(one.kw_only for one in dataclasses.fields(found))


def test_the_excerpts_of_an_incident_have_these_lengths() -> None:
    assert incidents._LONGEST == {
        "question": 500,
        "response": 1500,
        "explanation": 800,
        "request_id": 512,
        "level": 100,
    }


def test_a_spool_takes_64_mib_in_hand_and_8_mib_for_what_it_remembers() -> None:
    given = {name: one.default for name, one in inspect.signature(open_spool).parameters.items()}
    names = ("retain", "erase", "waiting_at_most", "results_at_most", "draws_at_most")
    assert [given[name] for name in names] == [0.0, False, 64 * MIB, 8 * MIB, 8 * MIB]


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        (sqlite.open_database, "timeout", 5.0),
        (sqlite.Database, "timeout", 5.0),
        (memory.RecentIds, "most", 200_000),
        (memory.RecentPairs, "most", 100_000),
        (recording, "every", 1.0),
        (reader.HistoryReader.results, "limit", 100),
        (reader.HistoryReader.results, "since", 0.0),
        (reader.HistoryReader.worst, "limit", 10),
        (reader.HistoryReader.worst, "since", 0.0),
        (incidents.IncidentReader.newest, "limit", 200),
        (incidents.IncidentReader.newest, "since", 0.0),
        (answers.AnswerReader.judged_answers, "newest", True),
        (tables.insert, "quotes", True),
        (rows.as_json, "texts", True),
        (rows.as_json, "quotes", True),
        (features.features_of, "texts", True),
        (features.features_of, "addresses", True),
        (request_store.prune, "added", 0),
        (recorder.Recorder.count, "number", 1),
        (recorder.Recorder.count, "expected", 0.0),
        (poison.PoisonFiles.prune, "more", 0),
        (poison.PoisonFiles.prune, "files", 0),
        (checks.open_read_only, "untouched", False),
        (sqlite.empty_log, "wait", False),
        (table.connect, "erase", False),
    ],
    ids=lambda one: str(getattr(one, "__qualname__", one)),
)
def test_what_is_not_asked_for_has_its_default(call: object, name: str, value: object) -> None:
    assert inspect.signature(call).parameters[name].default == value


def test_results_are_kept_for_seven_days_and_sums_for_thirty_within_a_gibibyte() -> None:
    chosen = settings.HistoryOptions()
    assert (chosen.retention, chosen.sums_retention, chosen.max_size) == (7 * DAY, 30 * DAY, GIB)
    assert (chosen.texts, chosen.texts_retention) == ("explanations", None)


@pytest.mark.parametrize("name", ["retention", "sums_retention", "texts_retention", "max_size"])
def test_no_retention_is_nothing(name: str) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        settings.HistoryOptions(**{name: 0})
    assert getattr(settings.HistoryOptions(**{name: 1}), name) == 1


def test_an_empty_search_is_for_a_hundred_scores_the_worst_first() -> None:
    found = reader.Search()
    assert (found.outcome, found.order, found.limit, found.since, found.until) == ("score", "worst", 100, 0.0, None)
    assert (found.apps, found.evaluator, found.scales, found.bands, found.unjudged_by) == ((), None, {}, None, "")


def test_sums_without_a_rule_are_by_that_of_the_evaluator() -> None:
    assert reader.MinuteSums(0, "a", "e", "v", True, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0).rule == ""


def test_what_is_not_known_of_an_answer_is_empty() -> None:
    one = answers.JudgedAnswer("r", 1.0, 1.0, True, 1.0, features.CaseFeatures(unit="u"), None)
    assert (one.label, one.judged_at) == ("", 0.0)
    two = features.CaseFeatures(unit="u")
    assert (two.number, two.question_length, two.answer_length, two.score) == (0, 0, 0, None)


def test_a_feed_entry_that_has_its_result_is_not_lost() -> None:
    assert feed.FeedEntry(1, None).lost is None
