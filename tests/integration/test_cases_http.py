"""Rows by `POST /v1/cases`, over real HTTP: mostly to a whole monitor in a process of its own."""

from __future__ import annotations

import gzip
import json
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from monitor.errors import InvalidData, Overloaded
from monitor.model.row import RowBatch
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from tests.support import llm as say
from tests.support.llm import LLMServer
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp import serving
from tests.support.service import BAD, CONTEXT, GOOD, RagService
from tests.support.tools import wait_until

JSON, NDJSON, JSONL = "application/json", "application/x-ndjson", "application/jsonl"


def row(name: str, answer: str = GOOD, **more: Any) -> dict[str, Any]:
    return {
        "request_id": name,
        "request": "Can I get my money back?",
        "response": answer,
        "retrieved_context": [{"content": CONTEXT}],
        **more,
    }


def post(port: int, content: bytes, kind: str = JSON, path: str = "/v1/cases", **headers: str) -> httpx.Response:
    # Connecting is tried again: the metrics port, which says when the monitor is ready, is up before the receiver's.
    with httpx.Client(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{port}{path}"
        return client.post(url, content=content, headers={"content-type": kind, **headers})


def lines(*rows: Any) -> bytes:
    return "\n".join(json.dumps(one) for one in rows).encode()


def ended(monitor: MonitorProcess, number: int) -> bool:
    return assert_balanced(monitor.samples()) >= number and monitor.total("ragmonitor_traces_pending") == 0


def judged(monitor: MonitorProcess) -> list[str]:
    with sqlite3.connect(monitor.folder / "state" / "history.db") as database:
        return [one[0] for one in database.execute("select trace_id from results")]


# -- a whole monitor


def test_rows_are_judged_and_the_ledger_balances_at_every_scrape(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path) as monitor:
        deliveries = [
            (json.dumps(row("one", app="shop")).encode(), JSON),
            (
                json.dumps([row(f"array-{n}", BAD if n % 4 == 0 else GOOD, app="shop") for n in range(20)]).encode(),
                JSON,
            ),
            (lines(*(row(f"line-{n}", app="shop") for n in range(19))), NDJSON),
            (lines(row("other", app="shop")), JSONL),
        ]
        for body, kind in deliveries:
            answer = post(monitor.http, body, kind)
            assert (answer.status_code, answer.json()["rejected"], answer.json()["errors"]) == (200, 0, [])
            assert answer.headers["content-type"] == "application/json"
            assert_balanced(monitor.samples())
        zipped = gzip.compress(lines(row("zipped", app="shop")))
        assert post(monitor.http, zipped, NDJSON, **{"content-encoding": "gzip"}).json()["accepted"] == 1
        wait_until(lambda: ended(monitor, 42), 20, "the end of all rows")
        assert monitor.total("ragmonitor_requests_total", app="shop", source="cases", outcome="evaluated") == 42
        assert monitor.total("ragmonitor_evaluations_total", app="shop", defect="true") == 5
        assert monitor.total("ragmonitor_rows_total", source="cases", outcome="kept") == 42
        assert monitor.total("ragmonitor_receiver_requests_total", source="otlp_http", code="200") == 5
        assert monitor.terminate() == 0


def test_each_row_ends_in_its_own_place(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, {"sampling": {"traces": 0.5}}) as monitor:
        low, high = "ab" * 9 + "00" * 7, "cd" * 9 + "ff" * 7
        body = lines(
            row(high),
            row(low),
            row("ee" * 9 + "ff" * 7, retrieved_context=[]),
            row("ef" * 9 + "ff" * 7, answer=""),
            {"foo": 1},
        )
        for _ in range(2):
            answer = post(monitor.http, body, path="/v1/cases?service=bakery").json()
            assert (answer["accepted"], answer["rejected"]) == (4, 1)
        wait_until(lambda: ended(monitor, 6), 20, "the end of all rows")
        samples = monitor.samples()
        outcomes = {
            at["outcome"]: value
            for family in ("requests", "traces")
            for at, value in samples[f"ragmonitor_{family}_total"]
            if at["source"] == "cases" and at["app"] == "bakery" and value
        }
        assert outcomes == {"evaluated": 2, "content_missing": 1, "read": 3, "sampled_out": 1, "invalid": 2}
        assert monitor.total("ragmonitor_rows_total", outcome="duplicate") == 3
        assert monitor.total("ragmonitor_evaluation_weight_total", app="bakery") == 4.0


def test_references_of_every_shape_are_compared_and_unread_fields_named(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, {"evaluators": [{"type": "f1_score"}]}) as monitor:
        spring = {"userText": "How long?", "responseContent": "Two years.", "dataList": [{"text": "Two years."}]}
        bodies = [
            lines({**spring, "id": 1, "expected_response": "Two years."}, {**spring, "id": 2, "ground_truth": "One."}),
            json.dumps({"data": [{**spring, "id": 3, "reference": "Two years.", "latency": 3, "price": 4}]}).encode(),
        ]
        answers = [post(monitor.http, body).json() for body in bodies]
        assert answers == [
            {"accepted": 2, "rejected": 0, "errors": []},
            {"accepted": 1, "rejected": 0, "errors": [], "unused": ["latency", "price"]},
        ]
        wait_until(lambda: ended(monitor, 3), 20, "the end of all rows")
        assert monitor.total("ragmonitor_evaluations_total", evaluator="f1_score", defect="true") == 1
        assert monitor.total("ragmonitor_evaluations_total", evaluator="f1_score", defect="false") == 2


def test_documents_known_by_their_address_alone_are_compared_by_it(tmp_path: Path) -> None:
    addresses = {"retrieved_context": [{"doc_uri": "u1"}], "expected_retrieved_context": [{"doc_uri": u} for u in "ab"]}
    settings = {"evaluators": [{"type": "document_recall"}, {"type": "overlap_groundedness"}, {"type": "pii_leak"}]}
    with MonitorProcess(tmp_path, settings) as monitor:
        half = row(
            "half", retrieved_context=[{"doc_uri": "a"}], expected_retrieved_context=[{"doc_uri": u} for u in "ab"]
        )
        post(monitor.http, lines(half, row("none", **addresses)))
        wait_until(lambda: ended(monitor, 2), 20, "the end of all rows")
        assert monitor.total("ragmonitor_evaluations_total", evaluator="document_recall", defect="true") == 1
        assert monitor.total("ragmonitor_evaluations_total", evaluator="document_recall", defect="false") == 1
        assert monitor.total("ragmonitor_evaluations_total", evaluator="pii_leak") == 2
        assert monitor.total("ragmonitor_skipped_total", reason="context_not_recorded") == 2


def test_the_prompt_of_the_configuration_is_that_of_rows_without_one(tmp_path: Path) -> None:
    """So `trustworthiness` asks again with it; a row's own prompt goes before."""
    with LLMServer() as llm:
        llm.always(
            lambda asked: say.verdict(explanation="fine", verdict="correct") if "response_format" in asked.body
            else say.says(GOOD)
        )  # fmt: skip
        settings = {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1},
            "evaluators": [{"type": "trustworthiness", "samples": 1, "sample": "100%"}],
            "extraction": {"row_prompt": "By the context. {context} {question}"},
        }
        with MonitorProcess(tmp_path, settings) as monitor:
            post(monitor.http, lines(row("a"), row("b", prompt="My own."), row("c", retrieved_context=None)))
            wait_until(lambda: ended(monitor, 3), 40, "the end of all rows")
            assert monitor.total("ragmonitor_evaluations_total", evaluator="trustworthiness") == 2
            assert monitor.total("ragmonitor_skipped_total", reason="no_prompt") == 1
        asked = [one.body["messages"] for one in llm.requests if "response_format" not in one.body]
        sent = {message["content"] for (message,) in asked}
        assert sent == {f"By the context. {CONTEXT} Can I get my money back?", "My own."}


