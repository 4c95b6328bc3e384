"""`rag-monitor preview`: what would be kept, judged and paid, without asking anybody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from monitor.clock import SystemClock
from monitor.judge.litellm_provider import LiteLLM, count_tokens
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Score, Selection
from monitor.sinks.history import HistorySink
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling
from tests.support import llm as say
from tests.support.command import command, write_rows
from tests.support.llm import LLMServer
from tests.support.monitor import MonitorProcess
from tests.support.tools import wait_until
from tests.support.traces import CAPTURES

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
ANSWER = "Books may be kept for three weeks."


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    """litellm switches its own warnings off as it is imported, which lasts for one test: it must be whole by then."""
    provider = LiteLLM(JudgeSettings(model="openai/scripted"), SystemClock())
    provider.load()
    anyio.run(provider.aclose)


def row(number: int, **fields: Any) -> dict[str, Any]:
    given = {"id": f"case-{number}", "question": f"How long, {number}?", "contexts": [CONTEXT], "response": ANSWER}
    return {**given, **fields}


def written(folder: Path, **settings: Any) -> Path:
    price = {"input_per_million": 1.0, "output_per_million": 4.0}
    judge = {"model": "openai/gpt-4o-mini", "api_key": "none", "api_base": "http://127.0.0.1:9/v1", "price": price}
    base = {"judge": judge, "evaluators": [{"type": "groundedness", "sample": "30%"}]}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**base, **settings}))
    return path


def previewed(*arguments: object) -> str:
    ended = command("preview", *arguments)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def listed(shown: str) -> list[str]:
    return re.findall(r"^  (\S+)  groundedness  ", shown, re.MULTILINE)


def test_the_cases_that_would_be_judged_are_those_that_the_hash_chooses(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(60)])
    shown = previewed(rows, "-c", written(tmp_path), "--traffic", "1000/day")
    wanted = [f"case-{n}" for n in range(60) if consistent_sampling.chosen(f"case-{n}", "rag-monitor", 0.3)]
    assert listed(shown) == wanted[:20]
    assert f"{len(wanted)} of them would be evaluated by a judge" in shown
    salted = previewed(rows, "-c", written(tmp_path, sampling={"salt": "another"}), "--traffic", "1000/day")
    assert listed(salted) != listed(shown)


def test_what_head_sampling_and_the_rules_of_traffic_leave_out_is_not_judged(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(60)] + [row(99, response=None)])
    drop = {"drop": [{"attribute": "metadata.tenant", "matches": "bot"}]}
    config = written(tmp_path, sampling={"traces": 0.5}, traffic=drop)
    shown = previewed(rows, "-c", config, "--traffic", "1000")
    kept, out = re.search(r"61 requests: .*?(\d+) kept", shown), re.search(r"(\d+) sampled_out", shown)
    assert kept is not None
    assert out is not None
    assert 15 <= int(kept[1]) <= 45
    assert int(kept[1]) + int(out[1]) in (60, 61)


def test_the_prompt_is_the_one_that_would_be_sent_and_nothing_is_sent(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    with LLMServer() as llm:
        llm.always(say.verdict(claims=[], explanation="scripted", score=5))
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url}
        config = written(tmp_path, judge=judge, evaluators=[{"type": "groundedness"}])
        shown = previewed(rows, "-c", config, "--prompt", "--traffic", "10")
        assert not llm.requests
        assert CONTEXT in shown
        ended = command("evaluate", rows, "-c", config)
        assert llm.requests, ended.output
        system, *_ = llm.requests[0].body["messages"]
    # The fences differ from process to process; all else is the same.
    fence = re.compile(r"\b[0-9a-f]{12,}\b")
    assert fence.sub("", system["content"]) in fence.sub("", shown)


def test_where_no_case_is_chosen_the_prompt_is_that_of_the_first_that_could_be(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    config = written(tmp_path, evaluators=[{"type": "groundedness", "sample": 0}])
    shown = previewed(rows, "-c", config, "--prompt", "--traffic", "10")
    assert "0 of them would be evaluated by a judge" in shown
    assert "--- prompt for case-1, which is not selected" in shown
    assert CONTEXT in shown
    local = written(tmp_path, evaluators=[{"type": "overlap_groundedness"}], alerts=[])
    assert "there is no prompt" in previewed(rows, "-c", local, "--prompt")


def test_a_month_costs_tokens_times_price_times_traffic_at_three_rates(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(10, 50)])
    shown = previewed(rows, "-c", written(tmp_path), "--traffic", "10000/day", "--tokens-out", "100")
    assert "counted by litellm" in shown
    (line,) = [one for one in shown.splitlines() if one.startswith("groundedness  ")]
    _, _here, a_day, tokens, third, this, three = re.split(r" {2,}", line.strip())
    assert a_day == "3,000"
    month = 3000 * 30 * (int(tokens.replace(",", "")) * 1e-6 + 100 * 4e-6)
    assert float(this.strip("$")) == pytest.approx(month, rel=0.01)
    assert float(third.strip("$").replace(",", "")) == pytest.approx(month / 3, rel=0.01)
    assert float(three.strip("$")) == pytest.approx(3 * month, rel=0.01)


def test_the_tokens_are_those_of_the_whole_prompt():
    message = [{"role": "user", "content": "one two three four five"}]
    found = count_tokens("openai/gpt-4o-mini", message)
    assert found is not None
    assert 5 <= found <= 15
    assert (count_tokens("openai/gpt-4o-mini", message * 10) or 0) > 5 * found


def test_the_rate_that_is_needed_follows_from_the_traffic(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(10)])
    few = previewed(rows, "-c", written(tmp_path), "--traffic", "100/day")
    assert "more answers than there are" in few
    many, more = (previewed(rows, "-c", written(tmp_path), "--traffic", f"{n}/day") for n in (100_000, 1_000_000))
    rates = [float(re.search(r"a sampling rate of ([\d.]+) %", one)[1]) for one in (many, more)]  # type: ignore[index]
    assert rates[0] == pytest.approx(10 * rates[1], rel=0.1)


def test_traffic_a_day_follows_from_the_times_of_the_requests_or_must_be_given(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(n, timestamp=1_700_000_000 + 3600 * n) for n in range(13)])
    assert "26 requests a day, from 12.0 hours" in previewed(rows, "-c", written(tmp_path))
    timeless = write_rows(tmp_path / "timeless.jsonl", [row(1), row(2)])
    assert "give --traffic" in previewed(timeless, "-c", written(tmp_path))
    assert command("preview", timeless, "--traffic", "many").exit_code == 2


def test_captures_can_be_previewed_and_without_a_model_it_is_said_what_is_missing(tmp_path):
    shown = previewed(CAPTURES / "openai__otel_genai__span", "-c", written(tmp_path), "--traffic", "100")
    assert "5 requests: 4 kept, 1 failed_request" in shown
    assert "set `judge.model`" in previewed(CAPTURES / "openai__otel_genai__span")


def test_a_quota_and_a_budget_are_kept_at_the_pace_of_the_traffic(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [row(n, timestamp=1_700_000_000 + n) for n in range(200)])
    quota = {"quotas": {"*": {"per_hour": 6}}}
    config = written(tmp_path, traffic=quota, evaluators=[{"type": "groundedness"}])
    found = re.search(r"(\d+) of them would be evaluated by a judge", previewed(rows, "-c", config))
    assert found is not None
    assert 1 <= int(found[1]) <= 30


def test_the_history_of_a_running_monitor_stands_for_the_requests_behind_it(tmp_path):
    now = SystemClock().now()

    async def write() -> None:
        history = HistorySink(path=tmp_path / "history.db", texts="all")
        async with history.open(Runtime.standalone()) as deliver:
            for number in range(20):
                case = Case(
                    request_id=f"{number:032x}",
                    request=Request("How long?"),
                    retrieved_context=(Document(CONTEXT),),
                    response=f"{ANSWER} {number}",
                    answered_at=now - 3600 + 60 * number,
                )
                judged = EvaluationResult(
                    case=case,
                    evaluator="groundedness",
                    version="1",
                    outcome=Score(5, ""),
                    weight=10,
                    evaluated_at=now - 10,
                    selection=Selection(0.1, 0.1),
                )
                await deliver([judged])

    anyio.run(write)
    storage = {"path": str(tmp_path), "texts": "all"}
    shown = previewed("--since", "6h", "-c", written(tmp_path, storage=storage))
    assert "20 requests: 20 kept" in shown
    assert f"{200 / (19 * 60) * 86400:,.0f} requests a day" in shown
    gone = command("preview", "--since", "6h", "-c", written(tmp_path, storage={"path": str(tmp_path / "none")}))
    assert (gone.exit_code, "there is no history" in gone.stderr) == (2, True)
    assert command("preview").exit_code == 2


def spread(number: int) -> str:
    """An id with its 56 random bits spread evenly, as those of real traces are."""
    return f"{number:018x}{number * 0x9E3779B97F4A7C % (1 << 56):014x}"


def kept(rate: float) -> list[str]:
    return [name for name in map(spread, range(1, 101)) if consistent_sampling.keep(bytes.fromhex(name), "", rate)[0]]


def filled(monitor: MonitorProcess) -> MonitorProcess:
    """After a hundred requests, of which head sampling at one half keeps its part."""
    rows = [{**row(n), "id": spread(n), "app": "shop"} for n in range(1, 101)]
    assert monitor.post("\n".join(map(json.dumps, rows)).encode(), "/v1/cases", "application/x-ndjson") == 200
    number = len(kept(0.5))
    wait_until(
        lambda: monitor.total("ragmonitor_request_log_records_total", outcome="kept") == number, 60, f"{number} trails"
    )
    return monitor


def running(folder: Path, **settings: Any) -> MonitorProcess:
    local = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": [], "sampling": {"traces": 0.5}}
    return MonitorProcess(folder, {**local, **settings})


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """A running monitor that keeps texts and judges nothing but locally."""
    folder = tmp_path_factory.mktemp("running")
    with running(folder, storage={"path": str(folder / "state"), "texts": "all"}) as started:
        yield filled(started)


def asked(monitor: MonitorProcess, folder: Path, *arguments: object, **settings: Any) -> str:
    """What a preview beside the monitor says of another configuration, at ten thousand requests a day."""
    base = {"storage": {"path": str(monitor.folder / "state")}, "alerts": [], "sampling": {"traces": 0.5}}
    given = written(folder, **{**base, **settings})
    return previewed("--since", "1h", "-c", given, "--traffic", "10000/day", *arguments)


def test_beside_a_running_monitor_all_that_came_is_known_and_who_would_be_chosen_of_what_it_kept(monitor, tmp_path):
    shown = asked(monitor, tmp_path, "--prompt")
    there = kept(0.5)
    wanted = [name for name in there if consistent_sampling.chosen(name, "rag-monitor", 0.3)]
    assert f"100 requests were received; head sampling kept {len(there)}" in shown
    assert f"with this configuration: {len(there)} kept, {100 - len(there)} sampled_out" in shown
    assert (
        f"groundedness would select {len(wanted)} of {len(there)} requests that it applies to; it was not configured"
        in shown
    )
    assert f"{len(wanted)} of them would be evaluated by a judge" in shown
    assert set(listed(shown)) <= set(wanted)
    assert len(listed(shown)) == min(len(wanted), 20)
    assert "How long, " in shown
    assert re.search("--- prompt for (.*)", shown)[1] in wanted  # type: ignore[index]
    assert CONTEXT in shown
    (line,) = [one for one in shown.splitlines() if one.startswith("groundedness  ")]
    _, here, a_day, tokens, *_ = re.split(r" {2,}", line.strip())
    assert (here, a_day) == (str(len(wanted)), f"{len(there) * 0.3 * 100:,.0f}")
    assert int(tokens.replace(",", "")) > 100


def test_at_a_lower_head_rate_it_is_the_hash_of_the_kept_ids_at_a_higher_one_the_sums(monitor, tmp_path):
    lower = asked(monitor, tmp_path, sampling={"traces": 0.2})
    assert f"with this configuration: {100 - len(kept(0.2))} sampled_out, {len(kept(0.2))} kept" in lower
    assert set(listed(lower)) <= set(kept(0.2))
    assert "scaled" not in lower
    higher = asked(monitor, tmp_path, sampling={"traces": 0.8})
    assert "with this configuration: 80 kept, 20 sampled_out" in higher
    assert "so the kept ones are scaled up" in higher


def test_the_traffic_of_a_day_follows_from_all_that_came(monitor, tmp_path):
    shown = previewed("--since", "1h", "-c", written(tmp_path, storage={"path": str(monitor.folder / "state")}))
    found = re.search(r"^([\d,]+) requests a day, from", shown, re.MULTILINE)
    assert found is not None
    assert int(found[1].replace(",", "")) >= 100 * 24  # within the hour


def test_a_budget_is_said_not_to_be_predictable(monitor, tmp_path):
    budget = [{"type": "groundedness", "sample": {"type": "budget", "per_day": 50}}]
    shown = asked(monitor, tmp_path, evaluators=budget)
    assert "cannot be predicted: its sampler adapts to the traffic (per_day: 50)" in shown
    assert re.search(r"^groundedness +\? +\? +[\d,]+ +\? +\? +\?$", shown, re.MULTILINE)


def test_without_texts_the_tokens_are_those_of_recorded_evaluations_and_the_setting_that_keeps_texts_is_named(tmp_path):
    with LLMServer() as llm:
        llm.always(say.verdict(observations=["seen"], explanation="scripted", score=5, claims=[]))
        judge = {"model": "openai/gpt-4o-mini", "api_key": "none", "api_base": llm.url, "recheck_share": 0}
        evaluators = [{"type": "relevance"}, {"type": "coherence", "sample": 0}]
        with running(tmp_path, judge=judge, evaluators=evaluators) as judging:
            filled(judging)
            shown = asked(judging, tmp_path, "--prompt", judge=judge, evaluators=evaluators)
    assert "storage.texts: all" in shown
    assert f"relevance would select {len(kept(0.5))} of {len(kept(0.5))} requests that it applies to\n" in shown
    assert "(no text stored)" in shown
    assert "relevance: no text is stored; prompt tokens are the average" in shown
    assert "coherence: no text is stored, no evaluation recorded" in shown
    assert "there is no prompt: no text is stored" in shown
