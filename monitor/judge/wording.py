"""How a question goes over the wire and its answer comes back, for both kinds there are: ours, and a model's own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from monitor.judge import fences
from monitor.judge.provider import Reply
from monitor.judge.verdict import read_text, read_verdict
from monitor.stages import Prompt, Question


def messages(asked: Question | Prompt, secret: bytes, fault: str = "") -> list[dict[str, str]]:
    """What is sent. `secret` keys the fences; `fault` says, in our own words, what was wrong with the reply before."""
    if isinstance(asked, Prompt):
        return [{"role": one.role, "content": fences.sendable(one.content)} for one in asked.messages]
    return fences.compose(asked, secret, fault)


def response_format(asked: Question | Prompt) -> dict[str, Any] | None:
    """The form that the provider is asked to enforce, where there is one."""
    return None if isinstance(asked, Prompt) else fences.response_format(asked)


def length(asked: Question | Prompt) -> int:
    """Characters of material that come from others."""
    if isinstance(asked, Prompt):
        return sum(len(one.content) for one in asked.messages)
    return sum(len(text) for text in asked.material.values())


def read(reply: Reply, asked: Question | Prompt) -> dict[str, Any]:
    """The data of the verdict. Raises `VerdictFault`, or `CallFault` where the reply holds none to read."""
    text = read_text(reply)
    if isinstance(asked, Prompt):
        return {"text": text, "tokens": [{"text": token, "logprob": logprob} for token, logprob in reply.tokens]}
    return read_verdict(text, asked.schema)


def key(asked: Question | Prompt) -> list[Any]:
    """All that decides the answer, the model apart, as plain values."""
    if isinstance(asked, Prompt):
        return ["prompt", asdict(asked)]
    return [asked.name, asked.instructions, list(asked.material.items()), asked.schema, asked.repeat]
