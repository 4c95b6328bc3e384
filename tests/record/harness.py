"""Run a set-up's application against a scripted model, keep the OTLP that it really posts, and what it really did.

    python -m tests.record.harness langchain__openinference [...]     (from the repository's root, in its .venv)

For each set-up in `tests/record/setups/` an environment of its own is made under `--work` (default: a folder in the
user's cache), the application is run there once, and `tests/data/recorded/SETUP/` is written anew: the bodies in order
of arrival (`NNN.pb`, `NNN.logs.pb`, `NNN.json`) and `expected.json`. See README.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.record import library
from tests.record.llm import COMPLETION_TOKENS, MODEL, PROMPT_TOKENS, ScriptedModel, read_body

HERE = Path(__file__).parent
SETUPS = HERE / "setups"
RECORDED = HERE.parent / "data" / "recorded"
_QUIET = 0.8  # seconds without a new body after which a request's spans are taken to have arrived
_PATIENCE = 15.0


class Body(NamedTuple):
    """One OTLP request: its suffix as a file, the bytes after decompression, the ids of its traces."""

    suffix: str
    content: bytes
    trace_ids: tuple[str, ...]


class Capture:
    """An OTLP/HTTP endpoint on loopback that keeps every body, and takes the application's own facts at /facts."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.facts: dict[str, dict[str, Any]] = {}
        self._last = time.monotonic()
        self._judged: set[str] = set()
        self._lock = threading.Lock()
        capture = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = read_body(self)
                if self.headers.get("content-encoding") == "gzip":
                    content = gzip.decompress(content)
                status, answer = 200, b""
                if self.path == "/facts":
                    try:
                        capture.note(json.loads(content))
                    except LookupError as error:
                        status, answer = 409, str(error).encode()
                        print(f"  ! {error}", file=sys.stderr)
                else:
                    capture.keep(self.path, self.headers.get("content-type", ""), content)
                self.send_response(status)
                self.send_header("content-type", self.headers.get("content-type", "application/x-protobuf"))
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def keep(self, path: str, content_type: str, content: bytes) -> None:
        """Keep a body; what is neither traces nor logs is forgotten."""
        signal = "logs" if path.endswith("/logs") else "traces" if path.endswith("/traces") else ""
        if not signal or not content:
            return
        as_json = content_type.startswith("application/json")
        suffix = ".json" if as_json else ".logs.pb" if signal == "logs" else ".pb"
        with self._lock:
            self.bodies.append(Body(suffix, content, _trace_ids(signal, content, as_json=as_json)))
            self._last = time.monotonic()

    def note(self, told: dict[str, Any]) -> None:
        """The application has answered a case: hold its facts against the trace that has just arrived."""
        case = library.case(told["case"])
        trace_id = told.pop("trace_id", None) or self._new_trace(case)
        self._judged |= {one for body in self.bodies for one in body.trace_ids}
        texts = [library.DOCUMENTS[one]["text"] for one in case["documents"]]
        facts = {
            "case": case["name"],
            "flavour": "",
            "question": case["question"],
            "answer": case["answer"],
            "history": case["history"],
            "contexts": texts,
            "model": MODEL,
            "request_model": "gpt-4o-mini",
            "session_id": case["session"],
            "error": bool(case.get("error")),
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
            "status": None,
        }
        unknown = told.keys() - facts.keys()
        if unknown:
            raise LookupError(f"no such facts: {sorted(unknown)}; there are {sorted(facts)}")
        self.facts[trace_id] = facts | told
        print(f"  {told.get('flavour', '')} {case['name']}: {trace_id}")

    def _new_trace(self, case: dict[str, Any]) -> str:
        """The trace that arrived since the last facts and holds the question. Waits until nothing more arrives."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.1)
            new = {one for body in self.bodies for one in body.trace_ids} - self._judged
            if new and time.monotonic() - self._last > _QUIET:
                if len(new) == 1:
                    return new.pop()
                asked = json.dumps(case["question"])[1:-1].encode()
                telling = {
                    one for body in self.bodies for one in body.trace_ids if one in new and asked in body.content
                }
                if len(telling) == 1:
                    return telling.pop()
                raise LookupError(f"{case['name']}: {len(new)} new traces, {len(telling)} hold the question: say which")
        raise LookupError(f"{case['name']}: no trace arrived within {_PATIENCE} s")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _trace_ids(signal: str, content: bytes, *, as_json: bool) -> tuple[str, ...]:
    if as_json:
        found = [
            item.get("traceId", "")
            for group in next(iter(json.loads(content).values()))
            for scope in next((value for key, value in group.items() if key.startswith("scope")), ())
            for item in next((value for key, value in scope.items() if key in ("spans", "logRecords")), ())
        ]
    elif signal == "traces":
        groups = ExportTraceServiceRequest.FromString(content).resource_spans
        found = [span.trace_id.hex() for group in groups for scope in group.scope_spans for span in scope.spans]
    else:
        logs = ExportLogsServiceRequest.FromString(content).resource_logs
        found = [one.trace_id.hex() for group in logs for scope in group.scope_logs for one in scope.log_records]
    return tuple(dict.fromkeys(one for one in found if one))


def prepare(setup: Path, work: Path) -> list[str]:
    """Make the set-up's environment, where that is not done, and return the command that runs its application."""
    work.mkdir(parents=True, exist_ok=True)
    if (setup / "requirements.txt").exists():
        python = work / "venv" / "bin" / "python"
        wanted = (setup / "requirements.txt").read_text()
        done = work / "installed.txt"
        if not done.exists() or done.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(work / "venv")], check=True)
            install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]
            subprocess.run([*install, str(setup / "requirements.txt")], check=True)
            done.write_text(wanted)
        return [str(python), str(setup / "app.py")]
    if (setup / "package.json").exists():
        for path in setup.iterdir():
            if path.is_file():
                shutil.copy(path, work)
        subprocess.run(["npm", "install", "--no-fund", "--no-audit", "--silent"], cwd=work, check=True)
        return ["node", str(work / "app.mjs")]
    if (setup / "pom.xml").exists():
        shutil.copytree(setup, work, dirs_exist_ok=True)
        subprocess.run(["mvn", "-q", "-B", "-DskipTests", "package"], cwd=work, check=True)
        jar = next(path for path in (work / "target").glob("*.jar") if not path.name.endswith("-plain.jar"))
        return ["java", "-jar", str(jar)]
    raise SystemExit(f"{setup}: has neither requirements.txt, package.json nor pom.xml")


