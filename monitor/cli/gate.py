"""`rag-monitor gate`: whether a release may go on, by what is judged since."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.run import ConfigPath


class Against(StrEnum):
    """What a release is compared with."""

    PREVIOUS = "previous"
    STABLE = "stable"


class Template(StrEnum):
    """Whose template is written."""

    ARGO_ROLLOUTS = "argo-rollouts"
    FLAGGER = "flagger"


def gate(
    *,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="EVALUATOR[:RATE]", help="Its highest defect rate: groundedness:5%."),
    ] = None,
    since: Annotated[str, typer.Option("--since", help="Over which time answers count, up to now.")] = "30m",
    against: Annotated[
        Against | None,
        typer.Option("--against", help="Also compare with the previous generation, or with --stable beside it."),
    ] = None,
    times: Annotated[
        float, typer.Option("--times", min=1.0, help="How many times as high the rate may be, with --against.")
    ] = 2.0,
    baseline: Annotated[
        str, typer.Option("--baseline", help="With `previous`: the time before the release that it is held against.")
    ] = "24h",
    app: Annotated[str | None, typer.Option("--app", help="The service. Default: each that has answers.")] = None,
    canary: Annotated[
        str | None, typer.Option("--canary", metavar="KEY=VALUE", help="With `stable`: service.version=2.0, or app=A.")
    ] = None,
    stable: Annotated[
        str | None, typer.Option("--stable", metavar="KEY=VALUE", help="With `stable`: service.version=1.9, or app=B.")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Ask it. Default: the history in `storage`.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="With --prometheus: holds its bearer token. Default: $RAG_MONITOR_PROMETHEUS_TOKEN.",
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="With --prometheus: the authorities that sign it, PEM."),
    ] = None,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of lines.")] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Also write a JUnit report.")
    ] = None,
    template: Annotated[
        Template | None, typer.Option("--template", help="Print the template of a rollout controller, and leave.")
    ] = None,
) -> None:
    """Decide whether a release may go on: pass, fail, or not enough data. The bound of the interval decides.

    Exit status 0: every rate is surely below its limit, and with --against surely less than --times as high. 1: one is
    surely above. 2: a wrong option, or the data cannot be had. 3: not enough data yet; it says how much more it takes.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.alerts.prometheus import release_gate  # noqa: PLC0415
    from monitor.cli import gate_history, gate_prometheus, gate_report, gated  # noqa: PLC0415
    from monitor.errors import ConfigError  # noqa: PLC0415

    if template is not None:
        text = release_gate.argo_rollouts() if template is Template.ARGO_ROLLOUTS else release_gate.flagger()
        typer.echo(text, nl=False)
        return
    asked = gated.question(
        fail_on=fail_on or [],
        since=since,
        against=against.value if against else None,
        times=times,
        baseline=baseline,
        app=app,
        canary=canary,
        stable=stable,
    )
    if prometheus is not None:
        shown = gate_prometheus.token(token_file)
        source: gated.Source = gate_prometheus.Prometheus(prometheus, token=shown, ca_file=ca_file)
    elif token_file is not None or ca_file is not None:
        raise ConfigError("--token-file, --ca-file: are for --prometheus, which is not given")
    else:
        source = gate_history.History(configuration.load(config).storage.path / "history.db")
    found = gated.decide(asked, source, time.time())
    if junit is not None:
        gate_report.write_junit(found, junit)
    if as_json:
        typer.echo(gate_report.as_json(found))
    else:
        for line in gate_report.lines(found):
            typer.echo(line)
    raise typer.Exit(gated.EXIT_STATUS[found.answer])
