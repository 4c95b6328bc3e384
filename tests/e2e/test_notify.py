"""Alerts to people, the whole way: rows in, and a chat or a service of Apprise learns that it fires and ends."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import Webhook, webhook
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

STRANGER = "shop <!channel> *x* [me](https://evil.example) @here"


def configuration(notify: list[dict[str, Any]]) -> dict[str, Any]:
    alert = {"evaluator": "overlap_groundedness", "critical": "10%", "windows": [{"window": "20s", "z": 3.09}]}
    return {
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [{**alert, "resolve_after": "2s"}],
        "notify": notify,
        "ui": {"url": "https://monitor.example"},
    }


def send(monitor: MonitorProcess, answer: str) -> None:
    rows = [
        {"id": f"{time.monotonic_ns()}-{at}", "app": STRANGER, "question": "Can I get my money back?",
         "contexts": [CONTEXT], "response": answer}
        for at in range(60)
    ]  # fmt: skip
    assert monitor.post("\n".join(map(json.dumps, rows)).encode(), "/v1/cases", "application/x-ndjson") == 200


def test_a_chat_and_a_service_of_apprise_learn_that_an_alert_fires_and_ends(tmp_path: Path) -> None:
    with webhook() as chat, webhook() as service:
        address = service.address.replace("http://", "json://")
        notify = [
            {"type": "slack", "url": f"{chat.address}services/T0/B0/s3cret"},
            {"type": "apprise", "urls": [f"{address}s3cret/?+X-Token=s3cret"]},
        ]
        with MonitorProcess(tmp_path, configuration(notify)) as monitor:
            send(monitor, BAD)
            wait_until(lambda: chat.bodies and service.bodies, 60, "the alert")
            send(monitor, GOOD)
            wait_until(lambda: min(len(chat.bodies), len(service.bodies)) > 1, 120, "its end")
            assert_balanced(monitor.samples())
            for receiver in ("slack", "apprise"):
                sent = partial(monitor.total, "ragmonitor_notifications_total", receiver=receiver, outcome="sent")
                wait_until(lambda sent=sent: sent() == 2, 20, f"the count of {receiver}")
            assert monitor.terminate(12) == 0
    assert "s3cret" not in (tmp_path / "monitor.log").read_text()
    check_chat(chat)
    check_service(service)


def check_chat(chat: Webhook) -> None:
    for body, word in zip(chat.bodies, ("Firing", "Resolved after"), strict=True):
        section, context = body["blocks"]
        assert section["text"]["type"] == "plain_text"
        assert section["text"]["text"].startswith(word)
        assert "RagDefectRateHigh (critical)" in section["text"]["text"]
        # At its end it is the share at the last look, which may have been between the two deliveries.
        assert ("100 % of the answers" if word == "Firing" else "% of the answers") in body["text"]
        assert all(one["text"].startswith("<https://") for one in context["elements"])
        for text in (section["text"]["text"], body["text"]):
            assert "shop &lt;!channel&gt;" in text
            assert "<" not in text
            assert "@here" not in text


def check_service(service: Webhook) -> None:
    fired, resolved = service.bodies
    assert (fired["type"], resolved["type"]) == ("failure", "success")
    assert fired["title"] == resolved["title"]
    assert fired["title"].startswith("RagDefectRateHigh (critical): shop <!channel> ")
    assert fired["message"].startswith("Firing: 100 % of the answers")
    assert resolved["message"].startswith("Resolved after ")
    assert "Answers: https://monitor.example/answers?" in fired["message"]
    assert "https://evil" not in fired["message"]
