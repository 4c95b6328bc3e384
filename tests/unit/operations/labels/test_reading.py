"""Labels as other tools' files hold them, and files that hold none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.errors import ConfigError
from monitor.model.label import LabelVerdict
from monitor.operations.labels.reading import VerdictWords, parse_time, read_labels

GOOD, DEFECT, CANNOT_TELL = LabelVerdict.GOOD, LabelVerdict.DEFECT, LabelVerdict.CANNOT_TELL
WORDS = VerdictWords()


def lines(*rows: Any) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("good", GOOD),
        ("Defect", DEFECT),
        ("cannot_tell", CANNOT_TELL),
        (["Not sure"], CANNOT_TELL),
        (True, GOOD),
        (False, DEFECT),
        (1, GOOD),
        ("0", DEFECT),
        (" FAILED ", DEFECT),
    ],
)
def test_the_usual_answers_of_tools_are_known(value: Any, verdict: LabelVerdict) -> None:
    assert WORDS.read(value) is verdict


def test_own_words_come_first_and_numbers_need_a_limit() -> None:
    words = VerdictWords(good=["Treu"], defect=["ok"], below=3)
    assert [words.read(one) for one in ("treu", "ok", 2, 3.0, "1")] == [GOOD, DEFECT, DEFECT, GOOD, DEFECT]
    with pytest.raises(ValueError, match="2 is not known; allowed: good, defect, cannot_tell, or set --defect-below"):
        WORDS.read(2)
    with pytest.raises(ValueError, match=r"'meh' is not known.*--good or --defect"):
        WORDS.read("meh")


def test_a_row_of_export_is_labelled_by_defect_and_one_of_ours_by_human_label() -> None:
    file = read_labels(
        lines(
            {"id": "a", "verdict": "good", "defect": True},
            {"request_id": "t/2", "evaluator": "groundedness", "defect": False, "reviewer": "ana", "comment": "yes"},
            {"id": "b", "defect": None},
            {"id": "c", "human_label": "cannot_tell", "label": "faithful", "draw": "uniform", "probability": 0.25},
        ),
        WORDS,
    )
    assert [(one.result_id, one.request_id, one.verdict) for one in file.labels] == [
        ("a", "", DEFECT),
        ("", "t/2", GOOD),
        ("c", "", CANNOT_TELL),
    ]
    assert (file.labels[1].reviewer, file.labels[1].comment) == ("ana", "yes")
    assert (file.labels[2].draw, file.labels[2].probability) == ("uniform", 0.25)
    assert (file.unlabelled, file.problems) == (1, [])


def test_each_line_that_gives_no_label_says_where_and_what_is_allowed() -> None:
    file = read_labels(
        b'{"id": "a", "defect": "perhaps"}\nnot json\n[1]\n{"defect": true}\n{"id": "b", "human_label": "meh"}\n', WORDS
    )
    assert not file.labels
    assert [one.split(":")[0] for one in file.problems] == [f"line {number}" for number in range(1, 6)]
    assert "`defect` must be true or false, not 'perhaps'" in file.problems[0]
    assert "needs `id`, or `request_id` and `evaluator`" in file.problems[3]


def test_a_csv_file_is_read_with_quotes_line_breaks_and_a_byte_order_mark() -> None:
    text = (
        '\ufeffid,human_label,comment,reviewer\nr1,defect,"two\nlines, and ""quotes""",ana\nr2,,,\nr3,good,\'=1+1,bo\n'
    )
    file = read_labels(text.encode(), WORDS, name="Labels.CSV")
    assert [(one.result_id, one.verdict, one.comment) for one in file.labels] == [
        ("r1", DEFECT, 'two\nlines, and "quotes"'),
        ("r3", GOOD, "=1+1"),
    ]
    assert file.unlabelled == 1


