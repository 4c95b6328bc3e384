"""Writes a first configuration as YAML for people: short, each line with its reason."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from monitor.operations.setup.proposal import Proposal, ProposedEntry
from monitor.operations.setup.surroundings import JudgeFound, ServerFound

_WIDTH: Final = 118
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/%")


def render(proposal: Proposal, found: Sequence[ServerFound], judges: Sequence[JudgeFound]) -> str:
    """Return the configuration. Keys are named by their variables, never written."""
    servers = {one.kind: one for one in found}
    return "\n".join(
        [
            *_comment(
                "Written by `rag-monitor init`. Everything has a default: docs/configuration.md lists all options."
            ),
            *(line for note in proposal.notes for line in _comment(note)),
            "",
            *_sources(servers.get("Kafka")),
            "",
            *_judge(judges, proposal.dollars_per_day),
            "",
            "evaluators:",
            *(line for one in proposal.evaluators for line in _entry(one)),
            "",
            "alerts:",
            *(line for one in proposal.alerts for line in _entry(one)),
            "",
            *_notify(servers.get("Alertmanager")),
            "",
        ]
    )


def _sources(kafka: ServerFound | None) -> Iterator[str]:
    yield "sources:"
    yield "  - type: otlp_grpc                # 127.0.0.1:4317"
    yield "  - type: otlp_http                # 127.0.0.1:4318, also POST /v1/cases"
    if kafka is not None:
        yield from _comment(f"A Kafka broker answers at {kafka.address}. To read traces from one of its topics:", 2)
        yield f"  # - {_flow({'type': 'kafka', 'brokers': [kafka.address], 'topics': {'otlp_spans': 'otlp_proto'}})}"


def _judge(judges: Sequence[JudgeFound], dollars_per_day: int | None) -> Iterator[str]:
    if not judges:
        yield from _comment("Without a judge, only local evaluators run. With an API key in the environment:")
        yield "# judge: {model: openai/gpt-4o-mini, api_key: ${OPENAI_API_KEY}, budget: {dollars_per_day: 5}}"
        return
    first, *others = judges
    yield "judge:"
    yield f"  model: {first.model}"
    yield f"  api_key: ${{{first.variable}}}   # set in the environment"
    yield f"  budget: {{dollars_per_day: {dollars_per_day or 5}}}"
    for one in others:
        yield from _comment(f"{one.variable} is set as well: model: {one.model}", 2)


def _notify(alertmanager: ServerFound | None) -> Iterator[str]:
    if alertmanager is None:
        yield from _comment("Alerts are logged and shown in the UI. To send them elsewhere (docs/alerts.md), such as:")
        yield '# notify: [{type: alertmanager, url: "http://alertmanager:9093"}]'
        return
    yield "notify:"
    yield "  - type: log"
    yield f"  - {_flow({'type': 'alertmanager', 'url': alertmanager.address})}"


def _entry(one: ProposedEntry) -> Iterator[str]:
    yield from _comment(one.reason, 2)
    yield f"  - {_flow(one.options)}"


def _comment(text: str, indent: int = 0) -> list[str]:
    """Return a text as comment lines, from which it cannot break out."""
    plain = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return textwrap.wrap(plain, _WIDTH, initial_indent=" " * indent + "# ", subsequent_indent=" " * indent + "# ")


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str) and value and set(value) <= _PLAIN and not value[0].isdigit():
        return value
    if isinstance(value, str) and value.endswith("%"):
        return value
    return json.dumps(value)
