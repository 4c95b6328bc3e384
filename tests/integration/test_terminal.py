"""What all commands keep to: progress and colour on a terminal and nowhere else, `--json` for machines."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import command, start, write_rows
from tests.support.terminal import Terminal
from tests.support.traces import CAPTURES, SETUPS

GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."
CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
LOCAL = ("--evaluators", "overlap_groundedness")
CAPTURE = SETUPS["captures/openai__otel_genai__span"]


def row(number: int, answer: str = GOOD, **fields: Any) -> dict[str, Any]:
    return {"id": f"case-{number}", "question": "How long?", "contexts": [CONTEXT], "response": answer, **fields}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    given = [row(number, BAD if number % 2 else GOOD, label=number % 2) for number in range(40)]
    return write_rows(tmp_path / "rows.jsonl", given)


def test_check_says_it_in_one_object(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("evaluators: [{type: overlap_groundedness}, {type: groundedness, sample: 5%, optional: true}]\n")
    found = json.loads(command("check", "-c", path, "--json").stdout)
    assert found["valid"] is True
    assert any("Receives traces" in line for line in found["does"])
    assert found["evaluators"] == [
        {
            "name": "overlap_groundedness",
            "works": True,
            "judge": None,
            "sample": 1.0,
            "defect": found["evaluators"][0]["defect"],
        },
        {
            "name": "groundedness",
            "works": False,
            "judge": None,
            "sample": 0.05,
            "defect": found["evaluators"][1]["defect"],
        },
        *(
            {"name": name, "works": True, "judge": None, "sample": 1.0, "defect": defect}
            for name, defect in (
                ("retrieval_empty", "level empty (1 or more)"),
                ("context_not_recorded", "level not_recorded (1 or more)"),
            )
        ),
    ]


def test_check_says_also_in_an_object_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("evaluators: [{type: groundednes}]\n")
    shown = command("check", "-c", path, "--json")
    assert shown.exit_code == 2
    found = json.loads(shown.stdout)
    assert (found["valid"], found["config"]) == (False, str(path))
    assert "groundednes" in found["error"]


def test_check_tells_of_the_telemetry_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("telemetry: {endpoint: 'http://127.0.0.1:4317', traces: 2%}\n")
    assert "Sends 2 % of its own traces and its log to http://127.0.0.1:4317" in command("check", "-c", path).stdout


def test_coverage_says_what_is_missing_and_what_to_do_in_one_object() -> None:
    found = json.loads(command("coverage", CAPTURE, "--json").stdout)
    (app,) = found["apps"]
    assert app["requests"] >= app["fields"]["question"] > 0
    lacking = {name for name in ("question", "context", "answer", "model") if app["fields"][name] < app["requests"]}
    assert lacking <= set(app["advice"])


def test_explanations_are_objects_too() -> None:
    lines = command("cases", "--explain", "--json", CAPTURE).stdout.splitlines()
    plain = command("cases", CAPTURE, "--json").stdout.splitlines()
    assert [json.loads(line)["case"] for line in lines] == [json.loads(line) for line in plain]
    origins = json.loads(lines[0])["origins"]
    assert origins["answer"][0]["span_id"]
    assert origins["answer"][0]["keys"]


def test_evaluate_sums_up_in_one_object(rows: Path) -> None:
    found = json.loads(command("evaluate", rows, *LOCAL, "--json").stdout)
    (one,) = found["evaluators"]
    assert (one["evaluator"], one["scored"], one["defects"], one["rate"]) == ("overlap_groundedness", 40, 20, 0.5)
    assert one["interval"][0] < 0.5 < one["interval"][1]
    assert sum(found["cases"].values()) == 40
    assert (found["interrupted"], found["failure"]) == (False, None)


def test_two_sets_and_their_difference_are_one_object(rows: Path, tmp_path: Path) -> None:
    worse = write_rows(tmp_path / "worse.jsonl", [row(number, BAD) for number in range(40)])
    found = json.loads(command("evaluate", "--compare", rows, worse, *LOCAL, "--json").stdout)
    assert [found[name]["evaluators"][0]["defects"] for name in ("baseline", "candidate")] == [20, 40]
    (difference,) = found["difference"]
    assert (difference["difference"], difference["clear"]) == (0.5, True)


def test_rules_are_the_same_in_json() -> None:
    import yaml

    assert json.loads(command("rules", "--json").stdout) == yaml.safe_load(command("rules").stdout)


COMMANDS = {
    "evaluate": lambda rows: ("evaluate", rows, *LOCAL, "--json"),
    "benchmark": lambda rows: ("benchmark", rows, *LOCAL, "--json"),
    "plan": lambda _: ("plan", "--scored-per-hour", "100", "--json"),
    "cases": lambda rows: ("cases", rows),
}
SHOWN = {"evaluate": "scoring", "benchmark": "rows.jsonl", "plan": "simulating", "cases": "reading"}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.lengthy
def test_long_commands_show_progress_on_a_terminal_and_it_goes_away(name: str, rows: Path) -> None:
    """While what they print goes elsewhere, whole and without an escape sequence."""
    with Terminal() as terminal:
        running = terminal.start(*COMMANDS[name](rows), streams=("stderr",))
        out, _ = running.communicate(timeout=300)
        assert running.returncode == 0
        terminal.close()
    assert SHOWN[name] in terminal.drawn
    assert "\x1b[?25h" in terminal.drawn
    assert terminal.drawn.rstrip().endswith("\x1b[2K")  # the line of the bar is wiped
    assert "\x1b" not in out
    assert all(json.loads(line) for line in out.splitlines()) if name == "cases" else json.loads(out)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.lengthy
def test_without_a_terminal_nothing_is_drawn_whatever_the_environment_says(name: str, rows: Path) -> None:
    shown = start(*COMMANDS[name](rows), env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"})
    out, err = shown.communicate(timeout=300)
    assert shown.returncode == 0
    assert err == ""
    assert "\x1b" not in out


def test_progress_has_no_colour_where_none_is_wanted(rows: Path) -> None:
    with Terminal() as terminal:
        running = terminal.start(*COMMANDS["evaluate"](rows), streams=("stderr",), NO_COLOR="1")
        running.communicate(timeout=300)
        terminal.close()
    assert "scoring" in terminal.drawn
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.drawn)


def test_rows_that_are_printed_on_a_terminal_are_not_mixed_with_a_bar(rows: Path) -> None:
    with Terminal(columns=400) as terminal:
        running = terminal.start("cases", rows, streams=("stdout", "stderr"))
        assert running.wait(60) == 0
        terminal.close()
    lines = terminal.drawn.splitlines()
    assert len([json.loads(line) for line in lines if line.startswith("{")]) == 40
    assert "reading" not in terminal.drawn


def test_what_cannot_be_read_is_said_beside_the_bar(rows: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{\n")
    with Terminal(columns=300) as terminal:  # wide enough for the path of a temporary file
        running = terminal.start("evaluate", rows, broken, CAPTURES, *LOCAL, "--json", streams=("stderr",))
        out, _ = running.communicate(timeout=300)
        assert running.returncode == 1
        terminal.close()
    assert json.loads(out)["unreadable"] == 1
    assert "broken.jsonl: line 1" in terminal.drawn