def test_hostile_rows_are_read_or_refused_and_the_ledger_balances(tmp_path: Path) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    hostile = [
        row("zero", "a\x00b", expected_response="\x00", latency="\x00"),
        row("deep", expected_facts=deep, reference={"a": deep}, expected_documents=deep, prompt=deep),
        row("wide", **{f"field-{number}": number for number in range(50_000)}),
        row("long-name", **{"x" * 500_000: 1}),
        row("references", expected_response=[{"a": [1]}, None, 5, "x" * 100_000], ground_truth=1e308, ideal=True),
        row(
            "addresses", retrieved_context=[{"doc_uri": "u" * 100_000}] * 50, expected_documents=["s3://" + "x" * 9_000]
        ),
        row("counts", usage={"input_tokens": -5, "output_tokens": 1e300, "total_tokens": "many"}, total_tokens=[]),
        {"inputs": {"inputs": {"question": {}}}, "outputs": [[[]]], "expectations": [1], "id": "nested"},
        {"data": {"data": [{"data": []}]}, "info": {"spans": 1}, "request": "Why?", "response": "So.", "id": "data"},
    ]
    bodies = [
        lines(*hostile),
        json.dumps({"data": hostile}).encode(),
        json.dumps({"data": [[]], "columns": [1]}).encode(),
    ]
    bodies.append(b'{"request": "\\ud800", "response": "\\udc00"}\n' + lines(row("surrogate-beside")))
    bodies.append(b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    with MonitorProcess(tmp_path, {"evaluators": [{"type": "f1_score"}, {"type": "document_recall"}]}) as monitor:
        codes = [post(monitor.http, body).status_code for body in bodies]
        assert codes == [200, 200, 400, 200, 400]
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 30, "the end of all rows")
        assert_balanced(monitor.samples())
        answer = post(
            monitor.http, lines(row("wide-again", **{f"field-{number}": 1 for number in range(1_000)}))
        ).json()
        assert len(answer["unused"]) == 20
        assert monitor.terminate() == 0


