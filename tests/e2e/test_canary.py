"""A judge that changes behind its name, through a real monitor and a judge over HTTP."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor import app, config
from monitor.alerts.state import AlertState
from monitor.stages import Runtime
from monitor.statistics.reference import RUNS
from tests.support.alerts import looked_at
from tests.support.llm import Asked, LLMServer, Reply, verdict
from tests.support.runtime import total
from tests.support.tools import free_port, until

CASES = 4
VERDICTS = "ragmonitor_canary_verdicts_total"


def settings(folder: Path, llm: LLMServer) -> dict[str, Any]:
    rows = [
        {"request": f"How warm is day {n}?", "response": f"It is {n}.", "retrieved_context": [{"content": "warm"}]}
        for n in range(CASES)
    ]
    (folder / "cases.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return {
        "sources": [{"type": "otlp_http", "port": free_port()}],
        "sinks": [{"type": "prometheus", "port": free_port()}],
        "storage": {"path": str(folder / "state")},
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url},
        "evaluators": [{"type": "relevance"}],
        "alerts": [],
        "canary": {"interval": "20ms", "initial_delay": 0, "cases": str(folder / "cases.jsonl")},
    }


@asynccontextmanager
async def monitor(given: dict[str, Any]) -> AsyncIterator[app.Running]:
    found: list[app.Running] = []
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(app.run, config.parse(given), stop, started=found.append, alerts_every=0.05))
        await until(lambda: found and found[0].runtime.health.ready, "readiness", 60)
        yield found[0]
        stop.set()


def drifted(running: app.Running) -> list[AlertState]:
    return [state for state in running.alerts if state.firing and state.name == "RagJudgeDrifted"]


def runs(lent: Runtime) -> float:
    return total(lent.metrics, "ragmonitor_canary_runs_total")


@pytest.mark.anyio
async def test_a_judge_that_changes_behind_its_name_is_noticed_across_a_restart(tmp_path: Path) -> None:
    strict = False

    def rated(asked: Asked) -> Reply:
        bad = strict and asked.data["response"] in ("It is 1.", "It is 2.")
        return verdict(observations=["seen"], explanation="as seen", score=1 if bad else 5)

    with LLMServer() as llm:
        llm.always(rated)
        given = settings(tmp_path, llm)
        async with monitor(given) as running:
            lent = running.runtime
            await until(lambda: runs(lent) >= 1, "a run", 60)
            assert total(lent.metrics, "ragmonitor_canary_tolerance_ratio") == 0.05
            assert not drifted(running)
            assert len(llm.requests) >= CASES * (RUNS + 1)
        strict = True
        async with monitor(given) as running:
            lent = running.runtime
            await until(lambda: drifted(running))
            assert total(lent.metrics, VERDICTS, agreement="stricter") >= 2
            assert total(lent.metrics, VERDICTS, agreement="milder") == 0
            (state,) = drifted(running)
            assert state.evaluator == "relevance"
            assert "stricter, 0 more lenient" in state.annotations["description"]
            for name in ("ragmonitor_evaluations_total", "ragmonitor_traces_received_total"):
                assert total(lent.metrics, name) == 0
            assert total(lent.metrics, "ragmonitor_judge_requests_total", outcome="ok") > 0
            assert total(lent.metrics, "ragmonitor_judge_requests_total", outcome="cached") == 0
            assert await running.history.results() == []
        given["canary"] = {"interval": "off"}
        asked = len(llm.requests)
        async with monitor(given) as running:
            await looked_at(running, times=5)
            assert not drifted(running)
        assert len(llm.requests) == asked
