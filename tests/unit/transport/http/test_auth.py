from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from monitor.clock import ManualClock
from monitor.errors import ConfigError, Unauthenticated
from monitor.sinks.prometheus import PrometheusSink
from monitor.transport.http.auth import Auth, Gate, is_named
from tests.support.runtime import runtime, total


def passes(gate: Gate, authorization: str | None) -> bool:
    try:
        gate(authorization)
    except Unauthenticated as refusal:
        return not refusal.challenge.startswith("Bearer realm=")
    return True


@pytest.fixture
def made() -> Callable[[Auth], Gate]:
    lent = runtime()
    return lambda auth: auth.gate(lent.clock, lent.events)


def test_only_the_token_passes(made: Callable[[Auth], Gate]) -> None:
    gate = made(Auth.model_validate({"token": "right"}))
    assert passes(gate, "Bearer right")
    assert passes(gate, "bearer  right ")
    for wrong in (None, "", "right", "Bearer", "Bearer ", "Bearer wrong", "Bearer righ", "Basic right", "Bearer ré"):
        assert not passes(gate, wrong), wrong


def test_a_file_holds_several_tokens_plain_or_hashed(tmp_path: Path, made: Callable[[Auth], Gate]) -> None:
    hashed = hashlib.sha256(b"third").hexdigest()
    (tmp_path / "tokens").write_text(f"# ours\nfirst\n\n  second \nsha256:{hashed}\n")
    gate = made(Auth(token_file=tmp_path / "tokens"))
    assert [passes(gate, f"Bearer {t}") for t in ("first", "second", "third", f"sha256:{hashed}", "# ours")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_tokens_are_rotated_without_a_restart_and_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    lent = runtime(clock)
    path = tmp_path / "tokens"
    path.write_text("old")
    gate = Auth(token_file=path).gate(clock, lent.events)
    path.write_text("newer")
    assert passes(gate, "Bearer old")  # the file is looked at once a second
    clock.advance(1)
    assert not passes(gate, "Bearer old")
    assert passes(gate, "Bearer newer")
    for spoil in (path.unlink, lambda: path.write_text("\n"), lambda: path.write_bytes(b"\xff")):
        spoil()
        clock.advance(1)
        assert passes(gate, "Bearer newer")
    path.write_text("newest")
    os.utime(path, (1, 1))
    clock.advance(1)
    assert passes(gate, "Bearer newest")
    assert total(lent.metrics, "ragmonitor_events_total", event="reloaded") == 2
    assert total(lent.metrics, "ragmonitor_events_total", event="reload_failed") == 3


def test_a_token_file_that_cannot_be_used_is_a_configuration_error(
    tmp_path: Path, made: Callable[[Auth], Gate]
) -> None:
    with pytest.raises(ConfigError, match="tokens' cannot be read: No such file"):
        made(Auth(token_file=tmp_path / "tokens"))
    (tmp_path / "tokens").write_text("# none yet\n")
    with pytest.raises(ConfigError, match="contains no token"):
        made(Auth(token_file=tmp_path / "tokens"))


def test_one_of_token_and_token_file_is_needed() -> None:
    for wrong in ({}, {"token": "a", "token_file": "b"}, {"token": " "}):
        with pytest.raises(ValidationError):
            Auth.model_validate(wrong)


def test_the_token_is_not_shown() -> None:
    assert "canary" not in repr(Auth.model_validate({"token": "canary"}))


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("127.0.0.1:9464", True),
        ("[::1]:9464", True),
        ("10.0.0.7", True),
        ("localhost:9464", True),
        ("rag-monitor", True),
        ("monitor.localhost:80", True),
        ("rag-monitor.monitoring.svc.cluster.local.", True),
        ("host.docker.internal:4318", True),
        ("monitor.example.com:443", True),
        ("MONITOR.example.com.", True),
        ("", True),
        ("evil.example", False),
        ("svc.evil.example", False),
        ("127.0.0.1.evil.example:9464", False),
        ("monitor.example.com.evil.example", False),
        ("1.2.3.4.5", False),
    ],
)
def test_a_name_that_a_website_may_have_bound_to_this_address_is_not_ours(host: str, named: bool) -> None:
    assert is_named(host, {"monitor.example.com"}) == named


@pytest.mark.parametrize("host", ["*.example.com", "https://a.example", "a.example:9464", "", "a..b", "a b"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(ValidationError, match="is not a host name such as"):
        PrometheusSink(hosts=(host,))
