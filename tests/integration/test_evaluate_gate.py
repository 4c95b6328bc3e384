"""`rag-monitor evaluate --fail-on`: limits on defect rates, their answers and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from monitor import evaluate
from tests.support import llm as say
from tests.support.command import command, judged_by, write_rows
from tests.support.llm import LLMServer

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."
LOCAL = ("--evaluators", "overlap_groundedness")


def rows(folder: Path, good: int, bad: int, name: str = "rows") -> Path:
    """A file with so many answers that the context supports, and so many that it does not."""
    answers = [GOOD] * good + [BAD] * bad
    found = [{"id": f"case-{at}", "question": "?", "contexts": [CONTEXT], "response": one}
             for at, one in enumerate(answers)]  # fmt: skip
    return write_rows(folder / f"{name}.jsonl", found)


@pytest.mark.parametrize(
    ("good", "bad", "status", "answer"),
    [(100, 0, 0, "pass"), (50, 50, 1, "fail"), (20, 0, 3, "not_enough_data"), (0, 0, 3, "not_enough_data")],
)
def test_three_answers_are_three_exit_statuses(tmp_path: Path, good: int, bad: int, status: int, answer: str) -> None:
    limit = ("--fail-on", "overlap_groundedness:5%")
    ended = command("evaluate", rows(tmp_path, good, bad), *LOCAL, *limit, "--json")
    found = json.loads(ended.stdout)["gate"]
    assert (ended.exit_code, found["exit_status"], found["answer"]) == (status, status, answer)
    (check,) = found["checks"]
    assert (check["evaluator"], check["evaluated"], check["defects"]) == ("overlap_groundedness", good + bad, bad)


def test_the_answer_is_the_last_line_and_says_how_much_more_is_needed(tmp_path: Path) -> None:
    ended = command("evaluate", rows(tmp_path, 20, 0), *LOCAL, "--fail-on", "overlap_groundedness:5%")
    *_, check, answer = ended.stdout.splitlines()
    assert check.startswith("not enough data: overlap_groundedness: below 5.0 %: rate 0 % (0 % to ")
    assert "more scored answers would decide" in check
    assert answer == "gate: not enough data"


def test_each_limit_is_a_check_and_one_that_fails_is_enough(tmp_path: Path) -> None:
    limits = ("--fail-on", "overlap_groundedness:50%", "--fail-on", "overlap_groundedness:unsupported:1%")
    ended = command("evaluate", rows(tmp_path, 90, 10), *LOCAL, *limits, "--junit", tmp_path / "gate.xml")
    assert ended.exit_code == 1
    assert "FAIL: overlap_groundedness, level unsupported (below 0.2): below 1.0 %" in ended.stdout
    suite = ET.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")


SESSIONS = [
    pytest.param(lambda _: {}, id="without sessions"),
    pytest.param(lambda at: {"session_id": f"talk-{at // 10}"}, id="sessions of ten"),
    pytest.param(lambda at: {"user_id": f"person-{at // 10}"}, id="users of ten"),
]


def of_sessions(folder: Path, answers: list[str], fields: Any, name: str = "sessions") -> Path:
    found = [{"id": f"case-{at}", "question": "?", "contexts": [CONTEXT], "response": one, **fields(at)}
             for at, one in enumerate(answers)]  # fmt: skip
    return write_rows(folder / f"{name}.jsonl", found)


@pytest.mark.parametrize("fields", SESSIONS)
def test_answers_of_one_session_are_one_fact_for_interval_and_limits(tmp_path: Path, fields: Any) -> None:
    """Ten bad answers in one conversation of ten do not fail, nor does one bad conversation of forty pass."""
    bad = of_sessions(tmp_path, [BAD] * 10 + [GOOD] * 90, fields)
    rare, good = (of_sessions(tmp_path, [BAD] * some + [GOOD] * 390, fields, f"{some}-bad") for some in (10, 0))
    limits = ("--fail-on", "overlap_groundedness:4%", "--fail-on", "overlap_groundedness:unsupported:4%")
    single = fields(0) == {}
    ended = command("evaluate", bad, *LOCAL, *limits, "--json")
    found = json.loads(ended.stdout)
    assert ended.exit_code == (1 if single else 3)
    assert [one["answer"] for one in found["gate"]["checks"]] == ["fail" if single else "not_enough_data"] * 2
    lower, upper = found["evaluators"][0]["interval"]
    assert (lower > 0.04, upper < 0.2) == (single, single), (lower, upper)
    assert (found["gate"]["checks"][0]["lower"], found["gate"]["checks"][0]["upper"]) == (lower, upper)
    passes = command("evaluate", rare, *LOCAL, "--fail-on", "overlap_groundedness:6%")
    assert passes.exit_code == (0 if single else 3), passes.output
    ended = command("evaluate", "--compare", good, bad, *LOCAL)
    assert ("higher" if single else "not clear") in ended.stdout.splitlines()[-1], ended.stdout


def test_turns_of_a_row_count_as_one_session(tmp_path: Path) -> None:
    turn = (
        {"role": "user", "content": "How long?"},
        {"role": "assistant", "content": "Sorry, I cannot help with that."},
    )
    path = write_rows(tmp_path / "talk.jsonl", [{"id": "talk", "messages": turn * 10, "contexts": [CONTEXT]}])
    ended = command("evaluate", path, "--evaluators", "refusal_pattern", "--json")
    (found,) = json.loads(ended.stdout)["evaluators"]
    assert (found["scored"], found["defects"]) == (10, 10)
    assert found["interval"][0] < 0.05, "one bad conversation says little of the others"


@pytest.mark.parametrize(("of_a_session", "answer"), [(1, "fail"), (10, "not_enough_data")])
def test_from_python_answers_of_one_session_are_one_fact_too(of_a_session: int, answer: str) -> None:
    rows = [
        {"question": "?", "contexts": [CONTEXT], "response": one, "session_id": f"talk-{at // of_a_session}"}
        for at, one in enumerate([BAD] * 10 + [GOOD] * 90)
    ]
    assert evaluate(rows, ["overlap_groundedness"]).gate("overlap_groundedness:4%").answer == answer


def test_of_two_sets_the_candidate_is_checked(tmp_path: Path) -> None:
    sides = (rows(tmp_path, 0, 100, "old"), rows(tmp_path, 100, 0, "new"))
    ended = command("evaluate", "--compare", *sides, *LOCAL, "--fail-on", "overlap_groundedness:5%")
    assert ended.exit_code == 0, ended.output
    assert "pass: candidate, overlap_groundedness: below 5.0 %" in ended.stdout


@pytest.fixture
def refused(tmp_path: Path) -> Any:
    """A configuration with a provider that knows no key."""
    with LLMServer() as server:
        server.always(say.status(401))
        yield judged_by(server, tmp_path, max_age="2s")


@pytest.mark.parametrize("limits", [(), ("--fail-on", "groundedness:5%"), ("--fail-on", "overlap_groundedness:50%")])
def test_when_no_judgement_came_to_a_score_the_status_says_that_nothing_could_be_judged(
    refused: Path, tmp_path: Path, limits: tuple[str, ...]
) -> None:
    ended = command("evaluate", rows(tmp_path, 30, 0), "-c", refused, *limits)
    assert ended.exit_code == 4, ended.output
    assert "nothing could be judged: all 30 judgements are unscored (" in ended.stderr
    assert "auth" in ended.stderr


def test_one_score_among_failed_judgements_is_no_failure_of_all(tmp_path: Path) -> None:
    with LLMServer() as server:
        server.then(say.verdict(claims=[], explanation="scripted", score=5))
        server.always(say.status(500))
        ended = command("evaluate", rows(tmp_path, 1, 1), "-c", judged_by(server, tmp_path, max_concurrency=1))
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_a_pass_over_files_that_were_not_all_read_is_no_success(tmp_path: Path) -> None:
    path = rows(tmp_path, 100, 0)
    path.write_text(path.read_text() + '{"foo": 1}\n')
    ended = command("evaluate", path, *LOCAL, "--fail-on", "overlap_groundedness:5%")
    assert ended.exit_code == 1
    assert "gate: pass" in ended.stdout
    assert "the exit status is 1, since 1 file or row could not be read" in ended.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fail-on", "overlap_groundedness"), "--fail-on"),
        (("--fail-on", "groundedness:5%"), "is not run"),
        (("--fail-on", "overlap_groundedness:dreadful:5%"), "has no level"),
        (("--junit", "gate.xml"), "requires --fail-on"),
    ],
)
def test_a_limit_that_cannot_be_checked_is_refused_before_anything_is_scored(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    ended = command("evaluate", rows(tmp_path, 1, 0), *LOCAL, *options, "-o", tmp_path / "out.jsonl")
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_from_python_the_same_limits_give_the_same_report() -> None:
    case = {"question": "?", "contexts": [CONTEXT], "response": GOOD}
    found = evaluate([case] * 100, ["overlap_groundedness"])
    report = found.gate("overlap_groundedness:5%", "overlap_groundedness:unsupported:4%")
    assert report.answer == "pass", report
    assert str(report).endswith("\ngate: pass")
    assert found.gate("overlap_groundedness:0.1%").answer == "not_enough_data"
