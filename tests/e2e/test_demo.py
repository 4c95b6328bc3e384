"""What `make demo` runs: recorded traffic through the real OTLP port until the alert fires."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import urllib.request

from tests.support.tools import wait_until


def test_the_demo_shows_the_alert_with_an_answer_and_why_and_ends_cleanly_on_ctrl_c():
    demo = subprocess.Popen(
        [sys.executable, "-m", "monitor", "demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(demo.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        wait_until(lambda: "ALERT RagDefectRateHigh" in "".join(said), 120, "the alert")
        (address,) = re.findall(r"metrics: (http\S+)", "".join(said))
        with urllib.request.urlopen(address, timeout=60) as metrics:
            assert b'ragmonitor_evaluations_total{app="acme-support"' in metrics.read()
        (page,) = re.findall(r"page: (http\S+)", "".join(said))

        def shows_the_worst_answers() -> bool:
            """With their texts, which are stored a moment after they are counted."""
            with urllib.request.urlopen(page, timeout=60) as shown:
                text = shown.read().decode()
            return "acme-support" in text and "<mark" in text

        wait_until(shows_the_worst_answers, 20, "the worst answers on the page")
        wait_until(lambda: "worst:" in "".join(said), 10, "the worst answer")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    finally:
        demo.kill()
        demo.wait()
    reader.join(60)
    demo.stdout.close()
    text = "".join(said)
    assert "Traceback" not in text
    before_the_alert = text[: text.index("ALERT")]
    assert "ok" in before_the_alert, "it begins healthy"
    worst = next(line for line in said if "worst:" in line)
    assert "«" in worst, "the unsupported stretch is marked"
    assert "are in the context" in worst, "the reason is given"
