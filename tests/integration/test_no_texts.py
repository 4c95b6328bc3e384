"""With `storage.texts: none` no word of the traffic is in any file of the storage folder."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from isal import isal_zlib

from tests.support.llm import LLMServer, bad_key, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

CANARY = "xyzzy-canary"
PRICE = {"input_per_million": 1.0, "output_per_million": 1.0}


def row(name: str) -> bytes:
    said = f"{CANARY} is what was said in {name}."
    return json.dumps(
        {
            "request_id": name,
            "user_id": CANARY,
            "request": {"query": said, "history": [{"role": "user", "content": said}]},
            "response": said,
            "retrieved_context": [{"content": said, "doc_uri": CANARY}],
        }
    ).encode()


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, as it stands and with whatever in it is compressed."""
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        yield path.name, content
        for mark in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
            at = content.find(mark)
            while at >= 0:
                with suppress(zlib.error):
                    yield f"{path.name} at {at}", zlib.decompressobj().decompress(content[at:])
                at = content.find(mark, at + 1)


def test_neither_a_verdict_nor_what_was_missed_leaves_a_word(tmp_path: Path) -> None:
    assert isal_zlib.compress(b"", 1)[:2] in (b"\x78\x01", b"\x78\x5e")  # what the spool writes is looked into
    state = tmp_path / "state"
    with LLMServer() as llm:
        llm.then(verdict(observations=[], explanation=f"It says {CANARY}.", score=2))
        llm.always(bad_key())
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": PRICE}
        config = {
            "judge": {**judge, "recheck_share": 0},  # the good reply is for the first row
            "evaluators": [{"type": "overlap_groundedness"}, {"type": "pii_leak"}, {"type": "relevance"}],
            "storage": {"path": str(state), "texts": "none"},
        }
        with MonitorProcess(tmp_path, config) as monitor:
            for number in range(3):
                assert monitor.post(row(f"row-{number}"), "/v1/cases", "application/json") == 200
                monitor.wait_for_total(number + 1, "ragmonitor_traces_total")
            assert assert_balanced(monitor.samples()) == 3
            assert monitor.total("ragmonitor_evaluations_total", evaluator="relevance") == 1
            wait_until(
                lambda: not any(CANARY.encode() in content for _, content in written(state)), 10, "the spool's end"
            )
            found = json.loads(monitor.get("/api/v1/cases/row-0"))
            assert found["response"] is None
            assert {one["explanation"] for one in found["results"]} == {""}
        assert [name for name, content in written(state) if CANARY.encode() in content] == []
        assert CANARY not in monitor.log.read_text()
