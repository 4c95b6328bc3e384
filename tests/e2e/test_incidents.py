"""One incident through the running monitor: traffic gets worse, the monitor is killed, people note, the alert goes."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markdown_it import MarkdownIt

from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

ALERT: dict[str, Any] = {
    "evaluator": "overlap_groundedness",
    "warning": "5%",
    "critical": "15%",
    "windows": [{"window": "10m", "z": 2.33}],
    "resolve_after": "1s",
}
HOSTILE = "</bdi><script>document.title='run'</script>\x1b[31m | `x` \u202e"
NUMBER = 40
FENCES = "```\n# heading\n| a | b |\n[x](https://evil.example) @here\n    \x1b[2J ````"
LONG = "\0 \U000e0041 \u2067" + 3_990 * "\u0e33"
NOTES = [HOSTILE, FENCES, LONG]
REFUSED = [b'""', b'" "', b'"' + 4_001 * b"x" + b'"', b'"\\ud800"', b'"\xff"', b"null", b'"' + 2_000_000 * b"x" + b'"']


def incidents(monitor: MonitorProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(monitor.get("/api/v1/incidents"))["incidents"]
    return found


def report(monitor: MonitorProcess, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(monitor.get(f"/api/v1/incidents/{name}"))
    return found


def post(monitor: MonitorProcess, path: str, body: bytes, kind: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{monitor.metrics_port}{path}", body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def note(monitor: MonitorProcess, name: str, text: bytes) -> int:
    body = json.dumps({"incident": name, "text": "TEXT"}).encode().replace(b'"TEXT"', text)
    return post(monitor, "/api/v1/notes", body, "application/json")


def note_by_form(monitor: MonitorProcess, name: str, text: str) -> int:
    """Add a note as a browser does; it is then shown the incident."""
    (token,) = re.findall(r'name="token" value="([^"]+)"', monitor.get(f"/incidents/{name}"))
    body = urlencode({"incident": name, "token": token, "text": text}).encode()
    return post(monitor, "/note", body, "application/x-www-form-urlencoded")


def noted_on(monitor: MonitorProcess, name: str) -> list[str]:
    """Add notes in both ways; those that are no notes are refused."""
    for text in NOTES:
        assert note(monitor, name, json.dumps(text).encode()) == 200
    assert all(note(monitor, name, text) in (400, 413) for text in REFUSED)
    assert note_by_form(monitor, name, FENCES) == 200
    return [*NOTES, FENCES]


def check_draft(draft: str) -> None:
    rendered = MarkdownIt("commonmark").enable("table").render(draft)
    assert harmless(draft)
    assert not any(tag in rendered for tag in ("<script", "<a ", "<h1>heading"))
    assert re.findall("<h2>(.*)</h2>", rendered)[-4:] == ["Worst answers", "Notes", "Cause", "Actions"]


def harmless(text: str) -> bool:
    """Whether a text steers no terminal and turns no direction."""
    return not {"\x1b", "\u202e", "\u2067", "\0", "\U000e0041"} & set(text)


def test_an_incident_outlives_the_monitor_and_tells_its_story(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [ALERT],
        "storage": {"path": str(tmp_path / "state"), "texts": "all"},
        "ui": {"url": "http://ui.example"},
    }
    yaml, monitor = tmp_path / "config.yaml", MonitorProcess(tmp_path, config)
    with monitor:
        service = RagService.over_http(monitor.http)
        for number in range(NUMBER):
            service.ask(f"{HOSTILE} {number}?", BAD if number % 2 else GOOD)
        service.close()
        wait_until(lambda: incidents(monitor)[0]["worst"] == "critical", 60, "the incident")
        (one,) = incidents(monitor)
        name = one["id"]
        wait_until(lambda: report(monitor, name)["answers"], 60, "its worst answers")
        firing = [each for each in json.loads(monitor.get("/api/v1/alerts"))["alerts"] if each["status"] == "firing"]
        assert {each["severity"] for each in firing} == {"warning", "critical"}
        assert {each["incident"] for each in firing} == {name}
        page = monitor.get(f"/incidents/{name}")
        assert "<script>" not in page
        assert "three horses" in page
        noted = noted_on(monitor, name)
        assert [each["text"] for each in report(monitor, name)["notes"]] == noted
        assert harmless(page := monitor.get(f"/incidents/{name}"))
        assert "<script>" not in page

        monitor.kill()
        monitor.start()
        wait_until(lambda: json.loads(monitor.get("/api/v1/alerts"))["alerts"][0]["incident"] == name, 60, "its alert")
        (again,) = incidents(monitor)
        assert (again["id"], again["fired"], again["ended"]) == (name, one["fired"], None)
        assert monitor.terminate(60) == 0

        shown = command("incident", name, "-c", yaml)
        assert shown.exit_code == 0
        assert harmless(shown.stdout)
        assert "three horses" in shown.stdout
        answer = json.loads(command("incident", name, "--format", "json", "-c", yaml).stdout)["answers"][0]
        for text in ("The index was empty.", "half \udcff a sign"):  # the latter as the system hands over damaged bytes
            assert command("incident", name, "--note", text, "-c", yaml).exit_code == 0
        assert command("incident", name, "--note", 4_001 * "x", "-c", yaml).exit_code == 1
        noted += ["The index was empty.", "half ? a sign"]
        check_draft(command("incident", name, "--format", "markdown", "-c", yaml).stdout)
        audited = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
        assert [each["incident"] for each in audited if each["event"] == "incident_noted"] == len(noted) * [name]
        forgotten = command("forget", "--trace", answer["request_id"], "-c", yaml)
        assert "incidents.db, answers: 1" in forgotten.stdout

        monitor.config["alerts"] = []
        monitor.start()
        wait_until(lambda: incidents(monitor)[0]["end"] == "alert_removed", 60, "its end")
        assert answer["request_id"] not in [each["request_id"] for each in report(monitor, name)["answers"]]
        assert [each["text"] for each in report(monitor, name)["notes"]] == noted
    assert command("incidents", "--open", "-c", yaml).stdout == "No incidents in the last 30d.\n"
    listed = command("incidents", "-c", yaml).stdout.splitlines()
    assert listed[1].startswith(name)
    assert listed[1].endswith("alert removed")
    assert command("incident", "20200101-00000000", "-c", yaml).exit_code == 1
