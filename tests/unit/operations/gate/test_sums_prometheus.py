"""A Prometheus that asks for a token, or whose certificate only a private authority signs."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.operations.gate.sums import PrometheusSums
from tests.support.http_api import HttpApi, Says

NOTHING = Says(data={"data": {"result": []}})


def test_without_a_token_none_is_sent() -> None:
    with HttpApi(NOTHING) as api:
        PrometheusSums(api.url).releases("groundedness", None, 0.0)
        assert "authorization" not in api.asked[0].headers


def test_a_redirect_to_another_server_is_followed_without_the_token() -> None:
    with HttpApi(NOTHING) as other, HttpApi(Says(status=302, headers={"location": f"{other.url}/api"})) as api:
        PrometheusSums(api.url, token="let-me-in").releases("groundedness", None, 0.0)
        assert api.asked[0].headers["authorization"] == "Bearer let-me-in"
        assert "authorization" not in other.asked[0].headers


def test_a_token_of_two_words_is_refused() -> None:
    with pytest.raises(ConfigError, match="one word of plain ASCII"):
        PrometheusSums("http://prometheus:9090", token="two words")


def test_an_authority_that_cannot_work_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca_file: .*contains no certificate"):
        PrometheusSums("https://prometheus:9090", ca_file=tmp_path / "ca.pem")
    with pytest.raises(ConfigError, match="begins with https://"):
        PrometheusSums("http://prometheus:9090", ca_file=tmp_path / "ca.pem")


@pytest.mark.parametrize("says", [Says(status=503), Says(data={"status": "error"}), Says(content=b"not JSON")])
def test_a_response_that_is_no_result_is_an_error_that_names_the_server(says: Says) -> None:
    with HttpApi(says) as api, pytest.raises(ConfigError, match=api.url):
        PrometheusSums(api.url).releases("groundedness", None, 0.0)
