"""`rag-monitor doctor`: each thing is broken in turn, and the explanation is read."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import llm as say
from tests.support.certificates import Authority
from tests.support.command import command, start
from tests.support.kafka import Broker
from tests.support.llm import Asked, LLMServer
from tests.support.tools import free_port, wait_until


def verdicts(asked: Asked, *, grounded: int = 5, made_up: int = 1) -> say.Reply:
    """A judge that knows the shipped pairs, the doctor's own question, and log probabilities."""
    if asked.body.get("logprobs"):
        reply = say.says("yes")
        token = {"token": "yes", "logprob": -0.1, "bytes": None, "top_logprobs": []}
        reply.body["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
        return reply
    if "agrees" in asked.prompt:
        return say.verdict(agrees=True)
    wrong = any(text in asked.data["response"] for text in ("1200 mg", "phone support around"))
    return say.verdict(claims=[], explanation="scripted", score=made_up if wrong else grounded)


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        server.always(verdicts)
        yield server


def written(folder: Path, llm: LLMServer | None = None, **settings: Any) -> Path:
    """A configuration on ports that are free, with a judge if there is one."""
    judge = {"model": "openai/scripted", "api_key": "none", "timeout": "5s"}
    base = {
        "sources": [{"type": "otlp_http", "port": 0}],
        "sinks": [{"type": "prometheus", "port": 0}],
        "storage": {"path": str(folder / "state"), "max_size": "1MiB"},
        **({"judge": {**judge, "api_base": llm.url}} if llm is not None else {}),
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**base, **settings}))
    return path


def examined(config: Path, *options: str, failed: int = 0) -> list[dict[str, str]]:
    ended = command("doctor", "-c", config, "--json", *options)
    told = json.loads(ended.stdout)
    assert told["failed"] == sum(one["level"] == "failed" for one in told["findings"]) == failed, told
    assert ended.exit_code == (1 if failed else 0)
    found: list[dict[str, str]] = told["findings"]
    assert all(bool(one["fix"]) == (one["level"] != "ok") for one in found)
    return found


def level(found: list[dict[str, str]], text: str) -> str:
    (one,) = [one for one in found if text in one["message"]]
    return one["level"]


def test_where_all_is_well_every_line_says_so(tmp_path, llm):
    ended = command("doctor", "-c", written(tmp_path, llm))
    assert ended.exit_code == 0, ended.output
    *lines, _, last = ended.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines), ended.stdout
    assert last == "0 failed, 0 warnings"
    for said in ("structured verdict", "temperature 0", "follow the JSON schema", "returns log probabilities"):
        assert said in ended.stdout
    assert "groundedness scores 5 of 5 known cases correctly" in ended.stdout


def test_without_the_judge_no_call_is_made(tmp_path, llm):
    found = examined(written(tmp_path, llm), "--no-judge")
    assert not llm.requests
    assert level(found, "API key present (not verified)") == "ok"


def test_a_judge_without_a_key_is_named_though_it_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = written(tmp_path, judge={"model": "openai/gpt-4o-mini"})
    assert level(examined(config, "--no-judge", failed=1), "OPENAI_API_KEY is not set") == "failed"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert level(examined(config, "--no-judge"), "OPENAI_API_KEY is set") == "ok"


def test_a_wrong_configuration_is_a_failure_that_names_the_option(tmp_path):
    (one,) = examined(written(tmp_path, sampling={"tracs": 1}), failed=1)
    assert "tracs" in one["message"]


def test_a_key_that_is_refused_is_named_and_nothing_more_is_asked(tmp_path, llm):
    llm.always(say.bad_key())
    found = examined(written(tmp_path, llm), failed=1)
    assert level(found, "rejects the key") == "failed"
    assert "api_key" in next(one["fix"] for one in found if "rejects the key" in one["message"])
    assert len(llm.requests) == 1
    assert "sk-canary" not in json.dumps(found)


def test_an_address_that_redirects_is_a_failure_that_asks_for_the_final_one(tmp_path, llm):
    llm.always(say.redirect(f"{llm.url}/elsewhere"))
    found = examined(written(tmp_path, llm), failed=1)
    (one,) = [one for one in found if "redirects elsewhere, which is not followed (HTTP 307)" in one["message"]]
    assert one["fix"] == "set judge.api_base to the final address"


def test_an_address_where_nobody_listens_is_a_failure(tmp_path, llm):
    settings = yaml.safe_load(written(tmp_path, llm).read_text())
    settings["judge"]["api_base"] = f"http://127.0.0.1:{free_port()}/v1"
    found = examined(written(tmp_path, **settings), failed=1)
    assert level(found, "returns no verdict") == "failed"


def test_a_provider_without_schemas_or_log_probabilities_still_works_and_it_is_said(tmp_path, llm):
    def plain(asked: Asked) -> say.Reply:
        if asked.body.get("response_format"):
            return say.no_formats()
        return say.says("yes") if asked.body.get("logprobs") else verdicts(asked)

    llm.always(plain)
    found = examined(written(tmp_path, llm))
    assert level(found, "does not accept a JSON schema") == "warning"
    assert level(found, "returns no log probabilities") == "ok"
    assert level(found, "5 of 5 known cases") == "ok"


@pytest.mark.parametrize(("score", "right"), [(5, 3), (1, 2)])
def test_a_judge_that_always_says_the_same_is_found_out(tmp_path, llm, score, right):
    llm.always(lambda asked: verdicts(asked, grounded=score, made_up=score))
    found = examined(written(tmp_path, llm), failed=1)
    assert level(found, f"{right} of 5 known cases") == "failed"


