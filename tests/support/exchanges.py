"""Questions asked and answered within one trace."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model.span import Value
from tests.support.traces import Builder, documents

WARRANTY, PRICE = "How long is the warranty of a bike?", "What does a day with a cargo bike cost?"
TWO_YEARS, TEN_EUROS = "The warranty of every bike is two years.", "A day with a cargo bike costs ten euros."
BOTH = [(WARRANTY, TWO_YEARS), (PRICE, TEN_EUROS)]


def exchange(build: Builder, question: str, answer: str, parent: str = "", *, document: str = "", **rest: str) -> str:
    """Add a request span with question and answer, with its retrieval and its model call."""
    top = build.oi("CHAIN", {"input.value": question, "output.value": answer, **rest}, parent)
    flat(build, question, answer, top, document=document)
    return top


def flat(build: Builder, question: str, answer: str, parent: str = "", *, document: str = "") -> None:
    """Add a retrieval and a model call, side by side."""
    text = document or f"Handbook: {answer}"
    build.oi("RETRIEVER", {"input.value": question, **documents("retrieval.documents", [text])}, parent)
    build.llm(f"Context: {text}\nQuestion: {question}", answer, parent)


def chat(build: Builder, turns: Sequence[tuple[str, str]], answer: str | None, parent: str = "", **rest: str) -> str:
    """Add a model call with earlier turns."""
    attributes: dict[str, Value] = {"llm.model_name": "m"}
    for at, (role, content) in enumerate(turns):
        attributes[f"llm.input_messages.{at}.message.role"] = role
        attributes[f"llm.input_messages.{at}.message.content"] = content
    if answer is not None:
        attributes["llm.output_messages.0.message.role"] = "assistant"
        attributes["llm.output_messages.0.message.content"] = answer
    return build.oi("LLM", attributes, parent, **rest)


def pairs(build: Builder) -> list[tuple[str, str]]:
    """Return question and answer of each request of a trace."""
    return [(one.case.request.query, one.case.response) for one in build.read_all().readings]
