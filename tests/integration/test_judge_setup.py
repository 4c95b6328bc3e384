"""A judge that is not set up: the real litellm without keys, addresses and providers, and where no server listens.

Each fault is told apart, said in the provider's own words, and paused or retried as it deserves; by the judge and by
the commands.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from monitor.clock import SystemClock
from monitor.errors import ConfigError, JudgeError
from monitor.judge.client import open_judge
from monitor.judge.pause import Pause
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import PauseCause
from monitor.stages import Question, Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from tests.support import llm as say
from tests.support.command import command, write_rows
from tests.support.llm import LLMServer
from tests.support.tools import free_port

pytestmark = [
    pytest.mark.anyio,
    # Of litellm: its clients for these providers are never closed, and it defines types that pydantic warns of.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:.*ReadOnly.*:UserWarning"),
]

KEY = "sk-canary-9Qx71wTtKk"
TEXT = "canary in the response, which nobody may repeat"
QUESTION = Question(
    "groundedness",
    "Score it.",
    {"response": TEXT},
    {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]},
    max_tokens=50,
)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN", "_API_BASE")) or name.startswith(("AZURE_", "AWS_")):
            monkeypatch.delenv(name)


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        yield server


class Asked:
    """What a judge said, and how it stands afterwards."""

    def __init__(self, said: str, pause: Pause, calls: float) -> None:
        self.said = said
        self.cause = pause.now.cause if pause.now is not None else None
        self.remedy = pause.now.remedy if pause.now is not None else ""
        self.calls = calls


async def asked(**settings: Any) -> Asked:
    """Ask one question of a judge with these settings."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    runtime = Runtime(SystemClock(), metrics, Events(metrics), Health())
    given = JudgeSettings.model_validate({"timeout": 5, "max_age": 20, "max_attempts": 2, **settings})
    async with open_judge(given, runtime, rng=random.Random(1)) as judge:
        with pytest.raises(JudgeError) as raised:
            await judge.ask(QUESTION)
        said = str(raised.value)
        assert KEY not in said
        assert "canary" not in said
        assert "\n" not in said
        return Asked(said, judge.pause, float(len(raised.value.spent.tries)))


def closed() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("openai/gpt-4o-mini", "Missing credentials"),
        ("azure/gpt4", "Missing credentials"),
        ("anthropic/claude-3-5-haiku-latest", "Missing Anthropic API Key"),
        ("gemini/gemini-2.0-flash", "Missing Gemini API key"),
    ],
)
async def test_a_judge_without_a_key_says_so_in_the_library_s_words_and_is_paused(model, words):
    found = await asked(model=model)
    assert found.said.startswith(f'no API key is set: "{words}')
    assert found.cause is PauseCause.NO_KEY
    assert found.calls == 1
    assert "judge.api_key" in found.remedy


async def test_a_judge_without_an_address_says_so_and_is_paused():
    found = await asked(model="azure/gpt4", api_key=KEY)
    assert found.said.startswith('no address of the API is set: "Must provide one of the `base_url`')
    assert found.cause is PauseCause.NO_ADDRESS
    assert "judge.api_base" in found.remedy


@pytest.mark.parametrize("model", ["gpt-nope", "nosuchprovider/gpt"])
async def test_a_model_without_a_provider_is_an_error_before_the_judge_opens(model):
    with pytest.raises(ConfigError, match=r'^judge\.model: .*: "LLM Provider NOT provided.*as provider/name'):
        await asked(model=model)


async def test_a_provider_whose_package_is_missing_is_paused_with_the_package_s_name():
    found = await asked(model="vertex_ai/gemini-2.0-flash", api_key=KEY)
    assert found.cause is PauseCause.NO_PACKAGE
    assert "google" in found.said


MODELS = (
    "openai/gpt-4o-mini",
    "azure/gpt4",
    "anthropic/claude-3-5-haiku-latest",
    "ollama_chat/llama3",
    "ollama/llama3",
)


@pytest.mark.parametrize("model", MODELS)
async def test_a_closed_port_is_a_refused_connection_and_is_tried_again(model):
    address = closed()
    found = await asked(model=model, api_key=KEY, api_base=address)
    assert found.said == f"the provider cannot be reached: connection refused by {address.removeprefix('http://')}"
    assert found.cause is None
    assert found.calls == 2


@pytest.mark.parametrize("model", MODELS)
async def test_a_host_that_does_not_resolve_is_named(model):
    found = await asked(model=model, api_key=KEY, api_base="http://no-such-host.invalid:8000")
    assert found.said == "the provider cannot be reached: the host name no-such-host.invalid does not resolve"
    assert found.cause is None


@pytest.mark.parametrize("model", MODELS)
async def test_a_wrong_key_is_said_in_the_provider_s_words_without_the_key(llm, model):
    llm.always(say.status(401, message=f"Incorrect API key provided: {KEY[:8]}****{KEY[-4:]}. Ask your admin."))
    found = await asked(model=model, api_key=KEY, api_base=llm.url)
    assert found.said == (
        'the provider rejects the key (HTTP 401): "Incorrect API key provided: [hidden] Ask your admin"'
    )
    assert found.cause is PauseCause.REFUSED


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_that_the_provider_does_not_have_is_said_in_its_words(llm, model):
    llm.always(say.status(404, message="The model `llama3` does not exist", kind="model_not_found"))
    found = await asked(model=model, api_key=KEY, api_base=llm.url)
    assert found.said.endswith('(HTTP 404): "The model `llama3` does not exist"')
    assert found.cause is PauseCause.GONE


