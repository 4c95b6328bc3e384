"""SIGTERM in the middle of a reload: the process ends in time, who waits is asked to come again, nothing is lost."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.held import POINTS, Held
from tests.support.kafka_traces import rag_trace, trace_id
from tests.support.monitor import assert_balanced
from tests.support.service import GOOD
from tests.support.tools import wait_until

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def row(name: str) -> bytes:
    return json.dumps([{"id": name, "question": "Money back?", "contexts": [GOOD], "response": GOOD}]).encode()


class Senders:
    """Several at once, each with one request over HTTP and one over gRPC; remembers which were acknowledged."""

    def __init__(self, monitor: Held) -> None:
        self._monitor = monitor
        self._threads: list[threading.Thread] = []
        self.acknowledged: set[str] = set()
        self.http: list[int | str] = []
        self.grpc: list[str] = []

    def begin(self, number: int) -> None:
        for one in range(number):
            for target in (self._over_http, self._over_grpc):
                self._threads.append(threading.Thread(target=target, args=(one,)))
                self._threads[-1].start()

    def wait(self) -> None:
        for one in self._threads:
            one.join()

    def _over_http(self, number: int) -> None:
        name = f"waiting-{number}"
        try:
            answer: int | str = self._monitor.post(row(name), "/v1/cases", "application/json")
        except OSError as error:
            answer = repr(error)
        self.http.append(answer)
        if answer == 200:
            self.acknowledged.add(name)

    def _over_grpc(self, number: int) -> None:
        id_ = trace_id(7, number)
        with grpc.insecure_channel(f"127.0.0.1:{self._monitor.grpc}") as channel:
            try:
                export: Any = channel.unary_unary(EXPORT, ExportTraceServiceRequest.SerializeToString)
                export(rag_trace(id_), timeout=60)
            except grpc.RpcError as error:
                self.grpc.append(error.code().name)
            else:
                self.grpc.append("OK")
                self.acknowledged.add(id_)


@pytest.mark.parametrize("point", POINTS)
def test_sigterm_during_a_reload_ends_the_process_in_time_and_loses_nothing_that_was_acknowledged(
    tmp_path: Path, point: str
) -> None:
    monitor = Held(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []})
    monitor.point = point
    senders = Senders(monitor)
    with monitor:
        assert monitor.post(row("before"), "/v1/cases", "application/json") == 200
        monitor.write(slices=["tenant"])
        assert monitor.process is not None
        monitor.process.send_signal(signal.SIGHUP)
        monitor.wait_for_pause()
        listened = monitor.log.read_text().count("listening for traces")
        senders.begin(4)
        assert monitor.terminate(10) == 0
        senders.wait()
        assert monitor.log.read_text().count("listening for traces") == listened, "it took up sources to stop at once"
        if point != "reading":  # else they do not wait for a reload: the configuration before still answers
            assert set(senders.http) <= {200, 503}, senders.http
            assert set(senders.grpc) <= {"OK", "UNAVAILABLE"}, senders.grpc
        assert "Traceback" not in monitor.log.read_text()
        monitor.point = ""
        monitor.start()
        with sqlite3.connect(tmp_path / "state" / "history.db") as database:

            def ids() -> list[str]:
                return [name for (name,) in database.execute("select trace_id from results")]

            wanted = {"before", *senders.acknowledged}
            wait_until(lambda: set(ids()) >= wanted, 30, "a result of all that was acknowledged")
            assert len(ids()) == len(set(ids()))
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0
