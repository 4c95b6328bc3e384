"""What a newcomer types from docs/getting-started.md has the effect that the page tells of."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.monitor import MonitorProcess
from tests.support.tools import require, wait_until
from tests.support.written import of_page


def test_the_first_alert_arrives_as_the_page_says(tmp_path: Path) -> None:
    (typed,) = of_page("getting-started.md", "sh")
    require("curl", "curl")
    with MonitorProcess(tmp_path) as monitor:
        typed = typed.replace("127.0.0.1:4318", f"127.0.0.1:{monitor.http}")
        subprocess.run(["sh", "-ec", typed], check=True, capture_output=True, timeout=300)

        def fired() -> list[dict[str, Any]]:
            events = [json.loads(line) for line in monitor.log.read_text().splitlines() if line.startswith("{")]
            return [one for one in events if one.get("event") == "alert_firing"]

        def severities() -> list[str]:
            """Of the alerts on all forty: when the first was logged, some may have been under way."""
            alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
            of_all = [one for one in alerts if "at least 83.9 %, 40 scored" in one["description"]]
            return [one["severity"] for one in of_all if one["status"] == "firing"]

        wait_until(fired, 30, "the alert in the log")
        alert = fired()[0]
        assert (alert["alertname"], alert["app"]) == ("RagDefectRateHigh", "support-bot")
        wait_until(lambda: "critical" in severities(), 60, "all forty in the alert")
