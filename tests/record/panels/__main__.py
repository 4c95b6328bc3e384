"""Draws every board: real traffic, a real monitor, a real Prometheus, Grafana's panel code in headless Chromium.

    python -m tests.record.panels FOLDER [--seconds 240] [--theme light] [--only BOARD]

Needs node, npm (which fetches what `package.json` names, once, about 450 MB beside the repository), Debian's `chromium`
and `prometheus`. Leaves BOARD.png for each board, and what Prometheus answered. Drawn by Grafana: time series, tables,
single numbers. Drawn by a stand-in: heatmaps. Not drawn: annotations, exemplars, variables.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from monitor import config
from monitor.alerts.prometheus.rates import rates
from monitor.alerts.prometheus.rules import render
from monitor.statistics.rates import Z_95
from tests.support import cache
from tests.support.boards import PATHS, filled, load
from tests.support.fed import ATTACK, Fed
from tests.support.llm import LLMServer
from tests.support.prometheus import get_json, prometheus
from tests.support.service import BAD, GOOD
from tests.support.tools import require

HERE = Path(__file__).parent
STEP, WINDOW = 3, 45
"""Seconds between two points, and of the variable `window`."""

APPS = {"shop": (6.0, 0.03, 0.35), "support": (3.0, 0.06, 0.06), "docs": (0.3, 0.0, 0.1)}
"""Requests a second, and the share of bad answers at the beginning and at the end."""


def feed(fed: Fed, seconds: float, stop: threading.Event) -> None:
    """Three apps, one of which gets worse in the second half; attacks now and then; a new prompt halfway."""
    draw, began, sent = random.Random(1), time.monotonic(), dict.fromkeys(APPS, 0)
    while (elapsed := time.monotonic() - began) < seconds and not stop.is_set():
        part = min(max(2 * elapsed / seconds - 1, 0.0), 1.0)
        for app, (per_second, first, last) in APPS.items():
            # What a slow machine cannot send within a second is left out, or the first app would leave others no time.
            sent[app] = max(sent[app], int((elapsed - 1) * per_second))
            while sent[app] < elapsed * per_second:
                sent[app] += 1
                bad, attack = draw.random() < first + (last - first) * part, draw.random() < 0.06
                more: dict[str, Any] = {"question": ATTACK} if attack else {}
                more["attributes"] = {"prompt.version": "2" if part else "1"}
                more["model"] = draw.choice(["small", "large"])
                if draw.random() < 0.05:
                    more["timestamp"] = "2024-01-01T00:00:00Z"
                fed.post(BAD if bad else GOOD, app=app, **more)
        if draw.random() < 0.2:
            fed.round(1)
        time.sleep(0.2)


def asked(address: str, path: Path, began: float, now: float, app: str) -> dict[str, Any]:
    """A board with what its queries find; a repeated row once for each evaluator."""
    values = {"job": ".+", "instance": ".+", "app": app, "slice": "gen_ai.request.model"}
    values |= {"window": f"{WINDOW}s", "__rate_interval": "12s"}

    def found(target: dict[str, Any], more: dict[str, str]) -> dict[str, Any]:
        query = filled(target["expr"], {**values, **more}).replace("offset 1w", f"offset {WINDOW * 2}s")
        if instant := bool(target.get("instant")):
            answer = get_json(f"{address}/api/v1/query", query=query, time=str(now))
        else:
            span = {"start": str(began), "end": str(now), "step": str(STEP)}
            answer = get_json(f"{address}/api/v1/query_range", query=query, **span)
        kept = {"ref": target["refId"], "legend": target.get("legendFormat", ""), "instant": instant}
        return {**kept, "result": answer["data"]["result"]}

    shown = []
    board = load(path)
    names = evaluators(address, board, app)
    values["evaluator"] = "|".join(names)
    for panel, evaluator in laid_out(board["panels"], names[:2]):  # enough to see what a repeated row looks like
        more = {"evaluator": evaluator} if evaluator else {}
        panel["title"] = filled(panel["title"].replace("${", "{"), {**values, **more})
        shown.append({"panel": panel, "targets": [found(one, more) for one in panel.get("targets", ())]})
    return {"from": began * 1000, "to": now * 1000, "step": STEP, "panels": shown}


def evaluators(address: str, board: dict[str, Any], app: str) -> list[str]:
    """What the board offers, the more telling ones first."""
    for variable in board["templating"]["list"]:
        if variable["name"] == "evaluator":
            (matching,) = re.findall(r"label_values\((.*), evaluator\)", variable["query"])
            asked_for = {"match[]": filled(matching, {"job": ".+", "app": app})}
            names = get_json(f"{address}/api/v1/label/evaluator/values", **asked_for)["data"]
            pattern = variable.get("regex", "").strip("/")
            fitting = [one for one in names if re.search(pattern or ".*", one)]
            return sorted(fitting, key=lambda one: one not in ("overlap_groundedness", "violence", "jailbreak"))
    return []


def laid_out(panels: list[dict[str, Any]], names: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each panel where Grafana would put it, with the evaluator of its row."""
    rows: list[list[dict[str, Any]]] = [[]]
    for panel in panels:
        if panel["type"] == "row":
            rows.append([])
        rows[-1].append(panel)
    below = 0
    for row in filter(None, rows):
        top = row[0]["gridPos"]["y"]
        height = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in row) - top
        for name in names if row[0].get("repeat") else [""]:
            for panel in row:
                moved = json.loads(json.dumps(panel))
                moved["gridPos"]["y"] += below - top
                yield moved, name
            below += height


