"""`rag-monitor documents` and `unanswered`: what they print of a history."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.config import load
from monitor.errors import ConfigError
from monitor.operations.documents import find_documents, find_unanswered
from tests.support.command import command
from tests.support.rise import NOW, NUMBER, PERIOD, kept, results

pytestmark = pytest.mark.anyio


def settings(folder: Path) -> Path:
    path = folder / "config.json"
    document = {"storage": {"path": str(folder / "data")}, "evaluators": [{"type": "overlap_groundedness"}]}
    path.write_text(json.dumps(document))
    return path


async def recent(folder: Path) -> list[str]:
    """Keep answers up to now; return the arguments of a command about them."""
    await kept(folder, results(lambda number: number % 12 == 7, now=time.time()))
    margin = 50  # seconds that the command may begin later
    return ["--app", "shop", "-c", str(settings(folder)), "--since", f"{300 * PERIOD + margin:.0f}s"]


async def test_the_stale_document_is_printed_first(tmp_path: Path) -> None:
    arguments = [*await recent(tmp_path), "--evaluator", "overlap_groundedness"]
    printed = command("documents", *arguments).stdout
    assert printed.index("kb/1/d7") < printed.index("significantly worse than the rest") < printed.index("kb/", 200)
    assert "significantly more now" in printed
    rows = json.loads(command("documents", *arguments, "--json", "--limit", "2").stdout)
    assert [row["surely_worse"] for row in rows] == [True, False]
    written = command("documents", *arguments, "--csv", "--search", "D7").stdout
    assert [row["document"] for row in csv.DictReader(io.StringIO(written))] == ["kb/1/d7"]


async def test_hostile_addresses_print_as_plain_text(tmp_path: Path) -> None:
    given = results(lambda number: False, now=time.time())
    bad = [
        replace(
            one,
            case=replace(
                one.case, retrieved_context=(replace(one.case.retrieved_context[0], doc_uri="\x1b[31m\u202e<b>\nx"),)
            ),
        )
        for one in given
    ]
    await kept(tmp_path, bad)
    arguments = ["--app", "shop", "-e", "overlap_groundedness", "-c", str(settings(tmp_path))]
    printed = command("documents", *arguments).stdout
    assert "<b>" in printed
    assert not {"\x1b", "\u202e"} & set(printed)


async def test_wrong_options_are_named(tmp_path: Path) -> None:
    arguments = await recent(tmp_path)
    assert command("documents", *arguments, "-e", "overlap_groundedness", "--csv", "--json").exit_code == 2
    assert command("unanswered", *arguments[:4], "--since", "0s").exit_code == 2
    unknown = command("unanswered", "--app", "none", "-c", str(settings(tmp_path)))
    assert unknown.exit_code == 1
    with pytest.raises(ConfigError, match="not one of"):
        find_documents(load(settings(tmp_path)), app="shop", evaluator="no", window=60)


async def test_unanswered_questions_are_printed(tmp_path: Path) -> None:
    arguments = await recent(tmp_path)
    assert "Unanswered: 0 %" in command("unanswered", *arguments).stdout
    assert json.loads(command("unanswered", *arguments, "--json").stdout)["questions"] == 300


async def test_both_can_be_asked_from_python(tmp_path: Path) -> None:
    await kept(tmp_path, results(lambda number: number % 12 == 7))
    config, clock = load(settings(tmp_path)), ManualClock(NOW)
    window = NUMBER * PERIOD
    found = find_documents(config, app="shop", evaluator="overlap_groundedness", window=window, clock=clock)
    assert found.answers == NUMBER
    assert find_unanswered(config, app="shop", window=window, clock=clock).questions == NUMBER
