"""Writes what deploy/ and docs/ derive from the code: rules, boards, configurations, the tables of alerts.

`--check` only lists what is stale.

python -m deploy.generate [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from monitor import config
from monitor.alerts import catalogue
from monitor.alerts.prometheus.rules import render, render_resource

ROOT = Path(__file__).parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "rag-monitor"
COMPOSE = ROOT / "deploy" / "compose"
CONFIGS = {
    "standalone": KUBERNETES / "base" / "config.yaml",
    "sidecar": KUBERNETES / "components" / "sidecar" / "config.yaml",
    "fleet": KUBERNETES / "overlays" / "fleet" / "config.yaml",
}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each generated file with its content. A chart is packaged alone, so it has its own copy of everything."""
    alerts = config.load(CONFIGS["standalone"]).alerts
    yield KUBERNETES / "components" / "monitoring" / "prometheusrule.yaml", render_resource(alerts)
    yield CHART / "files" / "rules.yaml", render(alerts)
    stack = config.load(COMPOSE / "monitor.yaml")
    yield COMPOSE / "rules.yml", render(stack.alerts, runbooks=stack.runbooks_url, page=stack.ui.url)
    for mode, path in CONFIGS.items():
        yield CHART / "files" / f"config-{mode}.yaml", path.read_text()
    for board in sorted((ROOT / "grafana" / "dashboards").glob("*.json")):
        yield CHART / "files" / "dashboards" / board.name, board.read_text()
    for page, runbooks in (("alerts.md", "runbooks/"), ("runbooks/README.md", "")):
        path = ROOT / "docs" / page
        yield path, catalogue.fill(path.read_text(), runbooks)


def main() -> int:
    """Write the files, and return the exit status: 1 if `--check` finds a stale file."""
    only_check = sys.argv[1:] == ["--check"]
    stale = [(path, text) for path, text in texts() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        if not only_check:
            path.write_text(text)
        print("stale:" if only_check else "written:", path.relative_to(ROOT))  # noqa: T201
    return int(only_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
