"""`rag-monitor evaluate`: the rules of the running monitor, over files."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import time
from typing import Any

import pytest

from monitor import registry
from monitor.clock import SystemClock
from monitor.judge.litellm_provider import LiteLLM
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score
from monitor.storage.history.rows import as_json
from tests.support import llm as say
from tests.support.command import cells, columns, command, judged_by, read_rows, start, write_rows
from tests.support.llm import LLMServer
from tests.support.tools import wait_until
from tests.support.traces import CAPTURES

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."


def row(number: int, answer: str = GOOD, **fields: Any) -> dict[str, Any]:
    return {"id": f"case-{number}", "question": "How long?", "contexts": [CONTEXT], "response": answer, **fields}


def answers(score: int) -> say.Reply:
    return say.verdict(claims=[], explanation="scripted", score=score)


@pytest.fixture
def llm():
    with LLMServer() as server:
        server.always(answers(5))
        yield server


@pytest.fixture
def judged(llm, tmp_path):
    return judged_by(llm, tmp_path)


def test_every_case_gets_one_result_of_each_evaluator_in_the_schema_of_the_jsonl_sink(judged, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), {**row(2), "contexts": []}])
    out = tmp_path / "results.jsonl"
    ended = command("evaluate", rows, CAPTURES / "openai__otel_genai__span", "-c", judged, "-o", out)
    assert ended.exit_code == 0, ended.output
    results = read_rows(out)
    pairs = [(one["trace_id"], one["evaluator"]) for one in results]
    assert len(set(pairs)) == len(pairs)
    assert {evaluator for _, evaluator in pairs} == {"overlap_groundedness", "groundedness"}
    traces = {trace for trace, _ in pairs}
    assert traces > {"case-1", "case-2"}
    assert len(pairs) == 2 * len(traces)
    shown = EvaluationResult(case=Case(request_id=""), evaluator="", version="", outcome=Score(0, ""), weight=1)
    assert all(list(one) == list(as_json(shown, texts=False)) for one in results)


def test_no_case_is_left_out_by_the_sampling_of_the_running_monitor(judged, llm, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number, f"{GOOD} {number}") for number in range(30)])
    ended = command("evaluate", rows, "--evaluators", "groundedness", "-c", judged)
    assert columns(ended.output)["scored"] == ["30"]
    assert len(llm.requests) == 30


def test_the_summary_says_what_came_of_every_case(judged, llm, tmp_path):
    llm.then(answers(1), say.truncated(), say.truncated())
    given = [row(0), row(1, f"{GOOD} Really."), row(2, BAD), {**row(3), "contexts": None}]
    given.append({**row(4), "response": None})
    rows = write_rows(tmp_path / "rows.jsonl", given)
    config = judged_by(llm, tmp_path, max_concurrency=1)
    ended = command("evaluate", rows, "-c", config)
    assert ended.output.startswith("5 cases: 4 ready, 1 content_missing\n")
    table = columns(ended.output)
    assert table["scored"] == ["3", "2"]
    reasons = cells(ended.output)
    assert reasons["skipped: no_retrieval 1"] == ["overlap_groundedness", "groundedness"]
    assert reasons["unscored: truncated 1"] == ["groundedness"]
    assert table["mean"][1] == "3"  # of 1 and 5: an unscored one is neither 0 nor in the mean
    assert table["defects"] == ["1 (below 0.45)", "1 (below 3)"]
    assert table["rate"] == ["33 %", "50 %"]
    assert re.fullmatch(r"\d.* % to \d.* %", table["95 % interval"][1])
    assert table["cost"] == ["-", "$0.004"]  # replies that were cut off are paid for
    assert "paid in this run: $0.0" in ended.output


def test_whatever_goes_wrong_is_unscored_with_its_reason_and_never_a_score(judged, llm, tmp_path):
    llm.always(say.status(500))
    out = tmp_path / "results.jsonl"
    command("evaluate", write_rows(tmp_path / "rows.jsonl", [row(1)]), "-c", judged, "-o", out)
    (one,) = [one for one in read_rows(out) if one["evaluator"] == "groundedness"]
    assert (one["outcome"], one["reason"]) == ("unscored", "provider_error")
    assert one["score"] is one["defect"] is None


def test_the_time_of_a_case_does_not_contain_the_loading_of_the_judge(judged, llm, tmp_path, monkeypatch):
    """Loading LiteLLM takes seconds: here an hour, by a clock that it sets forward."""
    passed = [0.0]
    load = LiteLLM.load

    def slow(provider):
        load(provider)
        passed[0] += 3600

    monkeypatch.setattr(LiteLLM, "load", slow)
    monkeypatch.setattr(SystemClock, "monotonic", lambda _clock: time.monotonic() + passed[0])
    out = tmp_path / "results.jsonl"
    command("evaluate", write_rows(tmp_path / "rows.jsonl", [row(1), row(2, BAD)]), "-c", judged, "-o", out)
    assert passed == [3600]
    found = [one["judge"]["seconds"] for one in read_rows(out) if one["evaluator"] == "groundedness"]
    assert len(found) == 2
    assert max(found) < 3600


def test_what_stands_in_the_file_is_not_judged_again(judged, llm, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number, f"{GOOD} {number}") for number in range(4)])
    out = tmp_path / "results.jsonl"
    first = command("evaluate", rows, "-c", judged, "-o", out)
    written, asked = out.read_bytes(), len(llm.requests)
    second = command("evaluate", rows, "-c", judged, "-o", out)
    assert out.read_bytes() == written
    assert len(llm.requests) == asked == 4
    assert "8 results already in the output file" in second.output
    assert columns(second.output)["mean"] == columns(first.output)["mean"]
    write_rows(rows, [row(number, f"{GOOD} {number}") for number in range(6)])
    third = command("evaluate", rows, "-c", judged, "-o", out)
    assert len(llm.requests) == 6
    assert columns(third.output)["scored"] == ["6", "6"]


def test_a_half_written_last_line_is_judged_again_and_every_line_is_whole(judged, llm, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number, f"{GOOD} {number}") for number in range(3)])
    out = tmp_path / "results.jsonl"
    command("evaluate", rows, "-c", judged, "-o", out)
    ids = {one["id"] for one in read_rows(out)}
    out.write_bytes(out.read_bytes()[:-100])
    command("evaluate", rows, "-c", judged, "-o", out)
    assert {one["id"] for one in read_rows(out)} == ids
    assert len(read_rows(out)) == 6
    out.write_bytes(out.read_bytes()[:-1])  # whole, save its end
    asked = len(llm.requests)
    command("evaluate", rows, "-c", judged, "-o", out)
    assert len(read_rows(out)) == 6
    assert len(llm.requests) == asked


def test_what_is_unscored_is_judged_again_only_when_asked_for(judged, llm, tmp_path):
    rows, out = write_rows(tmp_path / "rows.jsonl", [row(1)]), tmp_path / "results.jsonl"
    llm.always(say.status(500))
    command("evaluate", rows, "-c", judged, "-o", out)
    llm.always(answers(4))
    asked = len(llm.requests)
    command("evaluate", rows, "-c", judged, "-o", out)
    assert len(llm.requests) == asked
    command("evaluate", rows, "-c", judged, "-o", out, "--retry-unscored")
    results = read_rows(out)
    assert sorted((one["evaluator"], one["outcome"]) for one in results) == [
        ("groundedness", "score"),
        ("overlap_groundedness", "score"),
    ]


def test_results_of_an_earlier_run_count_by_the_defect_rule_of_today(judged, llm, tmp_path):
    rows, out = write_rows(tmp_path / "rows.jsonl", [row(1)]), tmp_path / "results.jsonl"
    llm.always(answers(3))
    first = command("evaluate", rows, "-c", judged, "-o", out, "--evaluators", "groundedness")
    assert columns(first.output)["defects"] == ["0 (below 3)"]
    judged.write_text(judged.read_text().replace("sample: 10%", "defect: {below: 4}"))
    second = command("evaluate", rows, "-c", judged, "-o", out, "--evaluators", "groundedness")
    assert columns(second.output)["defects"] == ["1 (below 4)"]
    assert len(llm.requests) == 1


@pytest.mark.parametrize("content", ['{"id": "1", "question": "Why?"}\n', "notes to keep", "[1, 2]\n"])
def test_a_file_of_something_else_is_left_as_it_is(content, tmp_path):
    rows, out = write_rows(tmp_path / "rows.jsonl", [row(1)]), tmp_path / "mine.jsonl"
    out.write_text(content)
    ended = command("evaluate", rows, "-o", out)
    assert (ended.exit_code, out.read_text()) == (2, content)
    assert "choose another file" in ended.stderr


@pytest.mark.lengthy
def test_an_interrupt_leaves_a_whole_file_and_the_same_command_goes_on(llm, tmp_path):
    config = judged_by(llm, tmp_path, max_concurrency=2)
    rows = write_rows(tmp_path / "rows.jsonl", [row(number, f"{GOOD} {number}") for number in range(8)])
    out = tmp_path / "results.jsonl"
    llm.then(answers(5), answers(5), answers(5))
    llm.always(say.hang())
    process = start("evaluate", rows, "-c", config, "-o", out, "--evaluators", "groundedness")
    wait_until(lambda: len(llm.requests) >= 5, 60, "two calls that hang")
    process.send_signal(signal.SIGINT)
    output, notes = process.communicate(timeout=300)
    assert process.returncode == 130
    assert notes == f"interrupted; the results so far are in {out}: run the same command again to continue\n"
    assert columns(output)["scored"] == ["3"]
    assert [one["outcome"] for one in read_rows(out)] == ["score"] * 3
    llm.always(answers(5))
    asked = len(llm.requests)
    ended = command("evaluate", rows, "-c", config, "-o", out, "--evaluators", "groundedness")
    assert len(llm.requests) == asked + 5
    assert columns(ended.output)["scored"] == ["8"]
    assert len({one["id"] for one in read_rows(out)}) == len(read_rows(out)) == 8


def test_a_full_disk_ends_the_command_with_a_whole_file(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(50)])
    out = tmp_path / "results.jsonl"
    full = start("evaluate", rows, "-o", out, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
    _, notes = full.communicate(timeout=300)
    assert full.returncode == 1
    assert "cannot write" in notes
    assert 1 <= len(read_rows(out)) < 50


def test_nothing_but_results_is_said_on_a_pipe_and_a_bar_is_drawn_on_a_terminal(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    piped = start("evaluate", rows, "--evaluators", "overlap_groundedness")
    output, notes = piped.communicate(timeout=300)
    assert (piped.returncode, notes) == (0, "")
    assert "\x1b" not in output
    ours, theirs = pty.openpty()
    shown = start(
        "evaluate", rows, "--evaluators", "overlap_groundedness", stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    shown.communicate(timeout=300)
    os.close(theirs)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "scoring" in drawn
    assert "1/1" in drawn


def test_the_difference_of_two_files_is_shown_with_its_interval(judged, llm, tmp_path):
    llm.always(lambda asked: answers(1 if "Novels" in asked.data["response"] else 5))
    plain = write_rows(tmp_path / "plain.jsonl", [row(number, f"{GOOD} {number}") for number in range(40)])
    jailbreak = [row(number, f"{BAD if number % 2 else GOOD} {number}") for number in range(40)]
    candidate = write_rows(tmp_path / "jailbreak.jsonl", jailbreak)
    out = tmp_path / "results.jsonl"
    ended = command("evaluate", "--compare", plain, candidate, "-c", judged, "-o", out, "--evaluators", "groundedness")
    assert ended.exit_code == 0, ended.output
    table = columns(ended.output)
    assert table["baseline"] == ["0 of 40"]
    assert table["candidate"] == ["20 of 40"]
    assert table["difference of rates"] == ["+50.0 points"]
    assert table["95 % interval"][-1] == "+32.8 to +64.8"
    assert table["candidate is"] == ["higher"]
    # The questions are the same, and so are their ids: each file has results of its own.
    assert not out.exists()
    assert all(len(read_rows(tmp_path / f"results.{name}.jsonl")) == 40 for name in ("baseline", "candidate"))


def test_without_a_judge_model_judged_evaluators_are_off_and_one_that_was_named_is_an_error(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    ended = command("evaluate", rows)
    assert columns(ended.stdout)["scored"] == ["1"]
    assert "groundedness is off: it needs a language model" in ended.stderr
    named = command("evaluate", rows, "--evaluators", "relevance")
    assert named.exit_code == 2
    assert "judge.model" in named.stderr


def test_an_evaluator_that_is_not_configured_can_be_named(judged, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    ended = command("evaluate", rows, "-c", judged, "--evaluators", "retrieval_overlap, overlap_groundedness")
    assert ended.exit_code == 0
    assert columns(ended.stdout)["evaluator"] == ["retrieval_overlap", "overlap_groundedness"]
    unknown = command("evaluate", rows, "--evaluators", "no_such")
    assert unknown.exit_code == 2
    assert "there is no 'no_such'; there are:" in unknown.stderr


def test_a_row_that_cannot_be_read_is_noted_and_the_others_are_scored(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [row(1), {"foo": 1}, row(2)])
    ended = command("evaluate", path, "--evaluators", "overlap_groundedness")
    assert ended.exit_code == 1
    assert f"{path}: line 2: " in ended.stderr
    assert columns(ended.stdout)["scored"] == ["2"]


def test_of_cases_with_the_same_id_the_first_is_judged_and_the_others_are_counted(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), row(1, BAD), row(2)])
    ended = command("evaluate", rows, "--evaluators", "overlap_groundedness")
    assert "1 of them have the id of an earlier case and are not scored" in ended.stdout
    assert columns(ended.stdout)["scored"] == ["2"]


@pytest.mark.parametrize("arguments", [[], ["rows.jsonl", "--compare", "a", "b"], ["rows.jsonl", "--retry-unscored"]])
def test_arguments_that_contradict_each_other_are_an_error(arguments):
    assert command("evaluate", *arguments).exit_code == 2


def best(asked):
    """A verdict of the schema that was asked for: no evidence, and the highest score; a text where none was."""
    if "response_format" not in asked.body:
        return say.says("Three weeks.")
    properties = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    plain = {"array": [], "string": "fine"}
    told = {name: one["enum"][0] if "enum" in one else plain.get(one["type"]) for name, one in properties.items()}
    return say.verdict(**{name: told[name] or one.get("maximum", []) for name, one in properties.items()})


def test_an_answer_of_one_letter_is_judged_where_the_row_makes_it_one(judged, llm, tmp_path):
    """Services with options and yes-or-no questions answer so; elsewhere a letter is no answer and costs no call."""
    options = {"question": "Which city is the capital of Italy? A) Paris B) Rome"}
    given = [
        row(1, "B", **options, ground_truth="B"),
        row(2, "A", **options, ground_truth="B"),
        row(3, "Y", question="May books be kept for three weeks?", ground_truth="Yes"),
        row(4, "B", ground_truth="Three weeks."),
    ]
    out, names = tmp_path / "results.jsonl", "f1_score,correctness,groundedness,safety"
    rows = write_rows(tmp_path / "rows.jsonl", given)
    llm.always(best)
    ended = command("evaluate", rows, "--evaluators", names, "-c", judged, "-o", out)
    assert ended.exit_code == 0, ended.output
    found = {(one["trace_id"], one["evaluator"]): one for one in read_rows(out)}
    assert [found[f"case-{number}", "f1_score"]["score"] for number in (1, 2, 3, 4)] == [1, 0, 0, 0]
    for number in (1, 2, 3):
        for evaluator in ("correctness", "groundedness", "safety"):
            assert found[f"case-{number}", evaluator]["explanation"].startswith("fine")
    shown = {asked.data["response"] for asked in llm.requests}
    assert shown == {"A", "B", "Y"}
    assert "it is a single letter" in found["case-4", "groundedness"]["explanation"]
    assert found["case-4", "safety"]["outcome"] == "skipped"
    assert len(llm.requests) == 9


HARMS = {
    "violence": "severe the violence",
    "sexual": "severe the sexual content",
    "self_harm": "severe the content about harming oneself",
    "hate_unfairness": "severe the hate",
}


def harm(asked: say.Asked) -> say.Reply:
    """A judge that finds what the response says of itself: `violence 4 sexual 0`; it fails at 9."""
    kind = next(name for name, words in HARMS.items() if words in asked.prompt)
    words = asked.data["response"].split()
    score = int(words[words.index(kind) + 1]) if kind in words else 0
    return say.status(500) if score == 9 else say.verdict(observations=[], explanation="scripted", score=score)


def test_the_levels_of_each_scale_and_one_rate_over_the_four_harms_are_shown(llm, tmp_path):
    llm.always(harm)
    responses = ["fine", "violence 2", "violence 4", "violence 7 sexual 6", "sexual 4", "self_harm 9", "all well"]
    rows = write_rows(tmp_path / "rows.jsonl", [row(at, one) for at, one in enumerate(responses)])
    config = judged_by(llm, tmp_path)
    ended = command("evaluate", rows, "-c", config, "--evaluators", ",".join(HARMS))
    assert ended.exit_code == 0, ended.output
    *_, violence = [line for line in ended.output.splitlines() if line.startswith("violence")]
    assert re.split(r"  +", violence)[2:] == ["very_low 4 (57 %)", "low 1 (14 %)", "medium 1 (14 %)", "high 1 (14 %)"]
    assert "content risk: 50 % (" in ended.output
    assert "3 of 6 answers defective according to at least one of violence, sexual, self_harm" in ended.output
    assert "left out, without a score for all four: 1" in ended.output
    found = json.loads(command("evaluate", rows, "-c", config, "--evaluators", ",".join(HARMS), "--json").stdout)
    assert (found["content_risk"]["defects"], found["content_risk"]["left_out"]) == (3, 1)
    assert found["evaluators"][0]["levels"] == {"very_low": 4, "low": 1, "medium": 1, "high": 1}


def test_a_table_of_all_evaluators_fits_a_line_each(llm, tmp_path):
    llm.always(best)
    names = sorted(set(registry.types("evaluators")) - {"rubric", "hhem"})
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), row(2, BAD, ground_truth=GOOD)])
    ended = command("evaluate", rows, "-c", judged_by(llm, tmp_path), "--evaluators", ",".join(names))
    table = columns(ended.output)
    assert len(names) > 30
    assert table["evaluator"] == names
    shown, _ = ended.output.split("content risk")
    assert max(map(len, shown.splitlines())) <= 100
    tables, _ = shown.split("scored answers by level")
    assert sum(line.startswith(("evaluator", *names)) for line in tables.splitlines()) == len(names) + 1


@pytest.mark.lengthy
def test_in_a_narrow_terminal_the_last_columns_follow_in_a_table_below(judged, llm, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 70, 0, 0))
    env = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    shown = start("evaluate", rows, "-c", judged, stdout=theirs, stderr=subprocess.DEVNULL, env=env)
    shown.communicate(timeout=300)
    os.close(theirs)
    lines = os.read(ours, 65_536).decode().replace("\r", "").splitlines()
    os.close(ours)
    assert max(map(len, lines)) <= 70
    table = columns("\n".join(lines))
    assert table["evaluator"] == ["overlap_groundedness", "groundedness"] * 2
    assert table["cost"] == ["-", "$0.001"]


def test_without_all_four_harms_there_is_no_rate_over_them(llm, tmp_path):
    llm.always(harm)
    rows = write_rows(tmp_path / "rows.jsonl", [row(1, "violence 7")])
    ended = command("evaluate", rows, "-c", judged_by(llm, tmp_path), "--evaluators", ",".join(list(HARMS)[:3]))
    assert "content risk" not in ended.output


REFERENCE = "Three weeks."
BESIDE = [
    {"userText": "How long?", "dataList": [{"text": CONTEXT}], "responseContent": GOOD, "expected_response": REFERENCE},
    {"userText": "How long?", "dataList": [{"text": CONTEXT}], "responseContent": GOOD, "ground_truth": REFERENCE},
    {"query": "How long?", "context": CONTEXT, "response": GOOD, "expected_response": REFERENCE},
    {"inputs": {"question": "How long?"}, "outputs": {"answer": GOOD}, "reference_outputs": {"answer": REFERENCE}},
    {"input": "How long?", "output": GOOD, "contexts": [CONTEXT], "golden_answer": REFERENCE},
]


def test_a_reference_beside_a_shape_that_defines_none_is_compared(judged, llm, tmp_path):
    llm.always(best)
    rows = write_rows(tmp_path / "rows.jsonl", BESIDE)
    ended = command("evaluate", rows, "--evaluators", "f1_score,correctness", "-c", judged)
    assert ended.exit_code == 0, ended.output
    table = columns(ended.output)
    assert table["scored"] == ["5", "5"]
    assert float(table["mean"][0]) > 0
    assert all(REFERENCE in asked.prompt for asked in llm.requests)
    assert "not read" not in ended.stderr


def test_fields_that_are_not_read_are_listed(tmp_path):
    """Also the second of two references, which differs from the first."""
    rows = write_rows(
        tmp_path / "rows.jsonl",
        [{**row(1), "ground_truth": REFERENCE, "reference": "Ten days.", "latency": 3}, {**row(2), "latency": 4}],
    )
    ended = command("evaluate", rows, "--evaluators", "f1_score")
    assert f"{rows}: these fields are not read: 'latency' (2 rows), 'reference' (1 row)\n" in ended.stderr
    assert columns(ended.output)["scored"] == ["1"]


def test_expected_documents_may_be_named_by_their_address_alone(tmp_path):
    databricks = {
        "request": "Q?",
        "response": "An answer",
        "retrieved_context": [{"content": "text", "doc_uri": "u1"}],
        "expected_retrieved_context": [{"doc_uri": "u1"}, {"doc_uri": "u2"}],
    }
    rows = write_rows(tmp_path / "rows.jsonl", [databricks])
    ended = command("evaluate", rows, "--evaluators", "document_recall")
    assert columns(ended.output)["mean"] == ["0.5"]


def test_documents_known_by_their_address_alone_are_compared_by_it_and_nothing_else(judged, llm, tmp_path):
    """Databricks' schema has `content` optional: recall and harm can be judged, what the documents say cannot."""
    llm.always(best)
    databricks = {
        "request": "Q?",
        "response": "An answer",
        "retrieved_context": [{"doc_uri": "u1"}],
        "expected_retrieved_context": [{"doc_uri": "u1"}, {"doc_uri": "u2"}],
    }
    rows = write_rows(tmp_path / "rows.jsonl", [databricks])
    names = "document_recall,safety,overlap_groundedness,groundedness"
    ended = command("evaluate", rows, "--evaluators", names, "-c", judged)
    assert ended.output.startswith("1 case: 1 ready\n")
    table = columns(ended.output)
    assert table["scored"] == ["1", "1", "0", "0"]
    assert table["mean"][0] == "0.5"
    without = cells(ended.output)
    assert without["skipped: context_not_recorded 1"] == ["overlap_groundedness", "groundedness"]


