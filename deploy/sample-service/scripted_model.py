"""A language model behind the OpenAI chat API that needs no key: it answers with a sentence of the prompt.

It stands in where no key is configured, so that the whole way of a request, HTTP included, is the real one. It does
what the prompt says: asked to add what the help pages do not have, it invents something.
"""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted-1"
INVENTED = (
    "Every guest receives a complimentary helicopter transfer and a lifetime voucher worth nine hundred dollars.",
    "Our astronaut team delivers manuscripts personally from the orbital archive each midnight.",
    "Simply whistle twice near the crocodile fountain, then Professor Tangerine unlocks everything.",
    "Platinum members inherit vineyards in Bolivia after completing seventeen marathons.",
)
"""What it says when the prompt asks it to make things up: no word of it stands in the help pages."""

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_IDLE = {"a", "an", "and", "are", "at", "be", "can", "do", "does", "for", "from", "get", "how", "i", "in", "is", "it"}
_IDLE |= {"me", "my", "of", "on", "or", "the", "to", "what", "when", "you"}


def words(text: str) -> set[str]:
    """The words that say what a text is about."""
    return {word for word in _WORD.findall(text.lower()) if word not in _IDLE}


def answer(system: str, question: str) -> str:
    """The sentence of the pages in `system` that fits the question best; an invented one where `system` wants that."""
    rules, _, pages = system.partition("\n\n")
    if "add details" in rules:
        return INVENTED[sum(question.encode()) % len(INVENTED)]
    asked = words(question)
    sentences = [one for page in pages.split("\n\n") for one in _SENTENCE.split(page.strip()) if one]
    return max(sentences, key=lambda one: len(asked & words(one)), default="I do not know.")


class ScriptedModel:
    """Serves on loopback from the moment it is made until the process ends; `url` is the base address."""

    def __init__(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=server.serve_forever, name="scripted-model", daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body go out in two writes: the second would wait for the client's ACK

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        by_role = {message["role"]: message["content"] for message in asked["messages"]}
        text = answer(by_role.get("system", ""), by_role.get("user", ""))
        content = json.dumps(_completion(text, prompt=sum(len(one) for one in by_role.values()))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: the service has its own log."""


def _completion(text: str, prompt: int) -> dict[str, Any]:
    used = {"prompt_tokens": prompt // 4, "completion_tokens": len(text) // 4}
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": f"chatcmpl-{time.time_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {**used, "total_tokens": sum(used.values())},
    }
