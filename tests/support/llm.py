"""A scripted language model behind the OpenAI chat API, over real HTTP on loopback, in a separate thread.

    with LLMServer() as llm:                       # llm.url is the `api_base`: http://127.0.0.1:PORT/v1
        llm.always(verdict(score=5, explanation="fine"))         # the answer to every request from now on
        llm.then(status(429, retry_after=1), hang())             # the next two requests, in order, before that
        llm.always(lambda asked: verdict(score=1) if "Mars" in asked.data["response"] else verdict(score=5))
        ...
        llm.requests[0].prompt                     # all messages as one text
        llm.requests[0].data["response"]           # the untrusted material, by name, as it was between the fences
        llm.requests[0].body, .headers, .at        # the JSON body, headers in lower case, time.monotonic() of arrival

A reply is a `Reply` or a function from `Asked` to a `Reply`. What a provider can do wrong, one function each:
`hang drip reset broken_off status html not_json no_choices truncated says(NaN text) filtered refusal no_usage` and
`redirect`. `bad_key`, `not_found` and `no_quota` are 401, 404 and 429 as OpenAI words them; `filtered_request` is a
content filter's 400.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, Self, TypeAlias

_BLOCK = re.compile(r"\[\[BEGIN (\w+) (\w+)\]\]\n(.*?)\n\[\[END \1\]\]", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """One request as received."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @cached_property
    def prompt(self) -> str:
        return "\n".join(str(message["content"]) for message in self.body.get("messages", ()))

    @property
    def fence(self) -> str:
        """Return the word in the fences around the material; empty without material."""
        found = _BLOCK.search(self.prompt)
        return found[1] if found else ""

    @cached_property
    def data(self) -> dict[str, str]:
        """Return the fenced material by name."""
        return {name: text for _nonce, name, text in _BLOCK.findall(self.prompt)}


@dataclass(frozen=True)
class Reply:
    """A reply on the wire; `body` is bytes, or an object sent as JSON."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0  # seconds before the first byte
    after: threading.Event | None = None  # set by the test: no byte before that
    every: float = 0.0  # seconds before each single byte of the body: a drip
    hang: bool = False  # never answers
    reset: bool = False  # closes the connection with a TCP reset
    only: int | None = None  # closes the connection after this many bytes of the body


Script: TypeAlias = "Reply | Callable[[Asked], Reply]"


def says(content: str | None, *, finish: str = "stop", refusal: str | None = None, **message: Any) -> Reply:
    """Return a well-formed completion whose text is `content`, with usage 100 in and 20 out."""
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "scripted-1",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": content, "refusal": refusal, **message},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    )


def verdict(**answer: Any) -> Reply:
    """Return a completion whose text is the JSON object `answer`."""
    return says(json.dumps(answer))


def slow(reply: Reply, seconds: float) -> Reply:
    return replace(reply, delay=seconds)


def hang() -> Reply:
    return Reply(hang=True)


def drip(reply: Reply, every: float = 0.5) -> Reply:
    """Return the reply with its headers at once and a byte every `every` seconds, so that no read timeout fires."""
    return replace(reply, every=every)


def reset() -> Reply:
    return Reply(reset=True)


def broken_off(reply: Reply, only: int = 20) -> Reply:
    """Return a reply that ends after the headers and a few bytes."""
    return replace(reply, only=only)


def status(code: int, *, retry_after: float | None = None, message: str = "scripted", kind: str = "scripted") -> Reply:
    """Return an error in OpenAI's wording."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Reply({"error": {"message": message, "type": kind, "code": kind}}, status=code, headers=headers)


def bad_key() -> Reply:
    return status(401, message="Incorrect API key provided: sk-canary-secret", kind="invalid_api_key")


def not_found() -> Reply:
    return status(404, message="The model does not exist", kind="model_not_found")


def no_quota() -> Reply:
    """Return a 429 that does not go away by waiting."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return status(429, message=message, kind="insufficient_quota")


def html() -> Reply:
    return Reply(b"<html><body>Welcome to the proxy</body></html>", content_type="text/html")


def not_json() -> Reply:
    return Reply(b'{"id": "chatcmpl-1", "choi')


def no_choices() -> Reply:
    return Reply({**says("x").body, "choices": []})


def truncated() -> Reply:
    return says('{"explanation": "the response cla', finish="length")


def filtered() -> Reply:
    """Return a content filter's refusal in a 200."""
    return says("", finish="content_filter")


def filtered_request() -> Reply:
    """Return a content filter's refusal as a 400."""
    return status(400, message="The response was filtered by the content management policy", kind="content_filter")


def too_long() -> Reply:
    return status(400, message="This model's maximum context length is 8192 tokens", kind="context_length_exceeded")


def no_formats() -> Reply:
    """Return the error of a provider without structured output."""
    return status(400, message="response_format json_schema is not supported by this model", kind="unsupported")


def refusal() -> Reply:
    return says(None, refusal="I cannot help with that.")


def no_usage(**answer: Any) -> Reply:
    reply = verdict(**answer)
    return replace(reply, body={key: value for key, value in reply.body.items() if key != "usage"})


def redirect(to: str) -> Reply:
    return Reply({}, status=307, headers={"location": to})


def bomb(size: int) -> Reply:
    """Return a reply of some kilobytes that inflates to `size` bytes."""
    return Reply(gzip.compress(bytes(size)), headers={"content-encoding": "gzip"})


class LLMServer:
    """The server. Serves while the context lasts; a request beyond the script gets a 500."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.most_at_once = self._at_work = 0
        self._next: list[Script] = []
        self._always: Script = status(500, message="nothing scripted")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-llm", daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def always(self, script: Script) -> None:
        self._always = script

    def then(self, *scripts: Script) -> None:
        self._next.extend(scripts)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _stop(self) -> None:
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone, or the server is stopping
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(head[0].split(" ")[1], headers, json.loads(raw) if raw else {}, time.monotonic())
        self.requests.append(asked)
        self._at_work += 1
        self.most_at_once = max(self.most_at_once, self._at_work)
        try:
            return await self._reply(asked, reader, writer)
        finally:
            self._at_work -= 1

    async def _reply(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        script = self._next.pop(0) if self._next else self._always
        reply = script(asked) if callable(script) else script
        await asyncio.sleep(reply.delay)
        while reply.after is not None and not reply.after.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.02)
        if reply.hang:
            await reader.read()  # until the client gives up
            return False
        if reply.reset:
            writer.transport.abort()
            return False
        await _send(writer, reply)
        return reply.only is None


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    lines = {"content-type": reply.content_type, "content-length": str(len(body)), **reply.headers}
    phrase = HTTPStatus(reply.status).phrase
    head = f"HTTP/1.1 {reply.status} {phrase}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(head.encode() + b"\r\n")
    if not reply.every:
        writer.write(body[: reply.only])
    else:
        for byte in body:
            await asyncio.sleep(reply.every)
            writer.write(bytes([byte]))
            await writer.drain()
    await writer.drain()