def test_a_clock_that_is_more_than_a_minute_off_is_named(tmp_path, llm):
    def dated(asked: Asked) -> say.Reply:
        return replace(verdicts(asked), headers={"date": formatdate(time.time() - 300, usegmt=True)})

    llm.always(dated)
    found = examined(written(tmp_path, llm))
    assert level(found, "s ahead of the provider") == "warning"
    llm.always(lambda asked: replace(verdicts(asked), headers={"date": formatdate(usegmt=True)}))
    assert level(examined(written(tmp_path, llm)), "agrees with the provider") == "ok"


def test_a_judge_that_counts_its_tokens_below_zero_or_sends_no_date_is_examined_to_the_end(tmp_path, llm):
    def odd(asked: Asked) -> say.Reply:
        reply = replace(verdicts(asked), headers={"date": f"Mon, {'9' * 20} Jan 2026 00:00:00 GMT"})
        reply.body["usage"] = {"prompt_tokens": 100, "completion_tokens": -20, "total_tokens": 80}
        return reply

    llm.always(odd)
    assert level(examined(written(tmp_path, llm)), "5 of 5 known cases") == "ok"


def test_a_port_that_somebody_else_has_is_a_failure(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = written(tmp_path, sources=[{"type": "otlp_http", "port": taken.getsockname()[1]}])
        found = examined(config, "--no-judge", failed=1)
    assert level(found, "cannot listen on") == "failed"


def test_ports_that_our_own_running_monitor_has_are_fine(tmp_path):
    http, metrics = free_port(), free_port()
    config = written(
        tmp_path, sources=[{"type": "otlp_http", "port": http}], sinks=[{"type": "prometheus", "port": metrics}]
    )
    process = start("run", "-c", config)
    try:
        wait_until(lambda: _listens(http) and _listens(metrics), 60, "the monitor")
        found = examined(config, "--no-judge")
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert level(found, f"127.0.0.1:{http} is in use by a running monitor") == "ok"
    assert level(found, f"127.0.0.1:{metrics} is in use by a running monitor") == "ok"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_certificate_is_read_for_its_expiry(tmp_path):
    authority = Authority(tmp_path)
    for days, said, failures in ((2, "expires in 2 days", 0), (100, "is valid for 100 days", 0)):
        certificate, key = authority.issue(f"of-{days}", days=days)
        tls = {"cert_file": str(certificate), "key_file": str(key)}
        source = {"type": "otlp_http", "port": 0, "tls": tls}
        found = examined(written(tmp_path, sources=[source]), "--no-judge", failed=failures)
        assert level(found, said) == ("warning" if days < 14 else "ok")
    certificate.unlink()
    found = examined(written(tmp_path, sources=[source]), "--no-judge", failed=1)
    assert level(found, "cannot be read") == "failed"


def test_a_token_file_without_a_token_is_a_failure(tmp_path):
    (tmp_path / "tokens").write_text("# none\n")
    source = {"type": "otlp_http", "port": 0, "auth": {"token_file": str(tmp_path / "tokens")}}
    found = examined(written(tmp_path, sources=[source]), "--no-judge", failed=1)
    assert level(found, "contains no token") == "failed"


def test_a_receiver_that_cannot_be_reached_is_a_failure(tmp_path):
    notify = [{"type": "webhook", "url": f"http://127.0.0.1:{free_port()}/hook"}]
    found = examined(written(tmp_path, notify=notify), "--no-judge", failed=1)
    assert level(found, "cannot connect to") == "failed"


def test_a_storage_folder_of_a_newer_version_is_named(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "version.json").write_text('{"version": "9.0", "format": 99}')
    found = examined(written(tmp_path, storage={"path": str(tmp_path / "state")}), "--no-judge", failed=1)
    assert level(found, "written by a newer version of rag-monitor (9.0)") == "failed"


def test_a_storage_folder_that_cannot_be_or_has_no_room_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    found = examined(written(tmp_path, storage={"path": str(tmp_path / "file" / "in")}), "--no-judge", failed=1)
    assert level(found, "cannot write to") == "failed"
    roomy = {"path": str(tmp_path / "state"), "max_size": "1000000GiB"}
    assert level(examined(written(tmp_path, storage=roomy), "--no-judge"), "may need") == "warning"


def test_brokers_are_asked_for_the_topics_and_what_is_allowed(kafka: Broker, tmp_path):
    kafka.create_topics("doctor-spans", "doctor-dead", partitions=2)
    source = {"type": "kafka", "brokers": kafka.address, "topics": {"doctor-spans": "otlp_proto"}}
    found = examined(written(tmp_path, sources=[{**source, "dead_letters": "doctor-dead"}]), "--no-judge")
    assert level(found, "'doctor-spans' exists, with 2 partitions, and can be read") == "ok"
    assert level(found, "'doctor-dead' exists, with 2 partitions, and can be written") == "ok"
    sink = {"type": "kafka", "brokers": kafka.address, "topic": "doctor-nowhere"}
    found = examined(written(tmp_path, sinks=[sink]), "--no-judge", failed=1)
    assert level(found, "'doctor-nowhere' does not exist") == "failed"
    gone = {**source, "brokers": f"127.0.0.1:{free_port()}", "dead_letters": None}
    found = examined(written(tmp_path, sources=[gone]), "--no-judge", failed=1)
    assert level(found, f"cannot connect to {gone['brokers']}") == "failed"
