"""`rag-monitor why` beside real monitors: each cause is brought about, and its explanation read."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from monitor.statistics import consistent_sampling
from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, bad_key, status, verdict
from tests.support.monitor import MonitorProcess
from tests.support.otlp_spans import send_spans, span
from tests.support.service import CONTEXT, GOOD
from tests.support.tools import wait_until

QUESTION = "Can I get my money back?"
KEPT, LEFT_OUT = "f" * 14, "0" * 13 + "1"
"""The last 56 bits of ids that head sampling at one half keeps, and leaves out."""


def name(number: int, end: str = KEPT) -> str:
    return f"{number:018x}{end}"


def drawn(above: float, start: int) -> str:
    """An id that evaluators with a probability up to `above` do not choose."""
    return next(
        one for one in map(name, range(start, start + 1000)) if consistent_sampling.value(one, "rag-monitor") > above
    )


def row(request_id: str, **fields: Any) -> dict[str, Any]:
    whole = {"id": request_id, "app": "shop", "question": QUESTION, "contexts": [CONTEXT], "response": GOOD, **fields}
    return {key: value for key, value in whole.items() if value is not None}


def send_rows(monitor: MonitorProcess, *rows: dict[str, Any]) -> None:
    body = "\n".join(map(json.dumps, rows)).encode()
    assert monitor.post(body, "/v1/cases", "application/x-ndjson") == 200


def why(monitor: MonitorProcess, *arguments: str, known: bool = True) -> dict[str, Any]:
    result = command("why", *arguments, "-c", monitor.folder / "config.yaml", "--json")
    assert result.exit_code == (0 if known else 1), result.output
    return json.loads(result.stdout)


def ended(monitor: MonitorProcess, number: int) -> None:
    def written() -> bool:
        kept = monitor.total("ragmonitor_request_log_records_total", outcome="kept")
        return kept >= number and monitor.total("ragmonitor_traces_pending") == 0

    wait_until(written, 60, f"{number} trails")


GOOD_ONE, HEALTH, DROPPED, RARE, WORDLESS, REDONE = map(name, range(1, 7))
BARE, NO_REQUEST, INCOMPLETE, FAILED, TOO_LARGE, OPEN = map(name, range(7, 13))
SAMPLED_OUT = name(13, LEFT_OUT)
UNLUCKY = drawn(0.3, 100)
CHAIN = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": GOOD}
FOUND = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": CONTEXT}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """A monitor without a judge, after one request of each kind."""
    folder = tmp_path_factory.mktemp("local")
    config = {
        "sampling": {"traces": 0.5},
        "assembly": {"grace_period": "300ms", "idle_timeout": "6s", "max_trace_spans": 20},
        "traffic": {
            "drop": [{"attribute": "tenant", "matches": "internal-*"}],
            "rates": {"synthetic": 0.0001},
        },
        "slices": ["tenant"],
        "evaluators": [
            {"type": "overlap_groundedness"},
            {"type": "response_length", "sample": "30%"},
            {"type": "groundedness", "optional": True},
            {"type": "f1_score"},
        ],
        "alerts": [],
    }
    with MonitorProcess(folder, config) as monitor:
        send_rows(
            monitor,
            row(GOOD_ONE),
            row(UNLUCKY),
            row(HEALTH, attributes={"http.route": "/healthz"}),
            row(DROPPED, attributes={"tenant": "internal-7"}),
            row(RARE, attributes={"rag.traffic.class": "synthetic"}),
            row(WORDLESS, response=None),
            row(SAMPLED_OUT),
            row(BARE, contexts=[]),
        )
        send_spans(
            monitor,
            span(NO_REQUEST, 1, {"db.system": "postgresql"}),
            span(INCOMPLETE, 1, CHAIN),
            span(INCOMPLETE, 3, FOUND, parent=2),
            span(FAILED, 1, {"openinference.span.kind": "CHAIN", "input.value": QUESTION}, failed=True),
            *(span(TOO_LARGE, number, FOUND, parent=1) for number in range(2, 40)),
            span(REDONE, 1, CHAIN),
            span(REDONE, 2, FOUND, parent=1),
        )
        ended(monitor, 12)
        yield monitor


@pytest.mark.parametrize(
    ("request_id", "cause", "words", "setting"),
    [
        (HEALTH, "filtered", "health check", "traffic.health_checks: true"),
        (DROPPED, "filtered", "traffic.drop[0] matches", "traffic.drop[0]"),
        (RARE, "sampled_out", "traffic.rates.synthetic", "traffic.rates.synthetic: at least 0."),
        (WORDLESS, "content_missing", "the row has no answer", "the rows that are sent"),
        (SAMPLED_OUT, "sampled_out", "sampling.traces is 0.5", "sampling.traces: at least 1"),
        (NO_REQUEST, "no_request", "not a request", "extraction.attributes"),
        (
            INCOMPLETE,
            "incomplete",
            "the parent 0000000000000002 of span 0000000000000003",
            "extraction.orphans_are_roots",
        ),
        (FAILED, "failed_request", "the service itself failed", ""),
        (TOO_LARGE, "too_large", "larger than allowed", "assembly.max_trace_bytes"),
    ],
)
def test_a_trace_that_was_not_judged_says_where_it_ended_and_which_setting_would_change_it(
    local, request_id, cause, words, setting
):
    found = why(local, request_id)
    assert found["cause"] == cause, found
    assert words in found["conclusion"]
    assert found["setting"].startswith(setting) if setting else not found["setting"]


def test_a_trace_that_was_judged_shows_its_spans_and_each_step_of_each_evaluator(local):
    found = why(local, REDONE, "-e", "overlap_groundedness")
    assert (found["cause"], found["setting"]) == ("evaluated", "")
    steps = {one["what"]: one["text"] for one in found["steps"]}
    assert "2 spans: step 1 (request, openinference); step 2 (retrieval, openinference)" in steps["assembled"]
    assert "with probability 0.5" in steps["sampled"]
    assert steps["score"].startswith("scored")


@pytest.mark.parametrize(
    ("request_id", "evaluator", "cause", "setting"),
    [
        (GOOD_ONE, "groundedness", "off", "judge.model"),
        (GOOD_ONE, "f1_score", "does_not_apply", ""),
        (BARE, "overlap_groundedness", "evaluated", ""),
        (UNLUCKY, "response_length", "not_chosen", "evaluators[1].sample: at least 0."),
        (GOOD_ONE, "nobody", "not_asked", "evaluators: - type: nobody"),
    ],
)
def test_an_evaluator_that_gave_no_verdict_on_a_trace_says_why(local, request_id, evaluator, cause, setting):
    found = why(local, request_id, "-e", evaluator)
    assert found["cause"] == cause, found
    assert found["setting"].startswith(setting)


def test_the_rate_that_is_named_would_have_chosen_the_trace(local):
    rate = float(why(local, UNLUCKY, "-e", "response_length")["setting"].rpartition(" ")[2])
    assert consistent_sampling.chosen(UNLUCKY, "rag-monitor", rate)
    assert not consistent_sampling.chosen(UNLUCKY, "rag-monitor", rate - 0.0002)


@pytest.mark.parametrize(
    ("evaluator", "cause", "words"),
    [
        ("overlap_groundedness", "evaluated", "It ran"),
        ("groundedness", "off", "the section `judge` names none"),
        ("f1_score", "does_not_apply", "only rows can provide"),
        ("nobody", "not_asked", "configured: overlap_groundedness"),
    ],
)
def test_an_evaluator_that_ran_zero_times_says_why(local, evaluator, cause, words):
    found = why(local, "--evaluator", evaluator, "--since", "1h")
    assert found["cause"] == cause, found
    assert words in found["conclusion"]


def test_over_a_span_of_time_all_that_ended_is_counted_what_the_door_left_out_too(local):
    found = why(local, "--evaluator", "overlap_groundedness", "--app", "shop")
    received = next(one["text"] for one in found["steps"] if one["what"] == "received")
    assert "2 filtered" in received
    assert "2 sampled_out" in received
    assert "1 failed_request" in received
    assert why(local, "-e", "overlap_groundedness", "--app", "other", known=True)["cause"] == "no_traces"


def test_a_trace_that_never_came_says_where_to_look(local):
    found = why(local, name(99), known=False)
    assert found["cause"] == "never_seen"
    assert any("--url" in one["text"] for one in found["steps"])


def test_only_the_running_monitor_knows_of_an_open_trace_and_until_when_it_waits(local):
    send_spans(local, span(OPEN, 2, FOUND, parent=1))
    found = json.loads(local.get(f"/api/v1/why?trace={OPEN}"))
    assert found["cause"] == "open"
    assert "waits for its root span to end" in found["conclusion"]
    assert found["setting"].startswith("assembly.idle_timeout")
    ended(local, 13)
    assert why(local, OPEN)["cause"] == "incomplete"


def test_nothing_of_the_texts_is_kept_with_a_trail(local):
    data = b"".join(path.read_bytes() for path in (local.folder / "state").glob("request_log.db*"))
    assert FAILED.encode() in data
    for text in (QUESTION, GOOD[:20], CONTEXT[:20], "secret question"):
        assert text.encode() not in data


def test_the_trails_are_readable_by_their_owner_only(local):
    for path in (local.folder / "state").glob("request_log.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_page_says_the_same_and_shows_hostile_ids_as_text(local):
    assert "traffic.drop[0]" in local.get(f"/why?trace={DROPPED}")
    assert "names none" in local.get("/why?evaluator=groundedness&since=1h")
    hostile = local.get("/why?trace=%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert "<script>" not in hostile
    assert f"why?trace={GOOD_ONE}" in local.get(f"/case/{GOOD_ONE}")
    assert "why?evaluator=groundedness" in local.get("/")
    assert "Choose a trace or an evaluator" in local.get("/why")


def test_the_lines_for_people_hold_the_conclusion_the_setting_and_the_steps(local):
    result = command("why", DROPPED, "-c", local.folder / "config.yaml")
    told = result.stdout.splitlines()
    assert told[:3] == [
        f"trace {DROPPED}",
        "Not evaluated: left out by the configuration: traffic.drop[0] matches it.",
        "To change it: traffic.drop[0]: remove this rule",
    ]
    assert any(line.startswith("  received") for line in told)


def test_a_running_monitor_is_asked_by_url_and_one_that_is_away_is_told(local):
    base = f"http://127.0.0.1:{local.metrics_port}"
    result = command("why", GOOD_ONE, "-e", "groundedness", "--url", base, "--json")
    assert json.loads(result.stdout)["cause"] == "off"
    away = command("why", GOOD_ONE, "--url", "http://127.0.0.1:1")
    assert away.exit_code == 1
    assert "no monitor responds" in away.stderr


def test_without_a_trace_and_an_evaluator_it_says_what_it_needs():
    assert command("why").exit_code == 2


def test_after_the_end_of_the_monitor_the_folder_still_explains(tmp_path):
    config = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}
    with MonitorProcess(tmp_path, config) as monitor:
        send_rows(monitor, row(GOOD_ONE))
        ended(monitor, 1)
        assert monitor.terminate() == 0
        assert why(monitor, GOOD_ONE)["cause"] == "evaluated"
        monitor.start()
        send_rows(monitor, row(REDONE))
        ended(monitor, 1)
        steps = why(monitor, "-e", "overlap_groundedness")["steps"]
        assert "2 requests ended: 2 evaluated" in [one["text"] for one in steps]


def test_switched_off_it_says_that_nothing_is_kept_and_tells_from_results(tmp_path):
    state = {"path": str(tmp_path / "state"), "request_log": 0}
    config = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": [], "storage": state}
    with MonitorProcess(tmp_path, config) as monitor:
        send_rows(monitor, row(GOOD_ONE))
        wait_until(lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") == 1, 20, "the verdict")
        assert not (tmp_path / "state" / "request_log.db").exists()
        assert why(monitor, GOOD_ONE)["cause"] == "evaluated"
        found = why(monitor, name(2), known=False)
        assert (found["cause"], found["setting"]) == ("not_recorded", "storage.request_log: 1d")


ASKED_TWICE = drawn(0.5, 5000)


def waiting(monitor: MonitorProcess) -> list[dict[str, Any]]:
    """What is said of the first trace and of its evaluator while the judge has not answered yet."""

    def asked() -> list[dict[str, Any]]:
        queries = (f"trace={GOOD_ONE}&evaluator=relevance", "evaluator=relevance&since=1h")
        return [json.loads(monitor.get(f"/api/v1/why?{query}")) for query in queries]

    def both_read() -> list[dict[str, Any]] | None:
        found = asked()
        if found[0]["cause"] == "waiting" and "is with the judge now" not in found[0]["conclusion"]:
            return None
        return found if all(one["cause"] in ("waiting", "evaluated") for one in found) else None

    found = wait_until(both_read, 20, "the case to be read")
    assert isinstance(found, list)
    return found


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """A monitor with judges that go wrong, each in its own way, after two requests one after the other."""
    looked = threading.Event()
    refused = status(429, retry_after=0.1)
    impatient = [refused, replace(refused, after=looked)]  # the last comes first

    def script(asked: Asked) -> Reply:
        key = asked.headers["authorization"].removeprefix("Bearer ")
        if key == "bad":
            return bad_key()
        if key == "good" and impatient:
            return impatient.pop()
        return verdict(observations=["seen"], explanation="as seen", score=5, claims=[])

    folder = tmp_path_factory.mktemp("judging")
    with LLMServer() as llm:
        llm.always(script)
        model = {"model": "openai/scripted", "api_base": llm.url, "recheck_share": 0}
        config = {
            "judge": {**model, "api_key": "good"},
            "judges": {
                "refused": {**model, "api_key": "bad", "max_age": "2s"},
                "poor": {**model, "api_key": "poor", "budget": {"evaluations_per_day": 1}, "cache": {"max_entries": 0}},
            },
            "evaluators": [
                {"type": "relevance"},
                {"type": "coherence", "judge": "refused"},
                {"type": "fluency", "judge": "poor"},
                {"type": "completeness", "sample": "50%"},
            ],
            "alerts": [],
        }
        with MonitorProcess(folder, config) as monitor:
            for number, one in enumerate((GOOD_ONE, ASKED_TWICE), 1):
                send_rows(monitor, row(one))
                if number == 1:  # the provider takes seconds to load: until then the cases wait
                    monitor.while_waiting = waiting(monitor)
                    looked.set()
                ended(monitor, number)
            yield monitor


def test_while_the_judge_has_not_answered_a_running_monitor_says_that_cases_wait(judging):
    of_trace, of_evaluator = judging.while_waiting
    assert (of_trace["cause"], of_evaluator["cause"]) == ("waiting", "waiting"), judging.while_waiting
    assert "is with the judge now" in of_trace["conclusion"]
    assert "1 case waiting for the judge" in of_evaluator["conclusion"]


def test_each_attempt_at_the_judge_is_shown_with_what_came_of_it(judging):
    found = why(judging, GOOD_ONE, "-e", "relevance")
    assert found["cause"] == "evaluated", found
    attempts = [one["text"] for one in found["steps"] if one["what"].startswith("attempt")]
    assert [text.split(": ", 1)[1].split(" ")[0] for text in attempts] == ["rate_limited", "rate_limited", "ok"]
    assert "HTTP 429" in attempts[0]


@pytest.mark.parametrize(
    ("request_id", "evaluator", "reasons", "setting"),
    [
        (GOOD_ONE, "coherence", ("auth", "paused"), "judges.refused.api_key"),
        (ASKED_TWICE, "fluency", ("budget",), "judges.poor.budget.evaluations_per_day: higher"),
    ],
)
def test_a_judgement_that_came_to_nothing_names_the_setting_of_its_own_judge(
    judging, request_id, evaluator, reasons, setting
):
    found = why(judging, request_id, "-e", evaluator)
    assert (found["cause"], found["reason"] in reasons) == ("unscored", True), found
    assert found["setting"].startswith(setting)


def test_a_judged_evaluator_that_did_not_choose_a_trace_shows_value_and_probability(judging):
    found = why(judging, ASKED_TWICE, "-e", "completeness")
    value = consistent_sampling.value(ASKED_TWICE, "rag-monitor")
    assert found["cause"] == "not_chosen"
    assert f"{value:.4g}, is not below its probability, 0.5" in found["conclusion"]


def test_an_evaluator_whose_judge_refuses_says_so_for_the_whole_time(judging):
    found = why(judging, "-e", "coherence", "--since", "1h")
    assert found["reason"] in ("auth", "paused")
    assert found["setting"].startswith("judges.refused.api_key")


def test_no_secret_is_in_an_explanation(judging):
    shown = json.dumps([why(judging, GOOD_ONE), why(judging, "-e", "coherence")])
    assert "sk-canary-secret" not in shown


def test_a_row_whose_id_is_a_uuid_is_found_by_it(tmp_path):
    uuid = "550E8400-e29b-41d4-a716-446655440000"
    monitor = MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}]})
    with monitor:
        send_rows(monitor, row(uuid))
        ended(monitor, 1)
        assert why(monitor, uuid)["cause"] == "evaluated"
        assert json.loads(monitor.get(f"/api/v1/why?trace={uuid}"))["cause"] == "evaluated"
    assert why(monitor, uuid)["cause"] == "evaluated"
