"""Labels as files that are read again without loss."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.label import Label, LabelDraw, LabelVerdict
from monitor.operations.labels.reading import ReadLabel, VerdictWords, read_labels
from monitor.operations.labels.writing import LabelFormat, write_labels
from tests.support.labels import label

CASE: dict[str, Any] = {
    "id": f"{1:032x}",
    "request_id": "request-1",
    "app": "shop",
    "evaluator": "groundedness",
    "version": "1",
    "request": {"query": "=HYPERLINK(1)", "history": []},
    "retrieved_context": [{"content": "one", "doc_uri": "a"}, {"content": "two", "doc_uri": "b"}],
    "response": "+1",
}
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(str.strip)


def same(read: ReadLabel, written: Label) -> bool:
    assert read.judgement is not None
    said = (read.judgement.app, read.judgement.version, read.judgement.defect, read.judgement.weight)
    return (
        (read.result_id, read.request_id, read.evaluator, read.reviewer, read.verdict, read.comment, read.level)
        == (
            *(written.result_id, written.request_id, written.evaluator, written.reviewer, written.verdict),
            *(written.comment, written.level),
        )
        and said == (written.app, written.version, written.judged_defect, written.weight)
        and (read.draw, read.probability, read.at) == (written.draw, written.probability, written.at)
    )


@given(
    one=st.builds(
        label,
        st.just(1),
        comment=TEXT,
        reviewer=TEXT.filter(bool),
        verdict=st.sampled_from(LabelVerdict),
        level=st.none() | TEXT.filter(bool),
        draw=st.sampled_from([LabelDraw.UNIFORM, LabelDraw.STRATIFIED]),
        probability=st.just(0.125),
        judged_defect=st.booleans(),
        weight=st.floats(1, 1e6),
    ),
    form=st.sampled_from([LabelFormat.JSONL, LabelFormat.CSV]),
)
def test_a_label_comes_back_from_its_row_as_it_was(one: Label, form: LabelFormat) -> None:
    file = read_labels(write_labels(form, [one], {}).encode(), VerdictWords(), name=f"labels.{form.value}")
    assert not file.problems
    (read,) = file.labels
    assert same(read, one)


def test_no_cell_of_a_csv_file_is_run_as_a_formula() -> None:
    text = write_labels(LabelFormat.CSV, [label(1, comment="@SUM(A1)", reviewer="-1")], {CASE["id"]: CASE})
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["comment"], row["reviewer"], row["question"], row["answer"]) == (
        "'@SUM(A1)",
        "'-1",
        "'=HYPERLINK(1)",
        "'+1",
    )


def test_tasks_for_argilla_and_label_studio_come_back_with_two_peoples_answers() -> None:
    labels = [label(1, verdict=LabelVerdict.DEFECT, comment="made up"), label(1, reviewer="bo")]
    unlabelled = {**CASE, "id": "f" * 32, "request_id": "request-2", "draw": "stratified", "probability": 0.5}
    for form in (LabelFormat.ARGILLA, LabelFormat.LABEL_STUDIO):
        text = write_labels(form, [*labels, label(9)], {CASE["id"]: CASE, unlabelled["id"]: unlabelled})
        file = read_labels(text.encode(), VerdictWords())
        assert [(one.reviewer, one.verdict, one.comment) for one in file.labels] == [
            ("ana", LabelVerdict.DEFECT, "made up"),
            ("bo", LabelVerdict.GOOD, ""),
        ]
        assert file.unlabelled == 1
        assert not file.problems
        assert "one" in text


def test_the_way_a_task_was_drawn_survives_the_tool() -> None:
    drawn = {**CASE, "draw": "stratified", "probability": 0.5}
    (task,) = json.loads(write_labels(LabelFormat.LABEL_STUDIO, [], {CASE["id"]: drawn}))
    choice = {"from_name": "verdict", "type": "choices", "value": {"choices": ["good"]}}
    task["annotations"] = [{"completed_by": 1, "result": [choice]}]
    (read,) = read_labels(json.dumps([task]).encode(), VerdictWords()).labels
    assert (read.result_id, read.draw, read.probability) == (CASE["id"], "stratified", 0.5)