@pytest.mark.parametrize("model", MODELS)
async def test_a_spent_quota_is_said_in_the_provider_s_words(llm, model):
    llm.always(say.no_quota())
    found = await asked(model=model, api_key=KEY, api_base=llm.url)
    assert '"You exceeded your current quota, please check your plan and billing details"' in found.said
    assert found.cause is PauseCause.UNPAID


@pytest.mark.parametrize("model", MODELS)
async def test_a_page_of_a_proxy_is_no_completion_and_no_status_is_made_up(llm, model):
    llm.always(say.html())
    found = await asked(model=model, api_key=KEY, api_base=llm.url)
    assert found.said == "the reply is not a completion"
    assert found.cause is None


@pytest.mark.parametrize("model", MODELS)
async def test_no_redirect_is_followed_whatever_the_provider(llm, model):
    llm.always(
        lambda asked: say.verdict(score=1) if "elsewhere" in asked.path else say.redirect(f"{llm.url}/elsewhere")
    )
    await asked(model=model, api_key=KEY, api_base=llm.url)
    assert not [one for one in llm.requests if "elsewhere" in one.path]


@pytest.mark.parametrize("model", MODELS)
async def test_a_provider_that_repeats_the_prompt_is_not_quoted(llm, model):
    llm.always(say.status(422, message=f"invalid input_value='{TEXT}'"))
    found = await asked(model=model, api_key=KEY, api_base=llm.url)
    assert "HTTP 422" in found.said


# ------------------------------------------------------------------------------------------------- the commands


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    row = {"request": "When do you open?", "response": "At nine.", "retrieved_context": [{"content": "Open at nine."}]}
    return write_rows(tmp_path / "rows.jsonl", [row])


def written(folder: Path, **judge: Any) -> Path:
    path = folder / "config.yaml"
    settings = {
        "judge": {"max_attempts": 1, **judge},
        "evaluators": [{"type": "relevance"}],
        "alerts": [],
        "sources": [{"type": "otlp_http", "port": 0}],
        "sinks": [{"type": "prometheus", "port": 0}],
        "storage": {"path": str(folder / "state"), "max_size": "1MiB"},
    }
    path.write_text(yaml.safe_dump(settings))
    return path


def test_check_warns_of_a_missing_key_without_a_call(tmp_path):
    done = command("check", "-c", written(tmp_path, model="openai/gpt-4o-mini"))
    assert done.exit_code == 0
    first, second, *_ = done.stdout.splitlines()
    assert first.endswith("valid, with 1 warning")
    assert second.startswith(
        "warning: judge: no API key is set: there is no judge.api_key, and the variable OPENAI_API_KEY"
    )
    found = json.loads(command("check", "--json", "-c", tmp_path / "config.yaml").stdout)
    assert len(found["warnings"]) == 1


def test_check_is_silent_where_the_key_is_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    done = command("check", "-c", written(tmp_path, model="openai/gpt-4o-mini"))
    assert done.stdout.splitlines()[0].endswith(": valid")
    assert KEY not in done.stdout


@pytest.mark.parametrize("name", ["check", "run"])
def test_a_model_without_a_provider_is_an_error_at_check_and_at_the_start(tmp_path, name):
    done = command(name, "-c", written(tmp_path, model="gpt-nope"))
    assert done.exit_code == 2
    assert "judge.model" in done.stderr
    assert "LLM Provider NOT provided" in done.stderr


@pytest.mark.parametrize("name", ["check", "run"])
def test_a_classifier_without_its_extra_is_an_error_that_names_its_judge(tmp_path, name):
    path = written(tmp_path)
    given = yaml.safe_load(path.read_text())
    evaluators = [{"type": "hhem", "judge": "h"}]
    given |= {"judges": {"h": {"model": "classifier/nobody/has-this"}}, "evaluators": evaluators}
    path.write_text(yaml.safe_dump(given))
    done = command(name, "-c", path)
    assert done.exit_code == 2
    assert "judges.h.model" in done.stderr
    assert "rag-monitor[hhem]" in done.stderr


@pytest.mark.parametrize(
    ("judge", "words", "fix"),
    [
        ({"model": "openai/gpt-4o-mini"}, 'no API key is set: "Missing credentials', "judge.api_key"),
        ({"model": "azure/gpt4", "api_key": KEY}, "no address of the API is set", "judge.api_base"),
        (
            {"model": "openai/x", "api_key": KEY, "api_base": "closed"},
            "connection refused by 127.0.0.1",
            "judge.api_base",
        ),
        (
            {"model": "openai/x", "api_key": KEY, "api_base": "http://no.invalid"},
            "no.invalid does not resolve",
            "api_base",
        ),
    ],
    ids=["no key", "no address", "closed port", "no such host"],
)
def test_doctor_and_try_say_the_cause_and_what_to_change(tmp_path, rows, judge, words, fix):
    judge = {**judge, "api_base": closed()} if judge.get("api_base") == "closed" else judge
    path = written(tmp_path, **judge)
    found = json.loads(command("doctor", "--json", "-c", path).stdout)["findings"]
    (failed,) = [one for one in found if one["level"] == "failed"]
    assert words in failed["message"]
    assert fix in failed["fix"]
    assert "HTTP 500" not in failed["message"]
    tried = command("try", "relevance", "--case", rows, "-k", "1", "-c", path)
    assert tried.exit_code == 1
    assert words in tried.stdout
    assert fix in tried.stdout
    assert KEY not in tried.stdout + json.dumps(found)
