"""Alerts to people, the whole way: rows in, and a chat or a service of Apprise learns that it fires and ends."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
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


def test_two_channels_of_one_chat_each_learn_of_the_end_of_an_alert_after_a_reload(tmp_path: Path) -> None:
    with webhook() as chat:
        notify: list[dict[str, Any]] = [{"type": "slack", "url": f"{chat.address}services/{name}"} for name in "AB"]
        with MonitorProcess(tmp_path, {**configuration(notify), "reload": {"http": True}}) as monitor:
            send(monitor, BAD)
            wait_until(lambda: len(chat.bodies) == 2, 60, "the alert in both channels")
            assert monitor.reload(runbooks_url="https://wiki.example").startswith("200")

            def over() -> bool:
                send(monitor, GOOD)
                return len(chat.bodies) == 4

            wait_until(over, 120, "its end in both channels")
            assert monitor.terminate(12) == 0
    assert [body["text"].partition(" ")[0] for body in chat.bodies] == ["Firing:"] * 2 + ["Resolved"] * 2


def test_an_alert_that_outlives_restarts_is_announced_once_and_its_end_once_also_where_it_was_removed_meanwhile(
    tmp_path: Path,
) -> None:
    with webhook() as hook:
        config = configuration([{"type": "webhook", "url": f"{hook.address}s3cret"}])
        config["alerts"][0] |= {"windows": [{"window": "1h", "z": 3.09}], "warning": "5%"}

        def firing(monitor: MonitorProcess) -> list[str]:
            alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
            return [one["since"] for one in alerts if one["status"] == "firing" and one["severity"] == "critical"]

        with MonitorProcess(tmp_path, config) as monitor:
            send(monitor, BAD)
            wait_until(lambda: hook.bodies, 60, "the alert")
            monitor.wait_for_total(1, "ragmonitor_notifications_total", receiver="webhook", outcome="sent")
            since = firing(monitor)
            assert monitor.terminate(12) == 0
        with MonitorProcess(tmp_path, config) as monitor:
            wait_until(lambda: firing(monitor), 60, "a look at the alerts after the restart")
            assert firing(monitor) == since
            monitor.kill()
        for _ in range(2):
            with MonitorProcess(tmp_path, {**config, "alerts": []}) as monitor:
                wait_until(lambda: len(hook.bodies) > 1, 60, "its end")
                wait_until(lambda: "alerts" in monitor.get("/api/v1/alerts"), 60, "a look at the alerts")
                assert monitor.terminate(12) == 0
    said = [alert for body in hook.bodies for alert in body["alerts"]]
    assert [(one["labels"]["severity"], one["status"]) for one in said] == [
        ("critical", "firing"),
        ("critical", "resolved"),
    ]
    fired, resolved = said
    assert resolved["startsAt"] == fired["startsAt"] < resolved["endsAt"]
    assert resolved["labels"] == fired["labels"]
    assert b"s3cret" not in (tmp_path / "state" / "state.db").read_bytes()
    log = (tmp_path / "monitor.log").read_text()
    assert (log.count('"alert_firing"'), log.count('"alert_resolved"')) == (1, 1)


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


def test_a_digest_that_was_due_while_the_monitor_was_down_reaches_a_chat_once(tmp_path: Path) -> None:
    due = datetime.now(UTC) - timedelta(minutes=5)
    every = f"daily {due:%H:%M}"
    with webhook() as chat, webhook() as service:
        notify: list[dict[str, Any]] = [
            {"type": "slack", "url": f"{chat.address}services/T0/B0/s3cret"},
            {"type": "apprise", "name": "mail", "urls": [service.address.replace("http://", "json://")]},
        ]
        config = {**configuration(notify), "alerts": [], "digest": {"every": every, "to": ["slack", "mail"]}}
        with MonitorProcess(tmp_path, config) as monitor:
            send(monitor, BAD)
            monitor.wait_for_total(60, "ragmonitor_evaluations_total")
            assert monitor.terminate(12) == 0
        assert not chat.bodies  # it was due before the monitor first ran
        yesterday(tmp_path / "state")
        with MonitorProcess(tmp_path, config) as monitor:
            wait_until(lambda: chat.bodies and service.bodies, 60, "the digest")
            for name in ("slack", "mail"):
                monitor.wait_for_total(1, "ragmonitor_digests_total", receiver=name, outcome="sent")
            assert monitor.terminate(12) == 0
        with MonitorProcess(tmp_path, config) as monitor:
            assert monitor.total("ragmonitor_digests_total") == 0
            assert monitor.terminate(12) == 0
    (body,), (mail,) = chat.bodies, service.bodies
    assert mail["type"] == "info"
    assert mail["title"].startswith("Answers, ")
    for text in (body["text"], body["blocks"][0]["text"]["text"], mail["message"]):
        assert "overlap_groundedness: 100 % (" in text
        assert "@here" not in text
    assert "shop &lt;!channel&gt;" in body["text"]
    said = command("digest", "-c", str(tmp_path / "config.yaml"), "--format", "json")
    assert json.loads(said)["rates"][0]["now"]["judged"] == 60
    assert "&lt;!channel>" in command("digest", "-c", str(tmp_path / "config.yaml"), "--format", "markdown")


def yesterday(storage: Path) -> None:
    """Set what the monitor keeps of the last digest back by a day, and the answers to before it was due."""
    with closing(sqlite3.connect(storage / "state.db")) as db:
        ((kept,),) = db.execute("SELECT body FROM state WHERE name = 'digest'").fetchall()
        value = json.loads(kept)
        value["sent"] = {name: at - 86_400 for name, at in value["sent"].items()}
        db.execute("UPDATE state SET body = ? WHERE name = 'digest'", (json.dumps(value).encode(),))
        db.commit()
    with closing(sqlite3.connect(storage / "history.db")) as db:
        db.execute("UPDATE session_sums SET at = at - 3600")
        db.commit()


def command(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "monitor", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
