"""Files of results stand for the history: the same diagnosis, documents and unanswered questions, of any replicas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.config import Config, load
from monitor.errors import MonitorError
from monitor.jobs.diagnosis import RateDiagnosis
from monitor.model.case import ContextStatus
from monitor.model.outcome import EvaluationResult, RateScope, Score, Skipped, SkippedReason
from monitor.operations.diagnose import diagnose_rate, diagnose_results
from monitor.operations.documents import find_documents, find_unanswered
from monitor.operations.result_files import ResultFiles
from monitor.sinks.history import HistorySink
from monitor.storage.history.rows import as_json, dump
from tests.support.command import command
from tests.support.results import judged
from tests.support.rise import HOUR, NUMBER, PERIOD, mixed, results
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

SHOP = {"app": "shop", "evaluator": "overlap_groundedness"}
WINDOW = NUMBER // 2 * PERIOD


def stale(number: int) -> bool:
    return number % 12 == 7


def traffic() -> list[EvaluationResult]:
    """Answers with three local results each: some refuse, some found nothing, one document is stale."""
    found = []
    for number, one in enumerate(results(stale)):
        empty, refuses = mixed(number) % 11 == 0, mixed(number) % 13 == 0
        documents = () if empty else one.case.retrieved_context
        how = ContextStatus.RETRIEVED_NOTHING if empty else ContextStatus.RETRIEVED
        case = replace(one.case, retrieved_context=documents, context_status=how)
        of = replace(judged(number, value=0.0, defect=False, evaluated_at=one.evaluated_at), case=case, weight=2.0)
        assert isinstance(one.outcome, Score)
        overlap = replace(one, case=case, evaluator="overlap_groundedness", weight=3.0)
        used = replace(one.outcome, used_sources="" if empty else str(number % 2))
        found += [
            replace(of, evaluator="refusal_pattern", defect=refuses),
            replace(overlap, outcome=Skipped(SkippedReason.REFUSAL) if refuses else used),
            replace(of, evaluator="retrieval_empty", defect=empty),
        ]
        if number % 50 == 0:
            found.append(replace(overlap, outcome=used, version="late", scope=RateScope.LATE, key="late"))
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Config, float]:
    """A folder with the same results in the history and in the files of two replicas; and when the last was made."""
    import anyio

    folder, given = tmp_path_factory.mktemp("results"), traffic()
    now = max(one.evaluated_at for one in given)

    async def write() -> None:
        sink = HistorySink(path=folder / "data" / "history.db", retention="30d", texts="all")
        async with sink.open(runtime(ManualClock(now))) as deliver:
            await deliver(given)

    anyio.run(write)
    write_rows(folder / "1.jsonl", [one for one in given if int(one.case.request_id, 16) % 3], texts=True)
    write_rows(folder / "2.jsonl", [one for one in given if not int(one.case.request_id, 16) % 3], texts=True)
    write_rows(folder / "plain.jsonl", given, texts=False)
    path = folder / "config.json"
    evaluators = [{"type": "overlap_groundedness"}, {"type": "refusal_pattern"}]
    path.write_text(json.dumps({"storage": {"path": str(folder / "data")}, "evaluators": evaluators}))
    return folder, load(path), now


def write_rows(path: Path, given: Sequence[EvaluationResult], *, texts: bool) -> None:
    path.write_bytes(b"".join(dump(as_json(one, texts=texts)) + b"\n" for one in given))


def replicas(folder: Path) -> list[Path]:
    return [folder / "2.jsonl", folder / "1.jsonl"]


def test_the_documents_of_a_fleet_are_those_of_one_history(stored: tuple[Path, Config, float]) -> None:
    folder, config, now = stored
    here = find_documents(config, **SHOP, window=WINDOW, clock=ManualClock(now))
    assert find_documents(config, **SHOP, window=WINDOW, results=replicas(folder)) == here
    assert here.documents[0].surely_worse
    assert here.documents[0].used is not None
    assert here.documents[0].before is not None


def test_the_unanswered_questions_of_a_fleet_are_those_of_one_history(stored: tuple[Path, Config, float]) -> None:
    folder, config, now = stored
    here = find_unanswered(config, app="shop", window=WINDOW, clock=ManualClock(now))
    assert find_unanswered(config, app="shop", window=WINDOW, results=replicas(folder)) == here
    assert here.unanswered > 100
    assert here.topics[0].examples[0].text.startswith("How long is the warranty")


@pytest.mark.lengthy
def test_the_diagnosis_of_a_fleet_is_that_of_one_history(stored: tuple[Path, Config, float]) -> None:
    folder, config, now = stored

    def comparable(one: RateDiagnosis) -> RateDiagnosis:
        return replace(one, changes=())

    here = diagnose_rate(config, **SHOP, window=6 * HOUR, clock=ManualClock(now))
    assert comparable(here) == comparable(diagnose_results(replicas(folder), **SHOP, window=6 * HOUR))
    assert [factor.factor.value for factor in here.found.factors] == ["kb/1/d7"]
    assert set(here.questions) == {one.request_id for one in here.examples[0]}


def test_without_texts_the_numbers_of_questions_stay_and_topics_are_missing(
    stored: tuple[Path, Config, float],
) -> None:
    folder, config, now = stored
    here = find_unanswered(config, app="shop", window=WINDOW, clock=ManualClock(now))
    plain = find_unanswered(config, app="shop", window=WINDOW, results=[folder / "plain.jsonl"])
    assert (plain.questions, plain.unanswered, plain.rate) == (here.questions, here.unanswered, here.rate)
    assert [one.nothing_found for one in plain.topics] == [sum(one.nothing_found for one in here.topics)]
    assert find_documents(config, **SHOP, window=WINDOW, results=[folder / "plain.jsonl"]).documents == ()


def test_the_commands_read_files_and_say_how_many_lines_they_left_out(stored: tuple[Path, Config, float]) -> None:
    folder, _, _ = stored
    broken = folder / "broken.jsonl"
    broken.write_bytes(b"null\n" + b"[" * 100_000 + b'\n\xff\n{"app": "shop"}\n')
    given: list[Any] = ["-c", folder / "config.json", "--since", f"{WINDOW:.0f}s", "--app", "shop"]
    for path in (*replicas(folder), broken):
        given += ["--results", path]
    documents = command("documents", *given, "-e", "overlap_groundedness")
    unanswered = command("unanswered", *given)
    assert documents.stdout.splitlines()[3] == "kb/1/d7"
    assert "Other questions" in unanswered.stdout or "product" in unanswered.stdout
    for done in (documents, unanswered):
        assert done.exit_code == 0
        assert done.stderr == "4 lines are not results and were left out.\n"
    missing = command("unanswered", *given, "--results", folder / "gone.jsonl")
    assert (missing.exit_code, missing.stderr) == (1, f"{folder / 'gone.jsonl'}: No such file or directory\n")


def test_results_of_other_apps_do_not_count(stored: tuple[Path, Config, float]) -> None:
    folder, _, _ = stored
    read = ResultFiles(replicas(folder), "other", "overlap_groundedness")
    assert read.asked_questions("other", 0.0, 1e12, 10) == read.judged_answers("shop", "x", 0.0, 1e12, 10) == []
    with pytest.raises(MonitorError, match="Is a directory"):
        ResultFiles([folder], "shop")


def test_answers_in_files_have_the_version_that_judged_them(stored: tuple[Path, Config, float]) -> None:
    folder, _, now = stored
    (folder / "versions.jsonl").write_bytes((folder / "1.jsonl").read_bytes().replace(b'"v1"', b'"v2"'))
    for name, version in (("1.jsonl", "v1"), ("versions.jsonl", "v2")):
        read = ResultFiles([folder / name], "shop", "overlap_groundedness")
        found = read.judged_answers("shop", "overlap_groundedness", 0.0, now + 1, NUMBER)
        assert {one.version for one in found} == {version}


def test_answers_in_files_count_by_session_else_by_user(stored: tuple[Path, Config, float]) -> None:
    folder, _, now = stored
    alone = [replace(one, case=replace(one.case, session_id="")) for one in traffic()]
    write_rows(folder / "users.jsonl", alone, texts=True)
    for name, units in (("users.jsonl", 50), ("1.jsonl", NUMBER)):
        read = ResultFiles([folder / name], "shop", "overlap_groundedness")
        answers = read.judged_answers("shop", "overlap_groundedness", 0.0, now + 1, NUMBER)
        questions = read.asked_questions("shop", 0.0, now + 1, NUMBER)
        for found in (answers, questions):
            assert len({one.unit for one in found}) == min(units, len(found))
