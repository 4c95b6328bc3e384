"""A diagnosis from the history or from files: the cause that was planted into results is named, in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.cli.diagnose import lines
from monitor.clock import ManualClock
from monitor.config import load
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.diagnosis import RateDiagnosis, as_object
from monitor.model.incident import Incident, RatePeak, incident_id
from monitor.model.outcome import EvaluationResult
from monitor.operations.diagnose import diagnose_alert, diagnose_rate, diagnose_results
from monitor.storage.history.rows import as_json, dump
from monitor.storage.incidents import IncidentFile
from tests.support.command import command
from tests.support.rise import HOUR, NOW, NUMBER, PERIOD, SINCE, common, in_acme, kept, mixed, results


def settings(folder: Path, **storage: Any) -> Path:
    """A configuration with the two slices."""
    path = folder / "config.json"
    document = {"slices": ["tenant", "language"], "storage": {"path": str(folder / "data"), **storage}}
    path.write_text(json.dumps({**document, "evaluators": [{"type": "overlap_groundedness"}]}))
    return path


def diagnosed(folder: Path, window: float = 6 * HOUR) -> RateDiagnosis:
    config = load(settings(folder))
    return diagnose_rate(config, app="shop", evaluator="overlap_groundedness", window=window, clock=ManualClock(NOW))


@pytest.mark.anyio
@pytest.mark.parametrize("texts", ["all", "none"])
async def test_the_planted_tenant_is_named_from_the_history_with_examples(tmp_path: Path, texts: str) -> None:
    await kept(tmp_path, results(in_acme), texts=texts)
    one = diagnosed(tmp_path)
    assert [(factor.factor.name, factor.factor.value) for factor in one.found.factors] == [("tenant", "acme")]
    assert one.found.onset is not None
    assert one.found.onset.earliest <= NOW - SINCE * PERIOD <= one.found.onset.latest + 5 * PERIOD
    assert len(one.examples[0]) == 3
    for example in one.examples[0]:
        number = int(example.request_id, 16)
        assert in_acme(number) or (number % 5 == 2 and mixed(number) % 20 == 0)


@pytest.mark.anyio
async def test_a_stale_document_is_named_by_its_address(tmp_path: Path) -> None:
    await kept(tmp_path, results(lambda number: number % 12 == 7))
    factors = diagnosed(tmp_path).found.factors
    assert [factor.factor.value for factor in factors] == ["kb/1/d7"]


@pytest.mark.anyio
async def test_a_rise_without_a_cause_names_none_and_says_what_would_have_been_seen(tmp_path: Path) -> None:
    await kept(tmp_path, results(common))
    one = diagnosed(tmp_path)
    assert (one.found.state, one.examples) == ("nothing_stands_out", ())
    assert one.found.visible is not None


@pytest.mark.anyio
async def test_answers_by_another_version_of_the_evaluator_are_left_out(tmp_path: Path) -> None:
    """To the old version hardly anything was bad: the rise is the new version's, not the service's."""
    change = NUMBER - SINCE
    given = results(common)
    await kept(tmp_path, [replace(one, version="old") if at < change else one for at, one in enumerate(given)])
    one = diagnosed(tmp_path)
    assert (one.found.state, one.answers, one.other_versions) == ("too_few_before", SINCE, change)
    said = "\n".join(lines(one))
    assert f"{SINCE} answers were read. Left out: 1,200 answers judged by other versions of the evaluator." in said


@pytest.mark.anyio
async def test_an_evaluator_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    config = load(settings(tmp_path))
    with pytest.raises(ConfigError, match="not one of"):
        diagnose_rate(config, app="shop", evaluator="typo", window=HOUR)


def test_without_a_history_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="history"):
        diagnosed(tmp_path)


def written(path: Path, given: Sequence[EvaluationResult], *, texts: bool) -> Path:
    path.write_bytes(b"".join(dump(as_json(one, texts=texts)) + b"\n" for one in given))
    return path


def from_files(*paths: Path) -> RateDiagnosis:
    return diagnose_results(paths, app="shop", evaluator="groundedness", window=6 * HOUR, slices=["tenant", "language"])


@pytest.mark.parametrize("texts", [True, False])
def test_files_of_several_replicas_say_the_same_as_one_in_any_order(tmp_path: Path, texts: bool) -> None:
    given = results(in_acme)
    whole = from_files(written(tmp_path / "all.jsonl", given, texts=texts))
    first = written(tmp_path / "1.jsonl", given[::2], texts=texts)
    second = written(tmp_path / "2.jsonl", given[1::2], texts=texts)
    assert from_files(first, second) == whole == from_files(second, first)
    assert [factor.factor.value for factor in whole.found.factors] == ["acme"]


def test_lines_that_hold_no_result_are_counted_and_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl", results(in_acme), texts=True)
    hostile = [b"{}", b"[" * 100_000, b"null", b"\xff\xfe", b'{"outcome": "score"}', b"1e999", b'"' + b"x" * 100_000]
    path.write_bytes(path.read_bytes() + b"\n".join([*hostile, b""]))
    row = as_json(results(in_acme, number=1)[0])
    wrong: list[dict[str, Any]] = [
        {"weight": 0},
        {"weight": "heavy"},
        {"evaluated_at": "today"},
        {"answered_at": [], "evaluated_at": {}},
        {"attributes": ["tenant"]},
        {"retrieved_context": [{"content": 1, "doc_uri": 2}]},
        {"request": {"query": 3}},
    ]
    with path.open("ab") as file:
        file.writelines(dump({**row, "request_id": "other", **one}) + b"\n" for one in wrong)
    one = from_files(path)
    assert one.unread == len(hostile) + len(wrong)
    assert [factor.factor.value for factor in one.found.factors] == ["acme"]


def told(*paths: Path, folder: Path, more: Sequence[str] = ()) -> str:
    given = [argument for path in paths for argument in ("--results", path)]
    arguments = ("--app", "shop", "--evaluator", "groundedness", *given, "--config", settings(folder), *more)
    done = command("diagnose", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_says_since_when_and_what_in_plain_words(tmp_path: Path) -> None:
    said = told(written(tmp_path / "r.jsonl", results(in_acme), texts=True), folder=tmp_path)
    assert re.search(r"groundedness of shop rose at 2023-11-14 1[67]:\d\d UTC \(between ", said)
    assert "1. tenant = acme" in said
    assert "20 % of the answers have it, 20 % before." in said
    assert said.count("Example: ") == 3
    assert re.search(r"Explains \d+ % of the rise \(\d+ % to \d+ %\)\.", said)


def test_the_command_says_that_nothing_stands_out(tmp_path: Path) -> None:
    said = told(written(tmp_path / "r.jsonl", results(common), texts=True), folder=tmp_path)
    assert "Nothing stands out. With " in said
    assert "of the rise or more would have been found 4 times in 5." in said


def test_the_command_says_what_everything_has_since_then(tmp_path: Path) -> None:
    given = [
        replace(
            one,
            case=replace(one.case, attributes={**one.case.attributes, "prompt.version": "2"}),
        )
        if number >= NUMBER - SINCE
        else one
        for number, one in enumerate(results(common))
    ]
    said = told(written(tmp_path / "r.jsonl", given, texts=True), folder=tmp_path)
    assert "Since then everything has: prompt.version = 2." in said


def test_the_command_says_where_it_cannot_compare(tmp_path: Path) -> None:
    young = written(tmp_path / "y.jsonl", results(in_acme, number=SINCE), texts=True)
    assert "too few bad answers to compare with" in told(young, folder=tmp_path)
    calm = written(tmp_path / "c.jsonl", results(lambda _: False), texts=True)
    assert "Nothing stands out" in told(calm, folder=tmp_path) or "no rise" in told(calm, folder=tmp_path)


def test_the_command_prints_json(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", results(in_acme), texts=True)
    found = json.loads(told(path, folder=tmp_path, more=["--json"]))
    assert found == json.loads(json.dumps(as_object(from_files(path))))
    assert (found["state"], found["factors"][0]["value"]) == ("found", "acme")


def test_the_command_fails_where_there_are_no_answers(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", results(in_acme), texts=True)
    arguments = ("--app", "other", "--evaluator", "groundedness", "--config", settings(tmp_path))
    assert command("diagnose", *arguments, "--results", path).exit_code == 1
    assert command("diagnose", *arguments, "--results", tmp_path / "none.jsonl").exit_code == 1


def test_texts_of_strangers_cannot_steer_the_terminal(tmp_path: Path) -> None:
    given = [
        replace(one, case=replace(one.case, attributes={"tenant": f"\x1b[31m{one.case.attributes['tenant']}\n"}))
        for one in results(in_acme)
    ]
    said = told(written(tmp_path / "r.jsonl", given, texts=True), folder=tmp_path)
    assert "\x1b" not in said
    assert "acme" in said


def incident(folder: Path, **other: Any) -> str:
    """An incident of the rate, which fired an hour ago."""
    one = Incident(
        id=incident_id("shop", "overlap_groundedness", "", NOW - HOUR),
        app="shop",
        evaluator="overlap_groundedness",
        defect_rule="",
        version="1",
        fired=NOW - HOUR,
        checked=NOW,
        severity="warning",
        worst="warning",
        alerts=(),
        peak=RatePeak(NOW, 0.3, 0.2, 0.4, 100, 30, 6 * HOUR),
    )
    file = IncidentFile(folder / "data" / "incidents.db", ManualClock(NOW))
    file.save(replace(one, **other))
    file.close()
    return one.id


@pytest.mark.anyio
async def test_an_alert_is_diagnosed_by_its_incident_up_to_now_or_to_its_end(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    config, clock = load(settings(tmp_path)), ManualClock(NOW)
    found = diagnose_alert(config, incident(tmp_path), clock=clock)
    assert (found.app, found.window, found.until) == ("shop", 6 * HOUR, NOW)
    assert [factor.factor.value for factor in found.found.factors] == ["acme"]
    ended = diagnose_alert(config, incident(tmp_path, ended=NOW - 60.0), clock=clock)
    assert ended.until == NOW - 60.0


@pytest.mark.anyio
async def test_an_alert_without_an_incident_or_with_a_rule_that_is_gone_cannot_be_diagnosed(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    config = load(settings(tmp_path))
    name = incident(tmp_path, defect_rule="high")
    with pytest.raises(MonitorError, match="no alert has the defect rule 'high' any more"):
        diagnose_alert(config, name)
    with pytest.raises(MonitorError, match="there is no incident '20260101-00000000'"):
        diagnose_alert(config, "20260101-00000000")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--app", "shop"], "give both, or --alert"),
        (["--alert", "20260101-00000000", "--app", "shop"], "names the app and the evaluator itself"),
    ],
)
def test_the_command_asks_for_a_rate_or_an_alert(tmp_path: Path, options: list[str], says: str) -> None:
    found = command("diagnose", *options, "-c", settings(tmp_path))
    assert found.exit_code == 2
    assert says in " ".join(found.output.replace("│", " ").split())