def test_the_app_is_the_rows_own_else_the_senders_else_unknown(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path) as monitor:
        post(monitor.http, lines(row("a", app="shop")), path="/v1/cases?service=bakery")
        post(monitor.http, lines(row("b")), path="/v1/cases?service=caf%C3%A9")
        post(monitor.http, lines(row("c")))
        wait_until(lambda: ended(monitor, 3), 20, "the end of all rows")
        for app in ("shop", "café", "unknown"):
            assert monitor.total("ragmonitor_requests_total", app=app, outcome="evaluated") == 1
            assert monitor.total("ragmonitor_evaluations_total", app=app) == 1


def test_a_row_and_a_trace_of_the_same_service_stand_side_by_side(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path) as monitor:
        service = RagService.over_http(monitor.http)
        service.ask()
        service.flush()
        post(monitor.http, lines(row("a", app="shop")))
        wait_until(lambda: ended(monitor, 2), 20, "both")
        service.close()
        assert monitor.total("ragmonitor_evaluations_total", app="shop") == 2


def test_every_row_that_was_answered_for_is_judged_after_kill_9(tmp_path: Path) -> None:
    """Killed in the midst of deliveries from four senders, several times over."""
    acknowledged: set[str] = set()
    monitor = MonitorProcess(tmp_path)

    def send(life: int, who: int, stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            names = [f"{life}-{who}-{number}-{part}" for part in range(10)]
            number += 1
            try:
                answer = post(monitor.http, lines(*(row(name, app="shop") for name in names)), NDJSON)
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.update(names)

    for life in range(3):
        monitor.start()
        stop = threading.Event()
        senders = [threading.Thread(target=send, args=(life, who, stop)) for who in range(4)]
        for sender in senders:
            sender.start()
        wait_until(lambda least=20 * (life + 1): len(acknowledged) >= least, 60, "some rows that were taken")
        assert monitor.process is not None
        monitor.process.send_signal(signal.SIGKILL)
        monitor.process.wait(60)
        stop.set()
        for sender in senders:
            sender.join(60)
    assert len(acknowledged) > 50
    with monitor:
        wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0 and ended(monitor, 0), 60, "the replay")
        assert monitor.total("ragmonitor_spool_damaged_records_total") == 0
        assert monitor.terminate() == 0
    assert acknowledged <= set(judged(monitor))


def test_what_waits_at_sigterm_is_judged_now_or_after_the_restart(tmp_path: Path) -> None:
    monitor = MonitorProcess(tmp_path)
    with monitor:
        names = {f"row-{number}" for number in range(2000)}
        assert post(monitor.http, lines(*(row(name) for name in names)), NDJSON).json()["accepted"] == 2000
        assert monitor.terminate() == 0
        monitor.start()
        wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0 and ended(monitor, 0), 60, "the replay")
        assert monitor.terminate() == 0
    found = judged(monitor)
    assert set(found) == names
    assert len(found) == 2000


# -- the receiver alone


class RowIntake:
    def __init__(self, trouble: Exception | None = None) -> None:
        self.batches: list[RowBatch] = []
        self.trouble = trouble

    async def accept(self, batch: RowBatch) -> Accepted:
        if self.trouble is not None:
            raise self.trouble
        self.batches.append(batch)
        return Accepted()

    @property
    def ids(self) -> list[str]:
        return [one.request_id for batch in self.batches for one in batch.rows]


def answered(
    body: bytes, kind: str = JSON, intake: Any = None, path: str = "/v1/cases", **options: Any
) -> httpx.Response:
    headers = options.pop("headers", {})
    with serving(OtlpHttp(port=0, **options), intake if intake is not None else RowIntake()) as at:
        return post(at.port, body, kind, path, **headers)