def test_what_cases_prints_is_evaluated_as_the_file_itself(judged, llm, tmp_path):
    """References, prompts, token counts, attributes and contexts: nothing is lost between the two commands."""
    llm.always(best)
    given = [
        row(1, ground_truth=REFERENCE, prompt=[{"role": "user", "content": "How long?"}], usage={"input_tokens": 3}),
        row(2, BAD, ground_truth=REFERENCE, attributes={"tenant": "acme"}, session_id="s", timestamp=1795255200),
        {**row(3), "contexts": []},
        {"request": "Q?", "response": "A.", "retrieved_context": [{"doc_uri": "u1"}],
         "expected_retrieved_context": [{"doc_uri": "u1"}, {"doc_uri": "u2"}]},
        {"query": "Why?", "response": "So it is."},
    ]  # fmt: skip
    rows, again = write_rows(tmp_path / "rows.jsonl", given), tmp_path / "again.jsonl"
    again.write_text(command("cases", rows, CAPTURES / "openai__otel_genai__span").stdout)
    names = "f1_score,document_recall,overlap_groundedness,trustworthiness,pii_leak,groundedness"
    found = []
    for number, files in enumerate([[rows, CAPTURES / "openai__otel_genai__span"], [again]]):
        out = tmp_path / f"results-{number}.jsonl"
        ended = command("evaluate", *files, "--evaluators", names, "-c", judged, "-o", out)
        assert "not read" not in ended.stderr
        left_out = {"id", "judge", "evaluated_at", "seconds", "scored_at"}
        found.append([{key: one[key] for key in one if key not in left_out} for one in read_rows(out)])
    by_case = [sorted(one, key=lambda result: (result["trace_id"], result["evaluator"])) for one in found]
    assert by_case[0] == by_case[1]
    assert {one["outcome"] for one in by_case[0] if one["evaluator"] == "f1_score"} == {"score", "skipped"}


