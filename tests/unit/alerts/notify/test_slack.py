"""Slack-shaped messages: within Slack's limits, escaped as it demands, repeated as a webhook is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from monitor.alerts.notify import Inbox, Slack, read_notifier
from monitor.alerts.state import AlertState
from monitor.clock import SystemClock
from tests.support.alerts import answer, counted, receiver, running, state
from tests.support.runtime import runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def slack(address: str) -> Slack:
    made = read_notifier({"type": "slack", "url": f"{address}/services/T0/B0/s3cret"}, "notify[0]")
    assert isinstance(made, Slack)
    return made


async def posted(*states: AlertState, count: int = 1) -> list[Any]:
    """The messages about alerts that fire."""
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        one = slack(there.address)
        async with running(lambda: one.run(inbox, lent)):
            inbox.put(states)
            await there.until(count)
            await until(lambda: counted(lent, "slack", "sent") == len(states))
    return [body for _, _, body in there.posts]


async def test_a_message_has_blocks_for_slack_and_a_text_for_the_others() -> None:
    fired = state()
    links = {"runbook_url": "https://wiki.example/r.md", "answers_url": "https://m.example/answers?app=shop&since=24h"}
    (body,) = await posted(replace(fired, annotations={**fired.annotations, **links}))
    assert body == {
        "text": "Firing: RagDefectRateHigh (critical): shop, grounded. 30 % are defective."
        " Runbook: https://wiki.example/r.md Answers: https://m.example/answers?app=shop&amp;since=24h",
        "mrkdwn": False,
        "blocks": [
            {
                "type": "section",
                "text": {
                    "type": "plain_text",
                    "text": "Firing: RagDefectRateHigh (critical): shop, grounded\n30 % are defective.",
                    "emoji": False,
                },
            },
            {
                "type": "context",
                "elements": [
                    {"type": "mrkdwn", "text": "<https://wiki.example/r.md|Runbook>", "verbatim": True},
                    {
                        "type": "mrkdwn",
                        "text": "<https://m.example/answers?app=shop&amp;since=24h|Answers>",
                        "verbatim": True,
                    },
                ],
            },
        ],
        "unfurl_links": False,
        "unfurl_media": False,
    }


async def test_a_resolved_alert_is_told_too() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        one = slack(there.address)
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await there.until(1)
            inbox.put([state(False)])
            await until(lambda: counted(lent, "slack", "sent") == 2)
    assert there.posts[1][2]["text"].startswith("Resolved after ")


async def test_hostile_texts_stay_within_the_limits_and_out_of_the_markup() -> None:
    hostile = "<!channel> *x* <https://evil.example|fine> & `y` @here \n> quote " * 200
    states = [
        replace(
            state(app=str(number)),
            labels={"alertname": "RagDefectRateHigh", "app": hostile, "evaluator": hostile, "severity": "critical"},
            annotations={"description": hostile, "runbook_url": f"https://a.example/{'&' * 1_900}"},
        )
        for number in range(9)
    ]
    bodies = await posted(*states, count=3)
    assert [len(body["blocks"]) for body in bodies] == [8, 8, 2], "four alerts in a message"
    for body in bodies:
        assert len(body["text"]) <= 2_000, "the limit of Discord"
        assert "<" not in body["text"]
        for block in body["blocks"]:
            if block["type"] == "section":
                assert block["text"]["type"] == "plain_text"
                assert len(block["text"]["text"]) <= 3_000
                assert not set(block["text"]["text"]) & set("<>*`")
                assert "@here" not in block["text"]["text"]
            for element in block.get("elements", ()):
                assert len(element["text"]) <= 3_000
                assert element["text"].count("<") == 1, "a link of the configuration"


async def test_a_refused_message_is_sent_again_and_its_address_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        there.answers = [answer("429 Too Many Requests", "Retry-After: 1")]
        one = slack(there.address)
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: counted(lent, "slack", "sent"))
    assert len(there.posts) == 2
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "notification_failed"]
    assert "429" in record.getMessage()
    assert not any("s3cret" in f"{one.__dict__}" for one in caplog.records)


async def test_a_diagnosis_that_comes_later_is_a_message_of_its_own_with_nothing_else() -> None:
    lent, inbox, fired = runtime(SystemClock()), Inbox(), state()
    async with receiver() as there:
        one = slack(there.address)
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([fired])
            await there.until(1)
            late = {**fired.annotations, "diagnosis": "Since 14:05 UTC. 71 % of the rise: <!channel> = v7."}
            inbox.put([replace(fired, annotations=late)])
            await there.until(2)
            await until(lambda: counted(lent, "slack", "sent") == 2)
    _, _, body = there.posts[1]
    said = "Since 14:05 UTC. 71 % of the rise: &lt;!channel&gt; = v7."
    assert body["text"] == f"Diagnosis: RagDefectRateHigh (critical): shop, grounded. {said}"
    assert body["blocks"][0]["text"]["text"] == f"Diagnosis: RagDefectRateHigh (critical): shop, grounded\n{said}"