def _without_paths(content: bytes, work: Path) -> bytes:
    """Stack traces name folders of this machine: others of the same length replace them, so protobuf stays whole."""
    for path in (work.resolve(), HERE.parents[1], Path(sys.base_prefix)):
        own = str(path).encode()
        content = content.replace(own, b"/srv/app".ljust(len(own), b"-")[: len(own)])
    return content


def record(name: str, work: Path) -> None:
    """Run one set-up and write its fixture."""
    setup = SETUPS / name
    if not setup.is_dir():
        raise SystemExit(f"no such set-up: {name}; there are: {', '.join(sorted(p.name for p in SETUPS.iterdir()))}")
    print(name)
    command = prepare(setup, work / name)
    capture, model = Capture(), ScriptedModel()
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "LIBRARY": str(HERE / "library.json"),
        "FACTS_URL": f"{capture.url}/facts",
        "CAPTURE_URL": capture.url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": capture.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BLRP_SCHEDULE_DELAY": "100",
        "OTEL_SERVICE_NAME": f"harbour-bikes-{name.replace('_', '-')}",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_BASE": model.url,
        "OPENAI_API_KEY": "not-a-key",
        "NO_PROXY": "127.0.0.1",
    }
    try:
        subprocess.run(command, env=environment, cwd=work / name, check=True, timeout=600)
    finally:
        capture.close()
        model.close()
    if not capture.facts:
        raise SystemExit(f"{name}: the application reported nothing")
    target = RECORDED / name
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for number, body in enumerate(capture.bodies, 1):
        (target / f"{number:03}{body.suffix}").write_bytes(_without_paths(body.content, work))
    (target / "expected.json").write_text(
        json.dumps({"traces": capture.facts}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    size = sum(len(body.content) for body in capture.bodies)
    print(f"  {len(capture.facts)} requests, {len(capture.bodies)} bodies, {size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setups", nargs="+", metavar="SETUP")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "rag-monitor-recordings")
    chosen = parser.parse_args()
    for name in chosen.setups:
        record(name, chosen.work)


if __name__ == "__main__":
    main()
