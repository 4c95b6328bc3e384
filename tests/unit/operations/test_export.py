"""What an export leaves of a result: each answer once, masked, under the names that tools read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.config.sections import StorageSettings
from monitor.errors import ConfigError
from monitor.model.case import Case, Document, Message, Request
from monitor.model.outcome import RateScope
from monitor.operations.export import SHAPES, ExportFilter, collect, mask, normalised
from monitor.privacy.detectors import pieces
from monitor.storage.history.tables import create, insert
from tests.support.results import judged
from tests.support.rows import contents, reading

MAIL = "Write to jane.doe@gmail.com or call +49 170 1234567."


def stored(folder: Path, *answers: str, texts: bool = True, **fields: object) -> StorageSettings:
    """A history of one defect for each answer, the first the oldest."""
    db = create(folder / "history.db")
    results = []
    for number, answer in enumerate(answers):
        one = judged(number, 1.0, **fields)
        object.__setattr__(one.case, "response", answer)
        results.append(one)
    insert(db, results, texts=texts)
    db.close()
    return StorageSettings(path=folder)


def test_the_same_question_and_answer_stand_once_and_say_how_often_they_were_seen(tmp_path: Path) -> None:
    storage = stored(tmp_path, "Two  years.", "two years.", "Three years.")
    rows = collect(storage, ExportFilter()).rows
    assert [(one["response"], one["seen"]) for one in rows] == [("Three years.", 1), ("two years.", 2)]
    assert all(one["defect"] is None for one in rows)
    assert {one["verdict"] for one in rows} == {"defect"}


def test_a_case_with_long_texts_is_exported_whole(tmp_path: Path) -> None:
    answer = "Two years, says the manual. " * 1_000
    (row,) = collect(stored(tmp_path, answer), ExportFilter()).rows
    assert row["response"] == answer
    assert row["retrieved_context"]


def test_with_labels_the_labelled_results_are_exported_and_none_as_a_repeat(tmp_path: Path) -> None:
    storage = stored(tmp_path, "Two years.", "Two years.", "Three years.")
    first, second = judged(0).id, judged(1).id
    found = collect(storage, ExportFilter(defects_only=False, labels={first: True, second: False, "gone": True}))
    assert {one["id"]: one["defect"] for one in found.rows} == {first: True, second: False}


def test_personal_data_is_masked_unless_it_is_asked_for(tmp_path: Path) -> None:
    storage = stored(tmp_path, MAIL)
    found = collect(storage, ExportFilter())
    assert found.rows[0]["response"] == "Write to [REDACTED_E_MAIL_ADDRESS] or call [REDACTED_PHONE_NUMBER]."
    assert found.masked == 2
    plain = collect(storage, ExportFilter(), redact=False)
    assert (plain.rows[0]["response"], plain.masked) == (MAIL, 0)


def test_who_asked_is_in_no_row(tmp_path: Path) -> None:
    row = collect(stored(tmp_path, "Two years."), ExportFilter(), redact=False).rows[0]
    assert "u-1" not in str(row)


def test_of_a_private_key_nothing_stays() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nabc\n-----END PRIVATE KEY-----"
    assert mask(f"It is {key}, keep it.") == ("It is [REDACTED_PRIVATE_KEY], keep it.", 1)
    assert mask(key[:40])[0] == "[REDACTED_PRIVATE_KEY]"


def test_a_mark_where_a_password_stood_is_no_password() -> None:
    once = mask("See https://bob:s3cret!x@db.internal/ and password: hunter2x9")
    assert once == ("See https://bob:[REDACTED_PASSWORD]@db.internal/ and password: [REDACTED_PASSWORD]", 2)
    assert mask(once[0]) == (once[0], 0)


@given(st.lists(st.sampled_from(["call +49 170 1234567", "a.b@gmail.com", " ", "x", "\n", "4111 1111 1111 1111"])))
def test_what_is_masked_is_not_found_again(parts: list[str]) -> None:
    assert pieces(mask(" ".join(parts))[0]) == []


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = normalised(text)
    assert normalised(once.upper().lower()) == normalised(once.upper().lower().strip())
    assert normalised(f"  {once}\n") == normalised(once)


def test_only_verdicts_kept_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage\.texts"):
        collect(stored(tmp_path, "Two years.", texts=False), ExportFilter())


def test_no_history_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage\.path"):
        collect(StorageSettings(path=tmp_path), ExportFilter())


def test_a_sample_is_the_same_each_time_and_does_not_go_by_the_verdict(tmp_path: Path) -> None:
    db = create(tmp_path / "history.db")
    results = [judged(number, 1.0 + 3 * (number % 2)) for number in range(200)]
    for number, one in enumerate(results):
        object.__setattr__(one.case, "response", f"Answer {number}")
    insert(db, results, texts=True)
    db.close()
    first, again = (
        collect(StorageSettings(path=tmp_path), ExportFilter(defects_only=False, sample=80)).rows for _ in range(2)
    )
    assert first == again
    assert len(first) == 80
    assert 25 <= sum(one["verdict"] == "defect" for one in first) <= 55


def test_traffic_that_is_not_production_is_left_out(tmp_path: Path) -> None:
    assert collect(stored(tmp_path, "Two years.", scope=RateScope.NON_PRODUCTION), ExportFilter()).rows == []


@pytest.mark.parametrize("scope", [RateScope.BACKFILL, RateScope.USER_DISLIKED])
def test_a_sample_of_all_answers_has_none_that_somebody_chose(tmp_path: Path, scope: RateScope) -> None:
    storage = stored(tmp_path, "Two years.", scope=scope)
    assert collect(storage, ExportFilter(defects_only=False, sample=10)).rows == []
    for wanted in (ExportFilter(), ExportFilter(sample=10), ExportFilter(defects_only=False)):
        assert len(collect(storage, wanted).rows) == 1


def test_a_score_that_only_orders_is_no_verdict_and_not_exported(tmp_path: Path) -> None:
    storage = stored(tmp_path, "Two years.", scope=RateScope.RANKING, defect=False)
    assert collect(storage, ExportFilter(defects_only=False)).rows == []


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_room_for_the_label_and_what_calibrate_joins_by(tmp_path: Path, shape: str) -> None:
    row = SHAPES[shape](collect(stored(tmp_path, "Two years."), ExportFilter()).rows[0])
    assert (row["request_id"], row["evaluator"], row["verdict"], row["defect"]) == (
        f"{0:032x}", "groundedness", "defect", None,
    )  # fmt: skip
    assert row["id"]


@pytest.mark.parametrize(
    ("shape", "convention"), [("case", "agent_evaluation"), ("ragas", "ragas"), ("deepeval", "deepeval")]
)
def test_rows_of_the_shapes_that_are_read_say_the_same_again(tmp_path: Path, shape: str, convention: str) -> None:
    one = judged(1, 1.0)
    case = Case(
        request_id=one.case.request_id,
        app="shop",
        request=Request("And batteries?", (Message("user", "How long?"), Message("assistant", "Two years."))),
        retrieved_context=(Document("Batteries have one year.", doc_uri="kb/7"), Document("Two years.")),
        response="One year.",
    )
    object.__setattr__(one, "case", case)
    db = create(tmp_path / "history.db")
    insert(db, [one], texts=True)
    db.close()
    (row,) = collect(StorageSettings(path=tmp_path), ExportFilter()).rows
    read = reading(SHAPES[shape](row))
    assert read.case.convention == convention
    assert (read.case.request_id, read.case.app, read.case.response) == (case.request_id, "shop", "One year.")
    assert read.case.request == case.request
    assert contents(read) == ["Batteries have one year.", "Two years."]