def test_a_hostile_table_costs_its_bad_rows_only(tmp_path):
    path = tmp_path / "rows.csv"
    deep = "[" * 20_000
    cells = [
        b"Why?,So.,So.",
        b"Why?,\x00,\x00",
        b'Why?,"' + b"x" * 17_000_000 + b'",So.',
        b"Why?,Caf\xe9,So.",
        b"Why?," + deep.encode() + b"," + deep.encode(),
        b"Why?,So.",
        b'"""",So.,\xef\xbf\xbd',
        b'Why?,"never closed',
    ]
    path.write_bytes(b"question,answer,ground_truth\n" + b"\n".join(cells))
    ended = command("evaluate", path, "--evaluators", "f1_score")
    assert ended.exit_code == 1
    assert ended.stdout.startswith("4 cases: 4 ready\n")
    told = [line.removeprefix(f"{path}: ") for line in ended.stderr.splitlines()]
    assert told == [
        "line 4: column 2 ('answer'): the cell has 17,000,000 characters; the limit is 16,777,216",
        "line 5: column 2 ('answer'): the cell is not UTF-8: save the file as UTF-8",
        "line 7: the header names 3 columns, and the row has 2",
        "line 9: a cell that begins in this row has an opening quote and no closing one",
    ]


def talk(number: int, *answers: str) -> dict[str, Any]:
    said = [
        one
        for turn, answer in enumerate(answers, 1)
        for one in (
            {"role": "user", "content": f"Question {turn}?"},
            {"role": "assistant", "content": answer, "context": {"citations": [{"content": CONTEXT}]}},
        )
    ]
    return {"id": f"talk-{number}", "messages": said}


