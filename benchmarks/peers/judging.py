"""The cost of one judgement of faithfulness: the same cases, the same scripted judge, a process for each product."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.peers import environments, scripted
from benchmarks.running import HERE
from benchmarks.traffic import Service
from tests.support.llm import LLMServer

_HERE: Final = Path(__file__).parent
_WARM: Final = 5

DOES: Final = {
    "ours": "one call; finds each quoted claim again in the answer; strict reading, budget, retries, cache, metrics",
    "bare": "the call of ours and nothing else: no question made, no answer read",
    "ragas": "two calls: splits the answer into statements, then judges them; score only",
    "deepeval": "four calls: truths of the documents, claims of the answer, verdicts, a reason in words",
}


class Judgement(NamedTuple):
    """The cost of one judgement. Tokens are estimated from characters, in the same way for all."""

    product: str
    version: str
    calls: float
    tokens_in: float
    tokens_out: float
    cpu_ms: list[float]


def measure(products: list[str], folder: Path, *, cases: int, runs: int) -> Iterator[Judgement]:
    """Judge `cases` with each product in turn, `runs` times."""
    made = Service()
    rows = [
        {"question": one.question, "documents": one.documents, "answer": one.answer}
        for one in (made.trace() for _ in range(cases + _WARM))
    ]
    found: dict[str, list[Judgement]] = {name: [] for name in products}
    with LLMServer() as llm:
        llm.always(scripted.reply)
        for _ in range(runs):
            for name in products:
                found[name].append(_one(name, folder, llm, json.dumps(rows)))
    for many in found.values():
        yield many[0]._replace(cpu_ms=[one.cpu_ms[0] for one in many])


def _one(name: str, folder: Path, llm: LLMServer, rows: str) -> Judgement:
    before = len(llm.requests)
    command = [sys.executable, "-m", "benchmarks.peers.with_ours", name]
    options: dict[str, Any] = {"cwd": HERE}
    if name in environments.PINNED:
        command = [str(environments.python(name, folder)), str(_HERE / f"with_{name}.py")]
        options = {"cwd": folder, "env": environments.environment()}
    done = subprocess.run(
        [*command, llm.url, str(_WARM)], input=rows, capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr[-1500:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    asked, judged = llm.requests[before:], len(said["scores"])
    if min(said["scores"]) < 1:
        raise SystemExit(f"{name} did not understand the scripted judge: {said['scores'][:5]}")
    answers = [scripted.reply(one).body["usage"] for one in asked[:: max(1, len(asked) // 40)]]
    calls = len(asked) / judged
    tokens = [statistics.fmean(one[key] for one in answers) * calls for key in ("prompt_tokens", "completion_tokens")]
    milliseconds = said["seconds"] / (judged - _WARM) * 1e3
    return Judgement(name, said["version"], calls, *tokens, [milliseconds])