def test_the_good_rows_of_a_delivery_are_taken_and_the_others_named() -> None:
    intake = RowIntake()
    body = lines(row("a"), {"foo": 1}) + b"\n\n{broken\n" + lines(row("b"), 5)
    answer = answered(body, NDJSON, intake)
    told = answer.json()
    assert (answer.status_code, told["accepted"], told["rejected"]) == (200, 2, 3)
    assert [one["row"] for one in told["errors"]] == [1, 2, 4]
    assert "'foo'" in told["errors"][0]["error"]
    assert told["errors"][1]["error"].startswith("line 4: not JSON")
    assert intake.ids == ["a", "b"]
    assert intake.batches[0].invalid == 3


def test_only_the_first_twenty_errors_are_told() -> None:
    told = answered(json.dumps([row("a"), *[{"foo": 1}] * 50]).encode()).json()
    assert (told["accepted"], told["rejected"], len(told["errors"])) == (1, 50, 20)


@pytest.mark.parametrize(
    "body", [b"", b"  \n ", b"[{]", b"{", b"nonsense", b"[1, 2]", b'{"foo": 1}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_body_of_which_nothing_can_be_read_is_400(body: bytes) -> None:
    answer = answered(body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert answer.json()["message"]


def test_an_empty_list_is_no_trouble() -> None:
    assert answered(b"[]").json() == {"accepted": 0, "rejected": 0, "errors": []}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(row("a"), indent=2).encode(),
        b"\xef\xbb\xbf" + lines(row("a")),
        lines(row("a")).replace(b"\n", b"\r\n") + b"\r\n",
        b'{"request_id": "a", "query": "q", "response": "r", "score": NaN}',
    ],
)
def test_one_row_may_be_written_in_every_usual_way(body: bytes) -> None:
    intake = RowIntake()
    assert answered(body, JSON, intake).status_code == 200
    assert intake.ids == ["a"]


def test_other_content_types_are_415_and_other_methods_405() -> None:
    for kind in ("application/x-protobuf", "text/plain", "text/csv"):
        answer = answered(lines(row("a")), kind)
        assert answer.status_code == 415
    assert "application/x-ndjson" in answer.json()["message"]
    with serving(OtlpHttp(port=0), RowIntake()) as at, httpx.Client(trust_env=False, timeout=60) as client:
        assert client.get(at.url("/v1/cases")).status_code == 405


def test_the_path_can_be_chosen() -> None:
    assert answered(lines(row("a")), path="/rows", cases_path="/rows").status_code == 200
    assert answered(lines(row("a")), cases_path="/rows").status_code == 404
    with pytest.raises(ValueError, match="differ from each other"):
        OtlpHttp(cases_path="/v1/traces")


def test_the_limits_of_otlp_hold_for_rows() -> None:
    assert answered(lines(row("a", GOOD * 100)), max_body_bytes=1000).status_code == 413
    assert answered(lines(*(row(str(n)) for n in range(11))), max_spans=10).status_code == 413
    assert answered(json.dumps([row(str(n)) for n in range(11)]).encode(), max_spans=10).status_code == 413
    assert answered(b"[" + b"{}," * 1_000_001 + b"{}]").status_code == 413
    bomb = gzip.compress(b" " * 50_000_000)
    assert answered(bomb, headers={"content-encoding": "gzip"}).status_code == 413
    told = answered(lines(row("a"), row("b", GOOD * 100)), max_span_bytes=1000).json()
    assert (told["accepted"], told["rejected"]) == (1, 1)
    assert "the limit is 1000" in told["errors"][0]["error"]


def test_without_the_token_nothing_is_taken(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret-and-long-enough")
    options = {"auth": {"token_file": str(secret)}}
    intake = RowIntake()
    assert answered(lines(row("a")), intake=intake, **options).status_code == 401
    assert intake.batches == []
    headers = {"authorization": "Bearer s3cret-and-long-enough"}
    assert answered(lines(row("a")), intake=intake, headers=headers, **options).status_code == 200


@pytest.mark.parametrize("trouble", [Overloaded("the spool is full"), RuntimeError("a fault of ours")])
def test_when_there_is_no_room_the_sender_is_told_when_to_try_again(trouble: Exception) -> None:
    answer = answered(lines(row("a")), intake=RowIntake(trouble))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] in ("1", "2")


def test_a_record_that_fits_no_spool_is_refused_for_good() -> None:
    assert answered(lines(row("a")), intake=RowIntake(InvalidData("too large"))).status_code == 400