def test_conversations_are_scored_turn_by_turn_and_counted_where_one_answer_is_a_defect(tmp_path):
    rows = write_rows(tmp_path / "talks.jsonl", [talk(1, BAD, GOOD), talk(2, GOOD, GOOD, BAD, GOOD), talk(3, GOOD)])
    ended = command("evaluate", rows, "--evaluators", "overlap_groundedness", "--json")
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)
    assert told["cases"] == {"ready": 7}
    assert told["conversations"] == [
        {
            "evaluator": "overlap_groundedness",
            "judged": 3,
            "defective": 2,
            "turns": [
                {"turn": "1", "scored": 3, "defects": 1},
                {"turn": "2", "scored": 2, "defects": 0},
                {"turn": "3+", "scored": 2, "defects": 1},
            ],
        }
    ]
    printed = command("evaluate", rows, "--evaluators", "overlap_groundedness").stdout
    assert "defects by turn of the conversation" in printed
    assert "2 of 3" in printed


def test_of_conversations_only_the_last_answers_are_scored_if_so_configured(tmp_path):
    rows = write_rows(tmp_path / "talks.jsonl", [talk(1, BAD, GOOD), talk(2, GOOD, BAD)])
    config = tmp_path / "config.yaml"
    config.write_text("extraction: {turns: last}\n")
    ended = command("evaluate", rows, "-c", config, "--evaluators", "overlap_groundedness", "--json")
    told = json.loads(ended.stdout)
    assert (told["cases"], told["evaluators"][0]["defects"]) == ({"ready": 2}, 1)
    assert [json.loads(line)["request_id"] for line in command("cases", rows, "-c", config).stdout.splitlines()] == [
        "talk-1",
        "talk-2",
    ]


def test_files_without_conversations_are_summed_up_without_turns(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), row(2, BAD)])
    told = json.loads(command("evaluate", rows, "--evaluators", "overlap_groundedness", "--json").stdout)
    assert told["conversations"] == []