def test_argilla_gives_a_label_for_each_user_who_answered() -> None:
    record = {
        "id": "r1",
        "fields": {"question": "?", "answer": "."},
        "metadata": {"request_id": "t", "evaluator": "groundedness"},
        "suggestions": {},
        "responses": {
            "verdict": [{"value": "good", "user_id": "u1"}, {"value": "defect", "user_id": "u2"}],
            "comment": [{"value": "no source", "user_id": "u2"}],
        },
    }
    empty = {**record, "id": "r2", "responses": {}}
    file = read_labels(json.dumps([record, empty]).encode(), WORDS)
    assert [(one.result_id, one.reviewer, one.verdict, one.comment) for one in file.labels] == [
        ("r1", "u1", GOOD, ""),
        ("r1", "u2", DEFECT, "no source"),
    ]
    assert file.unlabelled == 1


def test_label_studio_gives_a_label_for_each_annotation_that_was_not_cancelled() -> None:
    def choice(value: str) -> dict[str, Any]:
        return {"from_name": "verdict", "to_name": "answer", "type": "choices", "value": {"choices": [value]}}

    comment = {"from_name": "comment", "to_name": "answer", "type": "textarea", "value": {"text": ["made up"]}}
    task = {
        "id": 1,
        "data": {"id": "r1", "question": "?"},
        "annotations": [
            {"completed_by": 7, "result": [choice("Defect"), comment], "updated_at": "2026-03-09T22:16:08.728378Z"},
            {"completed_by": {"id": 8, "email": "bo@example.com"}, "result": [choice("Good")], "was_cancelled": False},
            {"completed_by": 9, "result": [choice("Good")], "was_cancelled": True},
        ],
    }
    untouched = {"id": 2, "data": {"id": "r2"}, "annotations": []}
    file = read_labels(json.dumps([task, untouched]).encode(), WORDS)
    assert [(one.reviewer, one.verdict, one.comment, one.at is not None) for one in file.labels] == [
        ("7", DEFECT, "made up", True),
        ("bo@example.com", GOOD, "", False),
    ]
    assert file.unlabelled == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[null, 1, [], {}]",
        b'[{"annotations": [1, {"result": 5}, {"result": [1, {"value": 3}]}], "data": {"id": "x"}}]',
        b'[{"fields": {}, "responses": {"verdict": [1, {"value": {"a": 1}}], "comment": 3}, "metadata": []}]',
        b'{"id": {"a": 1}, "human_label": ["good", "defect"]}',
        b"\xff\xfe\x00{",
        json.dumps({"id": "\ud800" * 10, "human_label": "good\x1b[31m" * 1000}).encode(),
        b'{"id": "a", "defect": true, "probability": "NaN", "weight": 1e400}',
        b'{"id": "a", "human_label": "good", "weight": 1%b, "labelled_at": -9%b}' % (b"0" * 400, b"0" * 400),
        b'{"id": "a", "human_label": 9%b}' % (b"9" * 5000),
    ],
)
def test_hostile_files_give_problems_and_no_error(content: bytes) -> None:
    file = read_labels(content, WORDS)
    assert all(len(one) < 300 for one in file.problems)


def test_a_broken_array_and_a_broken_csv_are_errors_with_their_place() -> None:
    with pytest.raises(ConfigError, match="not JSON"):
        read_labels(b'[{"id": ', WORDS)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (1_772_366_400, 1_772_366_400.0),
        ("1772366400000", 1_772_366_400.0),
        ("2026-03-01T12:00:00Z", 1_772_366_400.0),
        ("2026-03-01T13:00:00+01:00", 1_772_366_400.0),
        ("2026-03-01T12:00:00", 1_772_366_400.0),
        ("1960-03-01", None),
        (-1, None),
        (1e300, None),
        ("soon", None),
        (None, None),
        ("", None),
    ],
)
def test_a_time_that_no_calendar_can_write_is_none(value: Any, at: float | None) -> None:
    assert parse_time(value) == at
