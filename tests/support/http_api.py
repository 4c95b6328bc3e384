"""Another product's HTTP API for tests: gives scripted answers, and records its requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True)
class Says:
    """An answer: `data` as JSON, or `content` unchanged; after `seconds`, and once `held` has returned."""

    status: int = 200
    data: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    seconds: float = 0.0
    held: Callable[[], object] = bool


class HttpApi:
    """Listens while the block lasts. Each request gets the next answer of the script; later ones always get the last.

    An answer that is a function is called with the request. `port` 0: a free one. `at_once` is the highest number of
    simultaneous requests.
    """

    def __init__(self, *script: Says | Callable[[Asked], Says], host: str = "127.0.0.1", port: int = 0) -> None:
        self.asked: list[Asked] = []
        self.at_once = 0
        self._open = 0
        self._script = list(script) or [Says()]
        self._lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, content)
                said = api._answer(asked)
                time.sleep(said.seconds)
                said.held()
                body = said.content if said.content is not None else json.dumps(said.data).encode()
                self.send_response(said.status)
                for name, value in {"content-type": "application/json", **said.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                api._open -= 1
                self.wfile.write(body)

            do_GET = do_POST = handle_one  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # a client that gave up
                pass

        self._server = Server((host, port), Handler)
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def _answer(self, asked: Asked) -> Says:
        with self._lock:
            self.asked.append(asked)
            self._open += 1
            self.at_once = max(self.at_once, self._open)
            said = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            return said(asked) if callable(said) else said

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
