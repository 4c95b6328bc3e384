"""A cause is planted into a service: alert, page and terminal name it. Without a cause they name none.

The days before are written into the history; the rise comes over OTLP, judged by a scripted model.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import pytest

from monitor.clock import SystemClock
from monitor.config import load
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Score
from monitor.model.service_version import ServiceVersion
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE
from monitor.pipeline.scoring import versions
from monitor.sinks.history import HistorySink
from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess
from tests.support.prometheus import Webhook, webhook
from tests.support.runtime import runtime
from tests.support.tools import wait_until

CONTEXT = "Refunds are paid within 14 days of the return."
GOOD, BAD = "They are paid within 14 days.", "They are paid in horses."
HOSTILE = "kb/stale<script>alert(1)</script>\x1b[31m\u202e\r\n" + 3_000 * "x" + "/end"
BEFORE, SINCE = 600, 75
SLICES = ["tenant", "route", "prompt.version"]


@dataclass
class Answer:
    """One answer of a service, before anything is planted: what it has goes with nothing else of it."""

    number: int
    at: float
    tenant: str = ""
    route: str = ""
    prompt: str = "v6"
    document: str = ""
    empty: bool = False
    bad: bool = False

    def __post_init__(self) -> None:
        self.tenant = ("acme", "globex", "initech", "umbrella")[self.mixed("tenant") % 4]
        self.route = ("/orders", "/returns")[self.mixed("route") % 2]
        self.document = f"kb/{self.mixed('document') % 12}"
        self.bad = self.mixed("bad") % 20 == 0

    def mixed(self, what: str) -> int:
        return zlib.crc32(f"{what} {self.number}".encode())

    @property
    def slices(self) -> dict[str, str]:
        return {"tenant": self.tenant, "route": self.route, "prompt.version": self.prompt}


def stale(one: Answer) -> None:
    one.document = HOSTILE


def rollout(one: Answer) -> None:
    one.tenant, one.prompt = "acme", "v7"


def emptied(one: Answer) -> None:
    one.route, one.empty = "/returns", True


CAUSES: dict[str, Callable[[Answer], None]] = {"stale": stale, "rollout": rollout, "emptied": emptied}
APPS = (*CAUSES, "without")


def answers(app: str, until: float) -> list[Answer]:
    """The answers since the rise, of half an hour: one in three is bad, because of the cause of the app or of none."""
    found = [Answer(number, until - 1800 + number * 1800 / SINCE) for number in range(SINCE)]
    for one in found:
        if app not in CAUSES:
            one.bad = one.mixed("without a cause") % 5 < 2
        elif one.number % 3 == 0:
            CAUSES[app](one)
            one.bad = True
    return found


async def history(folder: Path, version: str, until: float) -> None:
    """Write the day before, with one bad answer in twenty, judged by this version of the evaluator."""
    sink = HistorySink(path=folder / "state" / "history.db", texts="all")
    async with sink.open(runtime(SystemClock())) as deliver:
        for app in APPS:
            before = [Answer(number, until - (BEFORE - number) * 120) for number in range(BEFORE)]
            await deliver([replace(_result(app, one), version=version) for one in before])


def _result(app: str, one: Answer) -> EvaluationResult:
    case = Case(
        request_id=f"{zlib.crc32(app.encode()):016x}{one.number:016x}",
        request=Request(f"Question {one.mixed('question') % 8}?"),
        retrieved_context=(Document(CONTEXT, doc_id=HOSTILE if one.mixed("stale") % 30 == 0 else one.document),),
        response=BAD if one.bad else GOOD,
        app=app,
        session_id=f"before {one.number}",
        attributes=one.slices,
        answered_at=one.at,
    )
    score = Score(1.0 if one.bad else 5.0, "as read")
    return EvaluationResult(
        case=case,
        evaluator="groundedness",
        version="1",
        outcome=score,
        defect=one.bad,
        weight=1.0,
        evaluated_at=one.at + 1,
        service_version=ServiceVersion(prompt=one.prompt),
    )


def spans(app: str, one: Answer) -> Iterator[Any]:
    trace = f"{zlib.crc32(app.encode()):08x}{0xC0FFEE:08x}{one.number:016x}"
    question = f"Question {one.mixed('question') % 8}?"
    root = {
        "openinference.span.kind": "CHAIN",
        "input.value": question,
        "output.value": BAD if one.bad else GOOD,
        "session.id": f"{app} {one.number}",
        **one.slices,
    }
    found = {"openinference.span.kind": "RETRIEVER", "input.value": question}
    if one.empty:
        found["output.value"] = "[]"
    else:
        found |= {"retrieval.documents.0.document.id": one.document, "retrieval.documents.0.document.content": CONTEXT}
    for number, (name, attributes) in enumerate((("ask", root), ("retrieve", found)), start=1):
        yield {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "parentSpanId": "" if number == 1 else f"{1:016x}",
            "name": name,
            "startTimeUnixNano": str(int((one.at - 1) * 1e9) + number),
            "endTimeUnixNano": str(int(one.at * 1e9)),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }


def send(monitor: MonitorProcess, app: str, chosen: list[Answer]) -> None:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": app}}]}
    scope = {"name": "openinference.instrumentation.own"}
    listed = [span for one in chosen for span in spans(app, one)]
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": listed}]}]}
    assert monitor.post(json.dumps(body).encode(), "/v1/traces", "application/json") == 200


def judged(asked: Asked) -> Reply:
    bad = "horses" in asked.data["response"]
    text = asked.data["response"]
    claim = {"claim": text, "quote": text, "verdict": "absent" if bad else "supported", "note": "as read"}
    return verdict(claims=[claim], explanation="as read", score=1 if bad else 5)


def configuration(llm: LLMServer, receiver: str, chat: str) -> dict[str, Any]:
    return {
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url,
                  "price": {"input_per_million": 1, "output_per_million": 2}},
        "evaluators": [{"type": "groundedness"}],
        "slices": SLICES,
        "traffic": {"late_after": "1d"},
        "storage": {"texts": "all"},
        "canary": {"interval": None},
        "alerts": [{"evaluator": "groundedness", "warning": "20%", "windows": [{"window": "1h", "z": 2.58}]}],
        "notify": [
            {"type": "alertmanager", "url": receiver, "resend_interval": "1s"},
            {"type": "slack", "url": f"{chat}services/T0/B0/s3cret"},
        ],
    }  # fmt: skip


@dataclass
class Raised:
    """A monitor with an alert on each app that has its diagnosis."""

    monitor: MonitorProcess
    hook: Webhook
    chat: Webhook
    began: float
    lines: dict[str, str]

    def view(self, app: str) -> dict[str, Any]:
        return json.loads(self.monitor.get(f"/api/v1/diagnosis?{self.about(app)}"))

    def page(self, app: str) -> str:
        return self.monitor.get(f"/diagnosis?{self.about(app)}")

    @staticmethod
    def about(app: str) -> str:
        return urlencode({"app": app, "evaluator": "groundedness", "since": "1h"})

    def terminal(self, app: str) -> str:
        config = str(self.monitor.folder / "config.yaml")
        return command("diagnose", "--app", app, "-e", "groundedness", "--since", "1h", "-c", config).output


def lines_of(monitor: MonitorProcess) -> dict[str, str]:
    alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return {one["app"]: one["diagnosis"] for one in alerts if one["status"] == "firing" and one["diagnosis"]}


def incident_of(monitor: MonitorProcess, app: str) -> str:
    alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return next(one["incident"] for one in alerts if one["app"] == app and one["incident"])


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raised]:
    folder, now = tmp_path_factory.mktemp("diagnosis"), time.time()
    with LLMServer() as llm, webhook() as hook, webhook() as chat:
        llm.always(judged)
        config = configuration(llm, hook.address, chat.address)
        config["storage"] = {**config["storage"], "path": str(folder / "state")}
        monitor = MonitorProcess(folder, config)
        evaluators = load(monitor.write()).configured_evaluators
        version = versions(evaluators, {DEFAULT_JUDGE: config["judge"]["model"]})["groundedness"]
        anyio.run(history, folder, version, now - 3 * 3600)
        with monitor:
            by_app = {app: answers(app, now) for app in APPS}
            for late in (False, True):  # the bad ones last: alerts fire when nearly all of them are there
                for app, all_of in by_app.items():
                    send(monitor, app, [one for one in all_of if one.bad is late])
                number = sum(late >= one.bad for all_of in by_app.values() for one in all_of)
                monitor.wait_for_total(number, "ragmonitor_evaluations_total", evaluator="groundedness")
            wait_until(lambda: lines_of(monitor).keys() == set(APPS), 60, "an alert with its diagnosis for each app")
            yield Raised(monitor, hook, chat, now - 1800, lines_of(monitor))


EXPECTED = {"stale": "document kb/stale", "rollout": "prompt.version = v7", "emptied": "retrieved nothing"}


@pytest.mark.parametrize("app", CAUSES)
def test_the_alert_names_the_planted_cause_and_when_it_began(raised: Raised, app: str) -> None:
    line, view = raised.lines[app], raised.view(app)
    assert line.startswith("Since ")
    assert "of the rise" in line
    (factor, *_) = view["factors"]
    named = [one["text"] for one in (*factor["parts"], *factor["likewise"])]
    assert any(EXPECTED[app] in one for one in named), named
    assert any(part["value"][:8] in line for part in factor["parts"])
    assert view["onset"]["earliest"] - 600 <= raised.began <= view["onset"]["latest"] + 600
    assert factor["share"]["value"] > 0.5


@pytest.mark.parametrize("app", CAUSES)
def test_page_and_terminal_name_it_too_with_answers_to_read(raised: Raised, app: str) -> None:
    (factor, *_) = raised.view(app)["factors"]
    page, terminal = raised.page(app), raised.terminal(app)
    assert len(factor["examples"]) == 3
    for one in factor["examples"]:
        assert f'href="case/{quote(one["request_id"], safe="")}"' in page
        assert one["request_id"] in terminal
        assert one["question"].startswith("Question ")
        assert f">{one['question']}</bdi>" in page
        assert f"      {one['question']}\n" in terminal
        assert "groundedness" in raised.monitor.get(f"/case/{quote(one['request_id'], safe='')}")
    for part in factor["parts"]:
        assert part["name"] in page
        assert part["name"] in terminal


def test_a_rise_without_a_cause_names_none(raised: Raised) -> None:
    assert "Nothing stands out among" in raised.lines["without"]
    assert raised.view("without")["factors"] == []
    assert "Nothing stands out" in raised.page("without")
    assert "Nothing stands out." in raised.terminal("without")


def test_page_and_terminal_follow_the_looks_at_the_alert(raised: Raised) -> None:
    wait_until(lambda: raised.view("stale")["next_look"], 60, "the page to know the incident")
    view = raised.view("stale")
    assert view["next_look"] >= view["bad"] / 4
    assert raised.began < view["looked"] <= view["at"]
    config = str(raised.monitor.folder / "config.yaml")
    alert = command("diagnose", "--alert", incident_of(raised.monitor, "stale"), "-c", config).output
    assert "more bad answers." in alert
    assert "kb/stale" in alert
    assert "more bad answers." not in raised.terminal("stale")


def test_a_hostile_name_of_a_cause_is_plain_text_everywhere(raised: Raised) -> None:
    line, page, terminal = raised.lines["stale"], raised.page("stale"), raised.terminal("stale")
    assert line.isprintable()
    assert len(line) < 500
    assert not any(sign in page for sign in ("<script", "\x1b", "\u202e"))
    assert "&lt;script&gt;" in page
    assert not any(sign in terminal for sign in ("\x1b", "\u202e", "\r"))
    assert len(max(terminal.splitlines(), key=len)) < 500


def test_the_receiver_of_the_alert_gets_the_line(raised: Raised) -> None:
    def received(app: str, line: str) -> bool:
        alerts = (alert for body in list(raised.hook.bodies) for alert in body)
        own = (alert for alert in alerts if alert["labels"].get("app") == app)
        return any(alert["annotations"].get("diagnosis") == line for alert in own)

    for app, line in raised.lines.items():
        wait_until(partial(received, app, line), 60, f"the line of {app}")


def test_a_chat_gets_the_line_of_each_alert_once_with_the_alert_or_right_after_it(raised: Raised) -> None:
    def told(app: str) -> list[str]:
        blocks = (block for body in list(raised.chat.bodies) for block in body["blocks"])
        texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        own = (text for text in texts if f": {app}, groundedness" in text)
        return [text for text in own if text.startswith(("Firing", "Diagnosis")) and "Since " in text]

    for app in APPS:
        wait_until(lambda app=app: told(app), 60, f"the line of {app} in the chat")
    assert {app: len(told(app)) for app in APPS} == dict.fromkeys(APPS, 1)
