"""Personal data that came in is in nothing that goes out: judge, files, log, series, page, sinks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_api import HttpApi
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess
from tests.support.tools import wait_until

MAIL, IBAN, PHONE, KEY = "ada.lovelace@mail.org.uk", "DE89370400440532013000", "+49 30 9018202", "AKIAIOSFODNN7EXAMPLE"
PRICE = {"input_per_million": 1.0, "output_per_million": 1.0}
VALUES = (MAIL, IBAN, PHONE, KEY)
ROW = {
    "request_id": "first",
    "user_id": MAIL,
    "session_id": f"session of {MAIL}",
    "request": f"I am {MAIL}. When is my money back on {IBAN}?",
    "response": f"We pay to {IBAN} on Friday; call {PHONE}. The key is {KEY}.",
    "retrieved_context": [{"content": f"Refunds: call {PHONE}. Key {KEY}.", "doc_uri": f"mailto:{MAIL}"}],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything that a monitor with all its texts on has said and written, by where."""
    folder: Path = tmp_path_factory.mktemp("monitor")
    out: dict[str, Any] = {}
    with LLMServer() as llm, HttpApi() as langfuse, HttpApi() as otel:
        llm.always(verdict(observations=[], explanation="It quotes <EMAIL_1>.", score=2))
        config = {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": PRICE},
            "evaluators": [{"type": "pii_leak"}, {"type": "overlap_groundedness"}, {"type": "relevance"}],
            "slices": ["tenant"],
            "redaction": {"enabled": True},
            "storage": {"path": str(folder / "state"), "texts": "all"},
            "log": {"level": "DEBUG"},
        }
        monitor = MonitorProcess(folder, config)
        monitor.config["sinks"] += [
            {"type": "jsonl", "path": str(folder / "results.jsonl"), "include_texts": True},
            {"type": "langfuse", "url": langfuse.url, "public_key": "pk", "secret_key": "sk"},
            {"type": "otel_events", "protocol": "http", "endpoint": otel.url, "compression": "none"},
        ]
        with monitor:
            assert monitor.post(json.dumps(ROW).encode(), "/v1/cases", "application/json") == 200
            path = folder / "results.jsonl"
            wait_until(lambda: path.exists() and len(path.read_text().splitlines()) == 3, 30, "three results")
            wait_until(lambda: otel.asked and langfuse.asked, 30, "the sinks")
            wait_until(lambda: not _unmasked(folder / "state"), 30, "the end of what is settled in the spool")
            out["metrics"] = monitor.get("/metrics").encode()
            out["page"] = b"".join(
                monitor.get(at).encode()
                for at in ("/", "/answers", "/case/first", "/api/v1/cases/first", "/api/v1/answers")
            )
        out["judge"] = json.dumps([asked.body for asked in llm.requests]).encode()
        out["langfuse"] = b"".join(asked.content for asked in langfuse.asked)
        out["otel"] = b"".join(asked.content for asked in otel.asked)
    for path in [*folder.iterdir(), *(folder / "state").iterdir()]:
        if path.is_file() and path.name != "config.yaml":
            out[path.name] = path.read_bytes()
    return out


def _unmasked(folder: Path) -> bool:
    contents = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
    return any(value.encode() in content for value in VALUES for content in contents)


def test_nothing_of_it_is_left_anywhere(ran: dict[str, bytes]) -> None:
    for where, content in ran.items():
        for value in VALUES:
            assert value.encode() not in content, f"{value} in {where}"


def test_the_judge_sees_one_name_for_one_value(ran: dict[str, bytes]) -> None:
    assert b"We pay to <IBAN_1> on Friday; call <PHONE_1>." in ran["judge"]
    assert b"I am <EMAIL_1>. When is my money back on <IBAN_1>?" in ran["judge"]


def test_the_local_evaluator_has_found_the_leak_all_the_same(ran: dict[str, bytes]) -> None:
    rows = [json.loads(line) for line in ran["results.jsonl"].splitlines()]
    (leak,) = [row for row in rows if row["evaluator"] == "pii_leak"]
    assert leak["level"] == "secret"
    for one in leak["evidence"]:
        assert leak["response"][one["start"] : one["end"]] == one["claim"]
    assert {one["claim"] for one in leak["evidence"]} == {"<PHONE_1>", "<REDACTED_SECRET_1>"}


def test_what_was_masked_is_counted(ran: dict[str, bytes]) -> None:
    assert b'ragmonitor_redacted_total{type="email"} 1.0' in ran["metrics"]
    assert b'ragmonitor_redacted_total{type="wallet"} 0.0' in ran["metrics"]
