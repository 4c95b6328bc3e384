"""A judge that answers in any structure that a tool requests, with six claims that are all supported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.support.llm import Asked, Reply, says

CLAIMS: Final = 6
CHARACTERS_A_TOKEN: Final = 4


def reply(asked: Asked) -> Reply:
    """Return an answer that satisfies the schema of a request, as content or as a tool call."""
    tools = asked.body.get("tools")
    answer = json.dumps(_filled(_schema(asked), {}, asked, ""))
    made = says(answer)
    if tools:
        called = {"name": tools[0]["function"]["name"], "arguments": answer}
        made = says(
            None, finish="tool_calls", tool_calls=[{"id": "call_1", "type": "function", "function": called}]
        )  # fmt: skip
    tokens_in, tokens_out = tokens(asked), len(answer) // CHARACTERS_A_TOKEN
    made.body["usage"] = {
        "prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out
    }  # fmt: skip
    return made


def tokens(asked: Asked) -> int:
    """Estimate the tokens of a request: one for four characters of its messages and of the requested structure."""
    structure = {name: asked.body[name] for name in ("response_format", "tools") if name in asked.body}
    return (len(asked.prompt) + len(json.dumps(structure))) // CHARACTERS_A_TOKEN


def _schema(asked: Asked) -> Mapping[str, Any]:
    if asked.body.get("tools"):
        found: Mapping[str, Any] = asked.body["tools"][0]["function"]["parameters"]
        return found
    form = asked.body.get("response_format") or {}
    if form.get("type") == "json_schema":
        named: Mapping[str, Any] = form["json_schema"]["schema"]
        return named
    _, words, rest = asked.prompt.partition("match the following json_schema:")  # instructor, in its JSON mode
    if not words:
        raise ValueError("a request that asks for no structure")
    written: Mapping[str, Any] = json.JSONDecoder().raw_decode(rest.lstrip())[0]
    return written


def _filled(schema: Mapping[str, Any], known: Mapping[str, Any], asked: Asked, name: str, at: int = 0) -> Any:
    known = {**known, **schema.get("$defs", {})}
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    schema = next((schema[one][0] for one in ("anyOf", "allOf", "oneOf") if one in schema), schema)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {key: _filled(one, known, asked, key, at) for key, one in schema.get("properties", {}).items()}
        case "array":
            return [_filled(schema["items"], known, asked, name, number) for number in range(CLAIMS)]
        case "integer" | "number" | "boolean" as kind:
            return kind == "boolean" or 1
    return _text(asked, name, at)


def _text(asked: Asked, name: str, at: int) -> str:
    if name == "quote":  # ours: copied from the response
        quotes = [one for one in asked.data.get("response", "").split(". ") if one]
        return quotes[at % len(quotes)]
    return "yes" if name == "verdict" else f"Claim {at + 1} of the answer is in the first document, word by word."
