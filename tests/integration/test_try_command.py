"""`rag-monitor try`: one evaluator on one case, over real HTTP, with what went over the wire."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Score
from monitor.sinks.history import HistorySink
from monitor.stages import Runtime
from tests.support import llm as say
from tests.support.command import command, judged_by, write_rows
from tests.support.llm import LLMServer
from tests.support.traces import CAPTURES

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
ANSWER = "Books may be kept for three weeks."
TRACE = "0af7651916cd43dd8448eb211c80319c"


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"case-{number}", "question": "How long?", "contexts": [CONTEXT], "response": ANSWER, **fields}


def answers(score: int) -> say.Reply:
    return say.verdict(claims=[], explanation=f"scripted {score}", score=score)


@pytest.fixture
def llm():
    with LLMServer() as server:
        server.always(answers(5))
        yield server


@pytest.fixture
def judged(llm, tmp_path):
    return judged_by(llm, tmp_path)


@pytest.fixture
def one(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", [row(1)])


def tried(*arguments: object) -> dict[str, Any]:
    ended = command("try", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_the_prompt_and_the_reply_are_those_that_went_over_the_wire(judged, llm, one):
    found = tried("groundedness", "--case", one, "-c", judged, "-k", 1)
    (call,) = found["times"][0]["calls"]
    (asked,) = llm.requests
    assert call["messages"] == asked.body["messages"]
    assert call["response_format"] == asked.body["response_format"]
    assert (call["max_tokens"], call["temperature"]) == (asked.body["max_tokens"], asked.body["temperature"])
    assert call["reply"]["text"] == answers(5).body["choices"][0]["message"]["content"]
    shown = command("try", "groundedness", "--case", one, "-c", judged, "-k", 1).stdout
    for message in llm.requests[1].body["messages"]:
        assert message["content"] in shown
    assert call["reply"]["text"] in shown


def test_each_time_is_a_call_of_its_own_and_the_flips_are_counted(judged, llm, one):
    llm.then(answers(5), answers(2), answers(4), answers(1), answers(5))
    found = tried("groundedness", "--case", one, "-c", judged)
    assert len(llm.requests) == 5
    assert [time["score"] for time in found["times"]] == [5, 2, 4, 1, 5]
    assert (found["scored"], found["flips"]) == (5, 2)
    assert found["dollars"] == pytest.approx(0.005)
    llm.then(answers(5), answers(2), answers(4))
    shown = command("try", "groundedness", "--case", one, "-c", judged, "-k", 3).stdout
    assert "scores: 5 2 4\n" in shown
    assert "results: 2 x no defect, 1 x defect (below 3 is a defect)\n" in shown
    assert "flips: 1 of 3\n" in shown
    assert "cost: $0.003\n" in shown


def test_a_reply_that_cannot_be_read_is_shown_with_what_was_asked_after_it(judged, llm, one):
    llm.then(say.says("I think it is fine."))
    found = tried("groundedness", "--case", one, "-c", judged, "-k", 1)
    first, second = found["times"][0]["calls"]
    assert first["reply"]["text"] == "I think it is fine."
    assert second["messages"] == llm.requests[1].body["messages"] != first["messages"]
    assert found["times"][0]["score"] == 5


@pytest.mark.parametrize(
    ("script", "why"),
    [(say.bad_key(), "unscored: auth, the provider rejects the key"), (say.status(500), "unscored: provider_error")],
)
def test_where_no_verdict_comes_about_the_reason_is_said_and_the_status_is_1(judged, llm, one, script, why):
    llm.always(script)
    ended = command("try", "groundedness", "--case", one, "-c", judged, "-k", 1)
    assert ended.exit_code == 1
    assert why in ended.stdout
    assert "--- reply as received\nnone: the provider" in ended.stdout
    assert "no score in 1 of 1" in ended.stdout


def test_text_that_could_steer_a_terminal_is_shown_harmlessly_and_kept_as_it_is_for_machines(judged, llm, one):
    llm.then(say.says("red \u001b[31m alert"), answers(5), say.says("red \u001b[31m alert"), answers(5))
    shown = command("try", "groundedness", "--case", one, "-c", judged, "-k", 1).stdout
    assert "red " in shown
    assert "\u001b" not in shown
    found = tried("groundedness", "--case", one, "-c", judged, "-k", 1)
    assert found["times"][0]["calls"][0]["reply"]["text"] == "red \u001b[31m alert"


def test_evaluators_of_one_group_are_asked_in_one_call_as_in_production(llm, one, judged):
    settings = yaml.safe_load(judged.read_text())
    settings["evaluators"] = [{"type": "groundedness", "group": "g"}, {"type": "relevance", "group": "g"}]
    judged.write_text(yaml.safe_dump(settings))
    score = {"explanation": "scripted", "score": 2}
    llm.always(say.verdict(groundedness={**score, "claims": []}, relevance={**score, "observations": []}))
    ended = command("try", "relevance", "--case", one, "-c", judged, "-k", 1)
    assert "asked in one call together with groundedness" in ended.stdout
    assert "score 2" in ended.stdout
    (asked,) = llm.requests
    assert set(asked.body["response_format"]["json_schema"]["schema"]["properties"]) == {"groundedness", "relevance"}


def test_a_local_evaluator_has_no_prompt_and_costs_nothing(one):
    ended = command("try", "overlap_groundedness", "--case", one)
    assert ended.exit_code == 0
    assert "it uses no judge" in ended.stdout
    assert "flips: 0 of 5" in ended.stdout
    assert "cost" not in ended.stdout


def test_a_capture_or_the_numbered_case_of_a_file_can_be_tried(judged, llm, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), row(2, response=None), row(3)])
    assert tried("overlap_groundedness", "--case", rows, "--number", 3)["trace_id"] == "case-3"
    assert tried("overlap_groundedness", "--case", CAPTURES / "openai__otel_genai__span")["trace_id"]
    missing = command("try", "overlap_groundedness", "--case", rows, "--number", 2)
    assert (missing.exit_code, "cannot be evaluated: content_missing" in missing.stderr) == (2, True)
    beyond = command("try", "overlap_groundedness", "--case", rows, "--number", 9)
    assert (beyond.exit_code, "it has 3" in beyond.stderr) == (2, True)


def kept(folder: Path, *, texts: str) -> Path:
    """A configuration over a history that holds one result."""
    case = Case(
        request_id=TRACE,
        span_id="00f067aa0ba902b7",
        app="shop",
        request=Request("How long?"),
        retrieved_context=(Document(CONTEXT),),
        response=ANSWER,
    )
    judged = EvaluationResult(
        case=case, evaluator="groundedness", version="1", outcome=Score(5, ""), weight=1, evaluated_at=1e9
    )

    async def write() -> None:
        history = HistorySink(path=folder / "history.db", texts=texts, retention=1e12)
        async with history.open(Runtime.standalone()) as deliver:
            await deliver([judged])

    anyio.run(write)
    path = folder / "kept.yaml"
    path.write_text(yaml.safe_dump({"storage": {"path": str(folder), "texts": texts}}))
    return path


def test_a_trace_of_the_history_is_tried_with_the_texts_that_were_judged(tmp_path, judged, llm):
    config = kept(tmp_path, texts="all")
    config.write_text(config.read_text() + judged.read_text())
    before = (tmp_path / "history.db").read_bytes()
    found = tried("groundedness", "--case", TRACE, "-c", config, "-k", 1)
    assert found["trace_id"] == TRACE
    assert llm.requests[0].data["response"] == ANSWER
    assert CONTEXT in llm.requests[0].prompt
    assert (tmp_path / "history.db").read_bytes() == before


def test_a_trace_without_texts_or_that_nobody_knows_says_why_it_cannot_be_tried(tmp_path):
    config = kept(tmp_path, texts="explanations")
    try_it = functools.partial(command, "try", "overlap_groundedness", "-c", config, "--case")
    assert "storage.texts: all" in try_it(TRACE).stderr
    unknown = try_it("f" * 32)
    assert (unknown.exit_code, "nor a trace in the history" in unknown.stderr) == (2, True)
    (tmp_path / "history.db").unlink()
    assert "there is no history" in try_it(TRACE).stderr


def test_an_evaluator_that_nobody_has_or_that_has_no_judge_is_an_error(one):
    assert "there is no 'no_such'" in command("try", "no_such", "--case", one).stderr
    assert "judge.model" in command("try", "groundedness", "--case", one).stderr
