"""`rag-monitor init`: write a first configuration."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.check import first_line
from monitor.cli.console.output import clean, echo_lines, report, writing
from monitor.cli.preview import per_day
from monitor.errors import ConfigError
from monitor.operations.check import warnings
from monitor.operations.event_loop import run_async
from monitor.operations.setup import surroundings, written
from monitor.operations.setup.frameworks import FrameworkFound, environment_of, frameworks
from monitor.operations.setup.proposal import by_default, from_capture
from monitor.operations.setup.surroundings import PORTS, JudgeFound, ServerFound
from monitor.quantities import parse_duration
from monitor.telemetry import logs

_STDOUT: Final = Path("-")


def init(
    *,
    captures: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Propose evaluators and thresholds from recorded traffic: files as for `cases`. May be repeated.",
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option("--traffic", metavar="N/day", help="With --from: requests a day. Default: as recorded."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file; - prints it.")
    ] = Path("rag-monitor.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    host: Annotated[
        str, typer.Option("--host", help="Look for Prometheus, Alertmanager, Grafana and Kafka on this host.")
    ] = "127.0.0.1",
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for a server.")
    ] = "500ms",
    environment: Annotated[
        Path | None,
        typer.Option(
            "--environment", metavar="DIR", help="The virtual environment of your service. Default: the active one."
        ),
    ] = None,
) -> None:
    """Write a first configuration from what is found: servers on this machine, API keys, installed frameworks.

    Keys are never written, only the names of their variables. Then prints how to connect your service, and what to do
    next. Nothing is installed or changed, and nothing is sent except short probes of the usual ports.
    """
    _options.requires("--traffic", traffic, "--from", captures)
    limit = _options.read("--timeout", parse_duration, timeout)
    requests = _options.read("--traffic", per_day, traffic) if traffic is not None else None
    if output != _STDOUT and output.exists() and not force:
        raise ConfigError(f"--output: {output} exists already; --force overwrites it")
    logs.configure("ERROR", "text", sys.stderr)
    say: Callable[[Iterable[str]], object] = echo_lines if output != _STDOUT else _to_stderr
    folder = environment or environment_of(os.environ)
    servers = run_async(functools.partial(surroundings.servers, host, limit=limit))
    judges, installed = surroundings.judges(os.environ), frameworks(folder)
    say(_findings(servers, judges, installed, host, folder))
    if captures:
        model = judges[0].model if judges else None
        proposal = from_capture(captures, judge=model, requests_per_day=requests, report=report)
    else:
        proposal = by_default(judged=bool(judges))
    text = written.render(proposal, servers, judges)
    warned = list(warnings(configuration.parse_text(text, str(output))))
    if output == _STDOUT:
        typer.echo(text, nl=False)
    else:
        with writing("--output", output), output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    say(["", first_line("wrote " + str(output) if output != _STDOUT else "the configuration", warned)])
    say([f"warning: {one}" for one in warned])
    say(_instrumentation(installed))
    say(_next(output, servers, judges))


def _to_stderr(lines: Iterable[str]) -> None:
    for line in lines:
        report(line)


def _findings(
    servers: Sequence[ServerFound],
    judges: Sequence[JudgeFound],
    installed: Sequence[FrameworkFound],
    host: str,
    folder: Path,
) -> Iterator[str]:
    """Yield what was found, with the evidence for it, then what was not found."""
    for server in servers:
        yield f"found {server.kind} at {server.address}: {server.why}"
    for judge in judges:
        yield f"found a key for {judge.model}: the variable {judge.variable} is set"
    for one in installed:
        yield f"found {one.title}: {one.why} in {clean(str(folder))}"
    missing = [f"{kind} ({port})" for kind, port in PORTS.items() if kind not in {one.kind for one in servers}]
    if missing:
        yield f"did not find on {clean(host)}: {', '.join(missing)}"
    if not judges:
        yield f"did not find an API key for a judge in: {', '.join(surroundings.variables())}"
    if not installed:
        yield f"did not find a framework in {clean(str(folder))}; --environment names another folder"


def _instrumentation(installed: Sequence[FrameworkFound]) -> Iterator[str]:
    for one in installed:
        yield ""
        yield f"To connect {one.title}, add to your service:"
        yield ""
        yield from one.advice.splitlines()
    if not installed:
        yield ""
        yield "To connect your service: docs/getting-started.md, or its OpenTelemetry exporter to http://127.0.0.1:4318."


def _next(output: Path, servers: Sequence[ServerFound], judges: Sequence[JudgeFound]) -> Iterator[str]:
    name = shlex.quote(str(output)) if output != _STDOUT else "rag-monitor.yaml"
    found = {one.kind: one.address for one in servers}
    yield ""
    yield "Next:"
    if judges:
        yield f"  rag-monitor doctor -c {name}     # asks the judge about five known cases"
    yield f"  rag-monitor run -c {name}        # then http://127.0.0.1:9464/ shows what arrives"
    yield "  rag-monitor coverage             # what your service sends, and the smallest change that sends the rest"
    if "Prometheus" in found:
        yield f"  rag-monitor rules -c {name} -o rag-monitor-rules.yml   # rule_files of {found['Prometheus']}"
        yield "  # and in scrape_configs: {job_name: rag-monitor, static_configs: [{targets: ['127.0.0.1:9464']}]}"
    if "Grafana" in found:
        yield f"  rag-monitor dashboards install --url {found['Grafana']}   # with a token in GRAFANA_TOKEN"
