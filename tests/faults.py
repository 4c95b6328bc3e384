"""Every tested fault and attack, by number, and the figures that the tests reach: `python -m tests.faults`.

python -m tests.faults                          # run the tests of each row, measure a little, print the table
python -m tests.faults --only F1 F19 --kills 100 --seeds 10000
python -m tests.faults --only F2 --no-tests --busy 60       # SIGTERM while this many other processes compute
python -m tests.faults --long                   # an hour or more: the measurement for a release
python -m tests.faults --list                   # the table without running anything, as in docs/reliability.md
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests import simulation
from tests.support.control_group import ControlGroup
from tests.support.injections import Suite
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.paths import ROOT
from tests.support.tools import wait_until

_MIB: Final = 1024**2
_MEMORY: Final = 384 * _MIB


class Asked(NamedTuple):
    """How much to measure."""

    kills: int
    stops: int
    seeds: int
    pressed: int
    busy: int


class Row(NamedTuple):
    """A rule, the tests that show it (`file::function`, below `tests`) and an additional measurement."""

    rule: str
    tests: tuple[str, ...]
    measure: Callable[[Asked], str] | None = None


# -- measurements


def kills(asked: Asked) -> str:
    """Kill a monitor under load without warning, this many times."""
    return _lives(asked.kills, signal.SIGKILL, asked.busy)


def stops(asked: Asked) -> str:
    """Stop it in order, this many times."""
    return _lives(asked.stops, signal.SIGTERM, asked.busy)


def histories(asked: Asked) -> str:
    """Simulate this many histories."""
    steps = Counter[str]()
    for seed in range(asked.seeds):
        steps += simulation.simulate(seed).steps
    return f"{asked.seeds} histories, {steps['killed']} ends of a process: nothing lost, no result twice"


def injections(asked: Asked) -> str:
    """Count the attacks that the detector finds, and those that change what the judge is asked."""
    del asked
    return str(Suite().run())


@contextmanager
def _beside(number: int) -> Iterator[None]:
    """Have this many other processes compute, each in its own session: Linux divides processors among sessions."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        time.sleep(2 if others else 0)  # until all have started
        yield
    finally:
        for other in others:
            other.kill()
        for other in others:
            other.wait()


def pressed(asked: Asked) -> str:
    """Offer more than a monitor can take for some seconds, under the system's memory limit and its own."""
    answers = Counter[int]()
    config = {
        "limits": {"memory": f"{_MEMORY}B"},
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "response_length"}],
        "alerts": [],
    }
    with tempfile.TemporaryDirectory() as folder, ControlGroup(_MEMORY) as group:
        monitor = MonitorProcess(Path(folder), config)
        monitor.around = group.around
        over = threading.Event()
        senders = [threading.Thread(target=_press, args=(monitor, who, over, answers)) for who in range(8)]
        with monitor:
            for sender in senders:
                sender.start()
            time.sleep(asked.pressed)
            over.set()
            for sender in senders:
                sender.join()
            assert monitor.process is not None
            assert monitor.process.poll() is None, f"the monitor has ended: {monitor.log.read_text()[-2000:]}"
            most = monitor.resident("VmHWM") + sum(_highest(one) for one in monitor.children())
            wait_until(lambda: not monitor.total("ragmonitor_traces_pending"), 300, "the end of what was received")
            assert_balanced(monitor.samples())
            killed = group.killed()
            monitor.terminate(30)
    assert set(answers) <= {200, 503}, answers
    by = "in a control group" if group.made else "by its own limit alone (this machine allows no control group)"
    said = ", ".join(f"{status}: {number}" for status, number in sorted(answers.items()))
    return (
        f"{asked.pressed} s of more than it takes under {_MEMORY // _MIB} MiB {by}: at most {most // _MIB} MiB "
        f"resident, {killed} processes ended for memory, answers {said}, ledger balanced"
    )


