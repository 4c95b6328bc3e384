"""A language model behind the OpenAI API that says what library.json says, over real HTTP on loopback.

`POST /v1/chat/completions` (plain and streamed, with tools), `POST /v1/embeddings`. The question asked last in the
messages picks the case. With tools offered and not yet used for this question it calls the first one, once for each
search of the case. The case with `error` is refused with status 400, which no client retries. Asked for a `standalone
question` it gives the search query, and where DSPy asks for fields (`[[ ## answer ## ]]`) it answers in these.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.record.library import CASES

MODEL = "gpt-4o-mini-2024-07-18"
"""What the model calls itself; applications ask for `gpt-4o-mini`."""

PROMPT_TOKENS, COMPLETION_TOKENS = 90, 25
DIMENSIONS = 8


class ScriptedModel:
    """Serves from the moment it is made until `close`; `url` is the base address, ending in /v1."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(read_body(self) or b"{}")
        if self.path.endswith("/embeddings"):
            self._json(200, _embeddings(body))
        elif self.path.endswith("/chat/completions"):
            self._chat(body)
        else:
            self._json(404, {"error": {"message": f"no {self.path} here", "type": "not_found"}})

    def _chat(self, body: dict[str, Any]) -> None:
        message = _reply(body)
        if message is None:
            fault = {"message": "The request was malformed.", "type": "invalid_request_error", "code": None}
            self._json(400, {"error": fault})
        elif body.get("stream"):
            self._stream(body, message)
        else:
            self._json(200, _completion(message))

    def _stream(self, body: dict[str, Any], message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for chunk in _chunks(body, message):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _json(self, status: int, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def read_body(handler: BaseHTTPRequestHandler) -> bytes:
    """The body of a request, which Java's clients send in chunks."""
    if handler.headers.get("transfer-encoding", "").lower() == "chunked":
        content = b""
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            content += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
        return content
    return handler.rfile.read(int(handler.headers.get("content-length", 0)))


def _reply(body: dict[str, Any]) -> dict[str, Any] | None:
    """The assistant's message; None where the case is that of a failing model."""
    messages = body.get("messages", [])
    case, at = _case(messages)
    if case.get("error"):
        return None
    tools = [one["function"] for one in body.get("tools", ()) if one.get("type") == "function"]
    if tools and not any(one.get("role") == "tool" for one in messages[at + 1 :]):
        queries = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]
        properties = (tools[0].get("parameters") or {}).get("properties") or {"query": {}}
        parameter = "query" if "query" in properties else next(iter(properties))
        calls = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": tools[0]["name"], "arguments": json.dumps({parameter: query})},
            }
            for number, query in enumerate(queries)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": _words(messages, case)}


def _words(messages: list[dict[str, Any]], case: dict[str, Any]) -> str:
    sent = "\n".join(str(one.get("content")) for one in messages)
    if "standalone question" in sent.lower():
        return str(case.get("search_query") or case["question"])
    fields = re.findall(r"\[\[ ## (\w+) ## \]\]", sent.rpartition("Respond with the corresponding output fields")[2])
    said = {"reasoning": "The context says so.", "completed": ""}
    if fields:
        return "\n\n".join(f"[[ ## {field} ## ]]\n{said.get(field, case['answer'])}" for field in fields).strip()
    return str(case["answer"])


def _case(messages: list[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """The case whose question was asked last, and where in the messages."""
    for at in range(len(messages) - 1, -1, -1):
        text = json.dumps(messages[at].get("content"), ensure_ascii=False).replace('\\"', '"')
        for case in CASES:
            if case["question"] in text:
                return case, at
    for at in range(len(messages) - 1, -1, -1):  # a query engine within an agent is asked what the agent searches for
        for case in CASES:
            searched = [case.get("search_query"), *(one["query"] for one in case.get("searches", ()))]
            if any(query and query in str(messages[at].get("content")) for query in searched):
                return case, at
    raise LookupError(f"no question of library.json in {messages!r:.300}")


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-recorded",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "logprobs": None, "message": message}],
        "usage": _usage(),
    }


def _usage() -> dict[str, Any]:
    total = PROMPT_TOKENS + COMPLETION_TOKENS
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "total_tokens": total}


def _chunks(body: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message.get("tool_calls"):
        deltas.append({"tool_calls": [{"index": n, **one} for n, one in enumerate(message["tool_calls"])]})
    else:
        words = message["content"].split(" ")
        deltas += [{"content": word if n == 0 else f" {word}"} for n, word in enumerate(words)]
    base = {
        "id": "chatcmpl-recorded",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": MODEL,
    }
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    chunks = [{**base, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**base, "choices": [], "usage": _usage()})
    return chunks


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("input", "")
    texts = given if isinstance(given, list) else [given]
    data = [{"object": "embedding", "index": at, "embedding": _vector(json.dumps(one))} for at, one in enumerate(texts)]
    return {
        "object": "list",
        "data": data,
        "model": body.get("model", "text-embedding-3-small"),
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [round(digest[at] / 255 - 0.5, 4) for at in range(DIMENSIONS)]