def bundled() -> Path:
    """The folder with `draw.js` and `draw.css`, and with what they were made from."""

    def make(folder: Path) -> None:
        shutil.copy(HERE / "package.json", folder)
        npm = [require("npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund"]
        cache.run("Grafana's panels", npm, cwd=folder)

    folder = cache.made_once("panels", HERE / "package.json", make)
    shutil.copy(HERE / "draw.jsx", folder)
    fonts = [f"--loader:.{kind}=dataurl" for kind in ("ttf", "woff", "woff2", "svg")]
    esbuild = [str(folder / "node_modules/.bin/esbuild"), "draw.jsx", "--bundle", "--format=esm", "--jsx=automatic"]
    subprocess.run(
        [*esbuild, "--outfile=draw.js", '--define:process.env.NODE_ENV="production"', *fonts, "--log-level=error"],
        cwd=folder, check=True,
    )  # fmt: skip
    return folder


def draw(board: dict[str, Any], name: str, folder: Path, theme: str) -> None:
    """Write NAME.png into `folder`."""
    code = bundled()
    bottom = max(one["panel"]["gridPos"]["y"] + one["panel"]["gridPos"]["h"] for one in board["panels"])
    with tempfile.TemporaryDirectory() as made:
        page = Path(made) / "index.html"
        for part in ("draw.js", "draw.css"):
            shutil.copy(code / part, made)
        # A module may not come from a file: it stands in the page.
        script = (Path(made) / "draw.js").read_text().replace("</script", "<\\/script")
        data = json.dumps(board).replace("</", "<\\/")
        page.write_text(
            '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="draw.css"><div id="root"></div>'
            f"<script>window.board = {data}</script><script type=module>{script}</script>"
        )
        subprocess.run(
            [require("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={made}/profile", f"--window-size=1592,{bottom * 38 + 40}",
             "--virtual-time-budget=8000", f"--screenshot={(folder / name).resolve()}.png",
             f"{page.as_uri()}?theme={theme}"],
            check=True, capture_output=True, timeout=180,
        )  # fmt: skip


def with_limits(rules: str) -> str:
    """The rules, which also record the limits of the window that is drawn."""
    given = yaml.safe_load(rules)
    limits = rates(float(WINDOW), {Z_95}, {Z_95}, of_hours=False)
    given["groups"].append({"name": "drawn", "interval": "1s", "rules": limits})
    return yaml.safe_dump(given, sort_keys=False)


def collect(folder: Path, seconds: float, paths: Sequence[Path] = PATHS) -> None:
    """Write BOARD.json into `folder`: each board of `paths`, with what Prometheus answered."""
    with tempfile.TemporaryDirectory() as made, LLMServer() as llm:
        fed = Fed(Path(made), llm, canary="3s")
        fed.label()
        with fed.monitor:
            rules = with_limits(render(config.load(Path(made) / "config.yaml").alerts, interval=1.0))
            with prometheus(Path(made) / "prometheus", [fed.target], rules=rules) as address:
                began = time.time()
                feed(fed, seconds, threading.Event())
                now = time.time()
                for path in paths:
                    many = path.stem in ("overview", "judge", "pipeline")
                    found = asked(address, path, began, now, ".+" if many else "shop")
                    (folder / path.name).write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.record.panels", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--theme", choices=["dark", "light"], default="dark")
    parser.add_argument("--only", choices=[path.stem for path in PATHS], help="one board")
    parser.add_argument("--again", action="store_true", help="draw what an earlier run has collected in the folder")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    paths = [path for path in PATHS if given.only in (None, path.stem)]
    if not given.again:
        collect(given.folder, given.seconds, paths)
    for path in paths:
        draw(json.loads((given.folder / path.name).read_text()), path.stem, given.folder, given.theme)
        print("drawn:", given.folder / f"{path.stem}.png")


if __name__ == "__main__":
    main()