def _press(monitor: MonitorProcess, who: int, over: threading.Event, answers: Counter[int]) -> None:
    """Send rows of 20 kB, fifty at a time, without pauses or retries."""
    text = "This sentence stands in the document that was found. " * 380
    for number in itertools.count():
        if over.is_set():
            return
        names = [f"{who}-{number}-{part}" for part in range(50)]
        rows = [{"request_id": one, "question": "What?", "contexts": [one + text], "answer": "That."} for one in names]
        try:
            answers[monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json")] += 1
        except OSError:  # it was refused before it was read
            answers[503] += 1


def _highest(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _lives(number: int, how: signal.Signals, busy: int) -> str:
    acknowledged: set[str] = set()
    began, ending, listening = time.monotonic(), [], []
    with tempfile.TemporaryDirectory() as folder:
        monitor = MonitorProcess(Path(folder), {"evaluators": [{"type": "response_length"}], "alerts": []})
        monitor.around = lambda command: ["setsid", *command]  # like a service or a container: in its own session
        over = threading.Event()
        senders = [threading.Thread(target=_send, args=(monitor, who, over, acknowledged)) for who in range(4)]
        draw = random.Random(number)
        monitor.start()
        for sender in senders:
            sender.start()
        for _ in range(number):
            time.sleep(draw.uniform(0.2, 2))
            assert monitor.process is not None
            with _beside(busy):
                at = time.monotonic()
                monitor.process.send_signal(how)
                monitor.process.wait(120)
                ending.append(time.monotonic() - at)
            at = time.monotonic()
            monitor.start()
            listening.append(time.monotonic() - at)
        over.set()
        for sender in senders:
            sender.join()
        wait_until(lambda: not monitor.total("ragmonitor_spool_records"), 120, "the end of what was received")
        wait_until(lambda: not monitor.total("ragmonitor_traces_pending"), 120, "the end of what was received")
        assert_balanced(monitor.samples())
        monitor.terminate(30)
        with sqlite3.connect(Path(folder) / "state" / "history.db") as database:
            judged = Counter(row[0] for row in database.execute("select trace_id from results"))
    lost = len(acknowledged - set(judged))
    twice = sum(count > 1 for count in judged.values())
    rate = len(acknowledged) / (time.monotonic() - began)
    said = (
        f"{number} times {how.name}, {len(acknowledged)} rows acknowledged ({rate:.0f}/s): {lost} lost, {twice} twice"
    )
    beside = f" beside {busy} processes that compute" if busy else ""
    return f"{said}; ended in {max(ending):.1f} s at most{beside}, ready again in {max(listening):.1f} s at most"


def _send(monitor: MonitorProcess, who: int, over: threading.Event, acknowledged: set[str]) -> None:
    """Send ten rows at a time, each until it is acknowledged, as an exporter does."""
    for number in itertools.count():
        names = [f"{who}-{number}-{part}" for part in range(10)]
        rows = [{"request_id": one, "question": "What?", "contexts": ["That."], "answer": "That."} for one in names]
        while not over.is_set():
            try:
                if monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200:
                    acknowledged.update(names)
                    break
            except OSError:
                pass
            time.sleep(0.05)
        if over.is_set():
            return


# -- the rows

_SPOOL: Final = "integration/test_spool_crash.py::"
_OTLP: Final = "integration/test_otlp_bombs.py::"
_JUDGE: Final = "integration/test_judge_http.py::"
_KAFKA: Final = "integration/test_kafka_source.py::"
ROWS: Final[dict[str, Row]] = {
    "F1": Row(
        "SIGKILL at any time: what was acknowledged is evaluated, once",
        (
            "e2e/test_lifecycle.py::test_sigkill_at_any_moment_loses_nothing_that_was_acknowledged",
            "integration/test_cases_http.py::test_every_row_that_was_answered_for_is_judged_after_kill_9",
            _SPOOL + "test_every_acknowledged_record_survives_kill_9",
        ),
        kills,
    ),
    "F2": Row(
        "SIGTERM: nothing is lost, the process ends within seconds",
        (
            "e2e/test_lifecycle.py::test_sigterm_loses_nothing",
            "integration/test_cases_http.py::test_what_waits_at_sigterm_is_judged_now_or_after_the_restart",
        ),
        stops,
    ),
    "F3": Row(
        "An end between any two durable steps: nothing is lost, at most one repetition with the same id",
        (
            "e2e/test_failpoints.py::test_a_monitor_that_ends_between_two_durable_steps",
            "e2e/test_trouble.py::test_what_waits_for_the_judge_when_the_monitor_stops",
            "unit/storage/spool/test_spool.py::test_an_append_cancelled_in_the_moment_of_its_commit",
        ),
    ),
    "F4": Row(
        "A disk that is full, fails or is read-only: data is refused, never lost, and accepted again later",
        (
            _SPOOL + "test_a_full_disk_refuses_loses_nothing_and_recovers",
            _SPOOL + "test_a_write_that_fails_is_overloaded_and_the_next_good_one_works",
            _SPOOL + "test_it_starts_on_a_disk_that_takes_nothing_and_works_when_it_does",
            "e2e/test_trouble.py::test_a_full_spool_is_answered_with_503_and_taken_up_again",
            "e2e/test_full_disk.py::",
        ),
    ),
    "F5": Row(
        "Damaged files: the monitor starts, loses only what was hit, and counts it",
        (
            _SPOOL + "test_flipped_bytes_anywhere_cost_only_the_records_they_hit",
            _SPOOL + "test_a_truncated_file",
            _SPOOL + "test_bytes_flipped_in_the_log",
        ),
    ),
    "F6": Row(
        "More load than can be taken under a memory limit: refused, not ended for memory (also in a control group:"
        " `python -m benchmarks.overload`, not in CI)",
        ("e2e/test_memory_limit.py::",),
        pressed,
    ),
    "F7": Row(
        "A huge trace among small ones: the small ones are unaffected, the huge one is marked",
        (
            "unit/pipeline/assembly/test_assembly.py::test_a_huge_trace_does_not_touch_the_small_ones",
            "e2e/test_requests.py::test_a_trace_of_thousands_of_requests_is_bounded_and_none_is_lost",
        ),
    ),
    "F8": Row(
        "Spans split, late, repeated, in any order: the same reading",
        (
            "property/test_delivery.py::",
            "unit/pipeline/assembly/test_assembly.py::test_any_split_order_and_repetition_gives_the_same_trace_once",
        ),
    ),
    "F9": Row(
        "Clocks that jump: budgets, timers and alerts keep their pace",
        (
            "e2e/test_clock_jumps.py::",
            "unit/judge/test_budget.py::test_a_jump_of_the_wall_clock",
            "unit/alerts/test_engine.py::test_a_clock_set_back",
        ),
    ),
    "F10": Row(
        "Every fault of a judge: unscored with its own reason, never a score",
        (_JUDGE + "test_every_fault_of_a_provider", _JUDGE + "test_a_mix_of_faults"),
    ),
    "F11": Row(
        "A judge that is down: missed evaluations are counted, and it is probed at long intervals",
        ("unit/judge/test_client.py::test_while_the_model_is_down", "unit/judge/test_pause.py::"),
    ),
    "F12": Row(
        "Budgets hold with many callers",
        (_JUDGE + "test_with_thirty_two_callers", "unit/judge/test_budget.py::"),
    ),
    "F13": Row(
        "Receivers of alerts and results that are down or slow, or were being notified when the monitor ended",
        (
            "unit/alerts/test_notify.py::",
            "unit/alerts/notify/test_delivery_state.py::",
            "unit/alerts/notify/test_known.py::",
            "e2e/test_notify.py::test_an_alert_that_outlives_restarts",
            "integration/test_alertmanager.py::",
            "e2e/test_sinks.py::",
        ),
    ),
    "F14": Row(
        "Kafka: killed members, rebalances, a broker that is down: nothing is lost",
        ("e2e/test_kafka_fleet.py::", _KAFKA + "test_a_killed_monitor_whose_disk_is_gone"),
    ),
    "F15": Row(
        "Kafka: unreadable messages go to the dead letters, the others are processed",
        (_KAFKA + "test_what_cannot_be_read_is_kept", _KAFKA + "test_a_batch_whose_checksum_fails"),
    ),
    "F16": Row(
        "Slow and broken connections are closed, and do not affect other senders",
        (
            "integration/test_bad_network.py::",
            "integration/test_otlp_http.py::test_30_",
            "integration/test_otlp_grpc.py::test_30_",
        ),
    ),
    "F17": Row(
        "Overload: the answer makes an SDK retry, and nothing is lost",
        ("integration/test_sdk_python.py::test_11_26_", "unit/transport/otlp/test_receiver.py::test_11_26_"),
    ),
    "F18": Row("Hours under load: memory, files and threads do not grow (`python -m tests.soak`, not in CI)", ()),
    "F19": Row(
        "The pipeline in virtual time with drawn faults: nothing lost, nothing twice; a seed repeats its history",
        ("property/test_simulation.py::",),
        histories,
    ),
    "F20": Row(
        "The rules of OTLP for receivers, with real SDKs",
        (
            "integration/test_otlp_http.py::",
            "integration/test_otlp_grpc.py::",
            "integration/test_sdk_python.py::",
            "integration/test_sdk_javascript.py::",
        ),
    ),
    "S1": Row(
        "An address beyond this machine needs authentication",
        ("unit/transport/http/test_listener.py::test_an_address_beyond_this_machine",),
    ),
    "S2": Row("By default only 127.0.0.1 is listened on", ("unit/config/test_config.py::test_the_defaults_listen_on",)),
    "S3": Row(
        "Without the token everything but health is 401",
        ("integration/test_otlp_http.py::test_14_31_", "unit/telemetry/test_site.py::"),
    ),
    "S4": Row(
        "Tokens and certificates: compared in constant time, rotated, wrong ones refused",
        ("unit/transport/http/test_auth.py::", "integration/test_otlp_tls.py::"),
    ),
    "S5": Row("Bombs of compression: refused in bounded memory", (_OTLP + "test_s5_",)),
    "S6": Row(
        "Bombs of spans, resources and scopes: refused before they are decoded",
        (_OTLP + "test_s6_", "e2e/test_memory_limit.py::test_millions_of_attributes_of_a_resource"),
    ),
    "S7": Row(
        "Absurd content: refused or read in linear time",
        (_OTLP + "test_s7_", "unit/transport/otlp/test_limits.py::", "e2e/test_hostile_texts.py::"),
    ),
    "S8": Row("A thousand half-open connections do not keep other senders out", (_OTLP + "test_s8_",)),
    "S9": Row(
        "No label from outside adds an unbounded number of series or breaks a scrape",
        (
            "integration/test_strangers.py::test_d6_hostile_names_of_services",
            "unit/telemetry/test_telemetry.py::test_a_label_from_outside",
            "unit/telemetry/test_telemetry.py::test_no_text_in_a_label_breaks_a_scrape",
        ),
    ),
    "S10": Row(
        "No texts and no secrets in logs",
        (
            _JUDGE + "test_neither_prompts_nor_secrets",
            "e2e/test_lifecycle.py::test_no_text_of_a_case_and_no_secret_stands_in_the_log",
        ),
    ),
    "S11": Row(
        "No error message repeats a secret",
        ("unit/config/test_config.py::test_no_error_repeats", "integration/test_run_command.py::test_d13_"),
    ),
    "S12": Row(
        "Personal data is masked before judge and sinks",
        ("unit/privacy/redaction/test_redaction.py::", "integration/test_redaction.py::"),
    ),
    "S13": Row(
        "Outgoing calls: only to configured addresses, no redirects, no metadata services",
        (
            "integration/test_run_command.py::test_d11_",
            "e2e/test_memory_limit.py::test_a_judge_that_redirects",
            "unit/judge/test_settings.py::",
            "unit/transport/http/test_client.py::",
            "unit/transport/http/test_pinned.py::",
            _JUDGE + "test_a_redirect_is_not_followed",
            "unit/alerts/test_notify.py::",
            "unit/alerts/notify/test_apprise.py::test_s13_nothing_is_sent_where_the_name_leads_to_a_metadata_address",
            "integration/test_own_telemetry.py::test_s13_nothing_is_sent_where_the_name_leads_to_a_metadata_address",
        ),
    ),
    "S14": Row(
        "Instructions in the material: found, kept between the fences, never read as a verdict",
        ("property/test_injections.py::", "unit/judge/test_codec_fencing.py::"),
        injections,
    ),
    "S15": Row(
        "Master keys and empty answers are decided by rule",
        ("contract/test_evaluators.py::test_a_response_without_content_is_decided_by_rule",),
    ),
    "S16": Row(
        "The monitor never judges its own telemetry",
        (
            "integration/test_own_telemetry.py::test_a_monitor_that_sends_to_itself",
            "e2e/test_lifecycle.py::test_our_own_telemetry_is_counted_and_never_judged",
        ),
    ),
    "S17": Row(
        "Dependencies: pinned by hash, nothing that runs at the start of Python, audited, in a bill of materials",
        ("unit/test_supply_chain.py::", "integration/test_package.py::test_the_wheel_and_the_source_distribution"),
    ),
    "S18": Row("No network is needed to start", (_JUDGE + "test_litellm_is_imported_late",)),
    "S19": Row("The container: no root, no shell, read-only", ("integration/test_deploy_image.py::",)),
    "S20": Row(
        "Bytes and characters changed at random: refused or read, never an internal error",
        ("property/test_bytes.py::", "property/test_dialects.py::", "property/test_corpus.py::"),
    ),
    "S21": Row(
        "Files: readable by their owner alone, no link is followed",
        (
            "unit/storage/spool/test_spool.py::test_only_the_owner",
            "unit/storage/spool/test_spool.py::test_a_planted_link",
        ),
    ),
    "S22": Row("No pickle, no eval, no unsafe YAML", ("unit/test_unsafe_calls.py::test_s22_",)),
}


def exists(test: str) -> bool:
    """Return whether the test exists: a file, or a function in it whose name begins like this."""
    file, _, name = test.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and f"def {name or 'test_'}" in path.read_text()


def table(reached: dict[str, str] | None = None, only: Collection[str] = tuple(ROWS)) -> str:
    """Return the table of the rows `only` as Markdown; `reached` by row."""
    heads = ["row", "rule", *(["reached"] if reached is not None else []), "tests"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for number in only:
        row = ROWS[number]
        files = ", ".join(sorted({f"`{one.partition('::')[0]}`" for one in row.tests}))
        middle = [reached.get(number, "")] if reached is not None else []
        lines.append(f"| {' | '.join([number, row.rule, *middle, files])} |")
    return "\n".join(lines)


def run(numbers: Iterable[str]) -> dict[str, str]:
    """Run the tests of these rows, each file once, and return how many of each row have passed."""
    wanted = {number: [one for one in ROWS[number].tests if exists(one)] for number in numbers}
    files = sorted({one.partition("::")[0] for several in wanted.values() for one in several})
    if not files:  # without a file, all tests would run
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *(f"tests/{file}" for file in files)]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        outcomes = [_outcome(one) for one in ET.parse(report).iter("testcase")]
    found = {}
    for number, several in wanted.items():
        if not several:
            continue
        mine = [
            outcome
            for file, name, outcome in outcomes
            if any(file == one.partition("::")[0] and name.startswith(one.partition("::")[2]) for one in several)
        ]
        counts = Counter(mine)
        rest = "".join(f", {counts[what]} {what}" for what in ("failed", "skipped") if counts[what])
        found[number] = f"{counts['passed']} of {len(mine)} tests pass{rest}"
    return found


def _outcome(one: ET.Element) -> tuple[str, str, str]:
    words = one.get("classname", "").split(".")
    at = next((number for number, word in enumerate(words) if word.startswith("test_")), len(words) - 1)
    failed = one.find("failure") is not None or one.find("error") is not None
    outcome = "failed" if failed else "skipped" if one.find("skipped") is not None else "passed"
    return "/".join(words[1 : at + 1]) + ".py", one.get("name", ""), outcome


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the table without running anything")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--no-tests", action="store_true", help="measure only")
    parser.add_argument(
        "--long", action="store_true", help="100 kills, 50 stops, 10,000 histories, two minutes of load"
    )
    parser.add_argument("--kills", type=int, help="SIGKILLs under load (5)")
    parser.add_argument("--stops", type=int, help="SIGTERMs under load (5)")
    parser.add_argument("--seeds", type=int, help="simulated histories (100)")
    parser.add_argument("--pressed", type=int, help="seconds of more load than it takes under a memory limit (10)")
    parser.add_argument("--busy", type=int, help="other processes that compute while the monitor ends (0)")
    asked = parser.parse_args(arguments)
    if asked.list:
        print(table())
        return 0
    small, large = Asked(5, 5, 100, 10, 0), Asked(100, 50, 10_000, 120, 0)
    by_default = large if asked.long else small
    much = Asked(*(getattr(asked, name) or getattr(by_default, name) for name in Asked._fields))
    reached = {} if asked.no_tests else run(asked.only)
    for number in asked.only:
        if (measure := ROWS[number].measure) is not None:
            reached[number] = "; ".join(filter(None, [reached.get(number, ""), measure(much)]))
            print(f"{number}: {reached[number]}", file=sys.stderr)
    print(table(reached, asked.only))
    return int(any("failed" in said for said in reached.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
