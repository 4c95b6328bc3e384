"""What the probes of a platform hear at the metrics port, which have no token."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.page import Site


def test_probes_hear_yes_or_no_without_a_token_and_only_who_has_one_hears_why(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.runtime.health.expect("otlp_http")
    with (
        site.served(auth={"token": "secret"}) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        assert client.get("/-/healthy").status_code == 200
        waiting = client.get("/-/ready")
        assert (waiting.status_code, waiting.text) == (503, "not ready\n")
        told = client.get("/-/ready", headers={"authorization": "Bearer secret"})
        assert told.status_code == 503
        assert "otlp_http" in told.text
        site.runtime.health.up("otlp_http")
        assert client.get("/-/ready").text == "ready\n"
        assert client.get("/metrics").status_code == 401
