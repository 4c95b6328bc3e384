"""`rag-monitor benchmark`: evaluators against labels."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from monitor import registry
from monitor.stages import Evaluator
from tests.support import llm as say
from tests.support.command import cells, columns, command, judged_by, read_rows, write_rows
from tests.support.llm import LLMServer
from tests.support.paths import DATA

SAMPLE = DATA / "labelled_sample.jsonl"


@pytest.fixture
def llm():
    with LLMServer() as server:
        yield server


def measured(*arguments: object) -> dict[str, Any]:
    """The one file of `--json`."""
    ended = command("benchmark", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    (one,) = json.loads(ended.stdout)["files"]
    return one


def test_the_table_shows_quality_threshold_calibration_and_time():
    ended = command("benchmark", SAMPLE, "--evaluators", "overlap_groundedness")
    assert ended.exit_code == 0, ended.output
    heading, *_ = ended.stdout.splitlines()
    assert heading == "labelled_sample.jsonl: 29 labelled answers in 29 groups, 13 (45 %) are defective"
    table = columns(ended.stdout)
    assert table["AUROC"][0].startswith("1.000 (")
    assert table["scored"] == ["29"]
    assert table["configured rule"] == ["below 0.45"]
    assert {"average precision", "best threshold by F1", "calibration error", "time a case, p50, p95"} <= set(table)


def test_many_evaluators_are_lines_of_tables_that_fit_and_missing_scores_are_listed_by_reason():
    every = (registry.component("evaluators", name, Evaluator) for name in registry.types("evaluators"))
    local = [one.name for one in every if one.cost == "local" and not one.rescores]  # one that learns takes half
    ended = command("benchmark", SAMPLE, "--evaluators", ",".join(local))
    assert ended.exit_code == 0, ended.output
    assert max(map(len, ended.stdout.splitlines())) <= 100
    table = columns(ended.stdout)
    assert table["evaluator"][: len(local)] == local
    assert len(table["AUROC"]) == len(table["configured rule"]) == len(local)
    listed = cells(ended.stdout.partition("answers without a score")[2])
    assert "f1_score" in listed["skipped: no_reference 29"]


def test_one_that_learns_is_side_by_side_with_what_it_began_with_on_the_half_it_did_not_learn_from():
    names = "overlap_groundedness,learned_groundedness"
    ended = command("benchmark", SAMPLE, "--evaluators", names)
    assert ended.exit_code == 0, ended.output
    table = columns(ended.stdout)
    assert table["evaluator"][:2] == names.split(",")
    assert table["configured rule"] == ["below 0.45", "none, it only ranks"]
    machine = measured(SAMPLE, "--evaluators", names)
    assert 0 < machine["trained_on"] < 29
    assert f"learned from {machine['trained_on']} of them, half of the groups" in ended.stdout
    assert [one["scored"] for one in machine["evaluators"]] == [29 - machine["trained_on"]] * 2
    assert measured(SAMPLE, "--evaluators", "overlap_groundedness")["trained_on"] is None


def test_machines_get_the_same_numbers_twice():
    first, second = (measured(SAMPLE, "--evaluators", "overlap_groundedness") for _ in range(2))
    for one in (first, second):
        (evaluator,) = one["evaluators"]
        seconds = evaluator.pop("seconds")
        assert 0 < seconds["median"] <= seconds["p95"]
    assert first == second
    assert (first["rows"], first["defective"], first["groups"]) == (29, 13, 29)
    assert evaluator["auroc"] == 1.0
    tested = sum(evaluator["best_f1"][name] for name in ("caught", "missed", "alarmed", "passed"))
    assert sum(one["number"] for one in evaluator["reliability"]) == tested < 29
    assert evaluator["best_f1"]["rule"].keys() == {"below"}


def test_a_table_is_measured_as_lines_are(tmp_path):
    """Labels are texts in a table."""
    table = tmp_path / "labelled.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        rows = read_rows(SAMPLE)
        writer.writerow(rows[0])
        writer.writerows([json.dumps(v) if isinstance(v, list | dict) else v for v in one.values()] for one in rows)
    ones = [measured(path, "--evaluators", "overlap_groundedness") for path in (SAMPLE, table)]
    assert ones[0]["evaluators"][0]["auroc"] == ones[1]["evaluators"][0]["auroc"] == 1.0
    assert [(one["rows"], one["defective"]) for one in ones] == [(29, 13)] * 2


def test_a_judge_is_measured_over_http_with_its_cost_and_what_it_left_unscored(llm, tmp_path):
    rows = read_rows(SAMPLE)
    defective = {row["response"] for row in rows if row["label"]}
    lost = rows[0]["response"]

    def reply(asked: say.Asked) -> say.Reply:
        if asked.data["response"] == lost:
            return say.refusal()
        score = 1 if asked.data["response"] in defective else 5
        return say.verdict(claims=[], explanation="scripted", score=score)

    llm.always(reply)
    found = measured(SAMPLE, "-c", judged_by(llm, tmp_path))
    local, judge = found["evaluators"]
    assert (local["evaluator"], judge["evaluator"]) == ("overlap_groundedness", "groundedness")
    assert judge["not_scored"] == [{"outcome": "unscored", "reason": "refusal", "count": 1}]
    assert (local["scored"], judge["scored"]) == (29, 28)
    assert judge["auroc"] == judge["average_precision"] == 1.0
    assert judge["best_f1"]["rule"] == {"below": 3.0}
    assert judge["best_f1"]["f1"] == judge["configured_rule"]["balanced_accuracy"] == 1.0
    assert judge["dollars"] == {"median": pytest.approx(0.001), "p95": pytest.approx(0.001)}
    assert judge["dollars_of_results"] == pytest.approx(29 * 0.001), "a refusal is paid for"
    assert found["dollars_paid"] == pytest.approx(len(llm.requests) * 0.001)
    assert local["dollars_of_results"] == 0


def test_the_direction_comes_from_the_scale_and_a_judge_that_is_always_wrong_shows_it(llm, tmp_path):
    defective = {row["response"] for row in read_rows(SAMPLE) if row["label"]}
    llm.always(
        lambda asked: say.verdict(claims=[], explanation="", score=5 if asked.data["response"] in defective else 1)
    )
    config = judged_by(llm, tmp_path)
    (judge,) = measured(SAMPLE, "-c", config, "--evaluators", "groundedness")["evaluators"]
    assert judge["auroc"] == 0.0


def test_any_shape_of_row_can_carry_a_label_and_needs_no_question(tmp_path):
    text = "Books may be kept for three weeks."
    rows = [
        {"user_input": "How long?", "retrieved_contexts": [text], "response": text, "label": 0},
        {"query": "How long?", "context": text, "response": "Ten days for subscribers.", "label": True},
        {"question": "", "contexts": [text], "response": text, "label": False},
        {"question": "", "contexts": [text], "response": "", "label": 1},
    ]
    found = measured(write_rows(tmp_path / "rows.jsonl", rows), "--evaluators", "overlap_groundedness")
    assert (found["rows"], found["defective"], found["without_answer"]) == (3, 1, 1)
    assert found["evaluators"][0]["auroc"] == 1.0


def test_a_row_without_a_label_is_noted_with_its_line_and_the_others_are_measured(tmp_path):
    rows = [*read_rows(SAMPLE), {**read_rows(SAMPLE)[0], "label": "bad"}, {"label": 1}]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    ended = command("benchmark", path, tmp_path / "missing.jsonl", "--evaluators", "overlap_groundedness")
    assert ended.exit_code == 1
    first, second, third = ended.stderr.splitlines()
    assert first == f"{path}: line 30: `label` is 'bad', but must be 1 (defective) or 0 (good)"
    assert second.startswith(f"{path}: line 31: the row has 'label'")
    assert third == f"{tmp_path / 'missing.jsonl'}: cannot be read: No such file or directory"
    assert columns(ended.stdout)["scored"] == ["29"]


def test_rows_of_one_group_are_resampled_and_split_together(tmp_path):
    rows = [{**row, "group": number % 4} for number, row in enumerate(read_rows(SAMPLE))]
    found = measured(write_rows(tmp_path / "rows.jsonl", rows), "--evaluators", "overlap_groundedness")
    assert found["groups"] == 4


def test_rows_with_the_same_id_are_all_measured(tmp_path):
    rows = [{**row, "id": "same"} for row in read_rows(SAMPLE)]
    found = measured(write_rows(tmp_path / "rows.jsonl", rows), "--evaluators", "overlap_groundedness")
    assert found["evaluators"][0]["scored"] == 29


def test_a_limit_takes_the_same_rows_each_time_and_not_simply_the_first(tmp_path):
    rows = [{**row, "id": str(number)} for number, row in enumerate(read_rows(SAMPLE) * 4)]
    ordered = write_rows(tmp_path / "rows.jsonl", sorted(rows, key=lambda row: row["label"]))
    found = measured(ordered, "--evaluators", "overlap_groundedness", "--limit", 40)
    assert found["rows"] == 40
    assert 8 <= found["defective"] <= 28
    turned = write_rows(tmp_path / "turned.jsonl", sorted(rows, key=lambda row: -row["label"]))
    again = measured(turned, "--evaluators", "overlap_groundedness", "--limit", 40)
    assert again["defective"] == found["defective"]


def test_the_plot_holds_a_curve_for_each_evaluator_and_file(tmp_path):
    other = write_rows(tmp_path / "other.jsonl", read_rows(SAMPLE))
    plot = tmp_path / "roc.svg"
    evaluators = "overlap_groundedness,retrieval_overlap"
    ended = command("benchmark", SAMPLE, other, "--evaluators", evaluators, "--plot", plot)
    assert ended.exit_code == 0
    texts = [element.text for element in ET.parse(plot).iter() if element.tag.endswith("text")]
    assert "overlap_groundedness, other, AUROC 1.000" in texts
    assert sum(", AUROC " in text for text in texts) == 4


def test_a_plot_that_cannot_be_written_is_an_error_before_anything_is_asked(llm, tmp_path):
    config = judged_by(llm, tmp_path)
    ended = command("benchmark", SAMPLE, "-c", config, "--plot", tmp_path / "no such folder" / "roc.svg")
    assert ended.exit_code == 2
    assert llm.requests == []


def test_one_kind_of_label_has_no_auroc_and_says_so(tmp_path):
    rows = [row for row in read_rows(SAMPLE) if row["label"]]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    (one,) = measured(path, "--evaluators", "overlap_groundedness")["evaluators"]
    assert one["auroc"] is one["best_f1"] is one["calibration_error"] is None
    assert not any(isinstance(value, float) and math.isnan(value) for value in one.values())
    shown = columns(command("benchmark", path, "--evaluators", "overlap_groundedness").stdout)
    assert "AUROC" not in shown


def test_a_table_with_another_header_is_refused_and_the_next_file_is_measured(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("Question,Answer,label\nWhy?,So.,1\n")
    ended = command("benchmark", path, SAMPLE, "--evaluators", "overlap_groundedness")
    assert ended.exit_code == 1
    assert f"{path}: cannot be read: line 1: the header has" in ended.stderr
    assert "did you mean 'question', 'answer'?" in ended.stderr
    assert "29 labelled answers" in ended.stdout


PROMPT = "Answer strictly by the context. {context} {question}"


def test_trustworthiness_is_measured_on_rows_with_the_prompt_of_the_service(llm, tmp_path):
    """As in the study of detectors: rows hold question, context and response, and the prompt is the same for all."""
    rows = read_rows(SAMPLE)
    by_question = {row["question"]: row for row in rows if not row["label"]}

    def reply(asked: say.Asked) -> say.Reply:
        if "response_format" not in asked.body:  # a new answer to the service's own prompt
            (message,) = asked.body["messages"]
            question = next(one for one in by_question if message["content"].endswith(f" {one}"))
            assert message["content"].startswith("Answer strictly by the context. ")
            return say.says(by_question[question]["response"])
        return say.verdict(explanation="scripted", verdict="unsure")

    llm.always(reply)
    config = judged_by(llm, tmp_path)
    arguments = (SAMPLE, "-c", config, "--evaluators", "trustworthiness", "--limit", 8)
    (skipped,) = measured(*arguments)["evaluators"]
    assert skipped["not_scored"] == [{"outcome": "skipped", "reason": "no_prompt", "count": 8}]
    assert llm.requests == []
    (found,) = measured(*arguments, "--prompt", PROMPT)["evaluators"]
    assert found["not_scored"] == []
    assert found["auroc"] == 1.0
    with config.open("a") as file:
        file.write(f"extraction: {{row_prompt: '{PROMPT}'}}\n")
    assert measured(*arguments)["evaluators"][0]["auroc"] == 1.0


def test_a_prompt_without_the_question_is_refused_before_anything_is_read(tmp_path):
    ended = command("benchmark", SAMPLE, "--prompt", "{context} {name}")
    assert ended.exit_code == 2
    assert "{name} is not a placeholder" in ended.stderr
