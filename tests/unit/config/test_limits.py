"""One memory limit, found in control groups of both versions, and the shares that follow from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.config import limits
from monitor.config.model import Config
from monitor.errors import ConfigError
from monitor.sources.otlp_http import OtlpHttp
from tests.support.paths import ROOT

MIB = 1024**2
GROUPS = {
    "version 2": ("0::/\n", {"memory.max": "536870912\n"}, 512 * MIB),
    "version 2, throttled from": ("0::/\n", {"memory.max": "536870912\n", "memory.high": "314572800\n"}, 300 * MIB),
    "version 2, no limit": ("0::/\n", {"memory.max": "max\n"}, None),
    "version 2, nested: the narrowest": (
        "0::/a/b\n",
        {"a/b/memory.max": "max\n", "a/memory.max": "314572800\n", "memory.max": "524288000\n"},
        300 * MIB,
    ),
    "version 1": ("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "536870912\n"}, 512 * MIB),
    "version 1, in a container": (
        "4:cpu,memory:/docker/0123\n",
        {"memory/memory.limit_in_bytes": "536870912\n"},
        512 * MIB,
    ),
    "version 1, no limit": ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
    "outside of the namespace": ("0::/../other\n", {"memory.max": "314572800\n"}, 300 * MIB),
    "damaged": ("nonsense\n0::/\n", {"memory.max": "?"}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_limit_is_that_of_the_control_group(tmp_path: Path, name: str) -> None:
    groups, files, expected = GROUPS[name]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for path, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.auto_limit(tmp_path) == (expected or min(whole // 4, 2 * 1024**3))


def test_without_control_groups_it_is_a_share_of_the_machine(tmp_path: Path) -> None:
    assert 0 < limits.auto_limit(tmp_path) <= 2 * 1024**3


def test_the_shares_are_all_of_the_data_and_no_more() -> None:
    assert sum(share.sixteenths for share in limits.SHARES.values()) == 16
    plan = limits.plan(Config.model_validate({"limits": {"memory": "1GiB"}, "scoring": {"processes": 2}}))
    data = plan.requests * 3 + plan.open_traces + plan.in_hand * 2 + plan.closed_traces
    assert data < 1024 * MIB - limits.PROCESS - 2 * limits.WORKER
    assert plan.limit == 1024 * MIB


def test_what_is_not_set_follows_from_the_limit_and_what_is_set_wins() -> None:
    given = {
        "limits": {"memory": "512MiB"},
        "assembly": {"max_trace_bytes": "1MiB"},
        "sources": [{"type": "otlp_grpc"}, {"type": "otlp_http", "max_in_flight_bytes": "40MiB"}],
    }
    config = Config.model_validate(given)
    plan = limits.plan(config)
    made = limits.within(config, plan)
    assert made.assembly.max_open_bytes == plan.open_traces < 256 * MIB
    assert made.assembly.max_closed_bytes == plan.closed_traces
    assert made.assembly.max_trace_bytes == MIB
    grpc, http = made.sources
    assert isinstance(http, OtlpHttp)
    assert http.max_in_flight_bytes == 40 * MIB
    assert http.max_body_bytes == 20 * MIB
    assert grpc.max_in_flight_bytes == plan.requests // 2
    assert grpc.max_body_bytes == min(20 * MIB, plan.requests // 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": {"memory": "100MiB"}}, "limits.memory: 100MiB is too small: the monitor itself takes"),
        (
            {"limits": {"memory": "512MiB"}, "assembly": {"max_open_bytes": "4GiB"}},
            "limits.memory: 512MiB is less than assembly.max_open_bytes 4GiB",
        ),
        (
            {
                "limits": {"memory": "512MiB"},
                "assembly": {"max_open_bytes": "300MiB"},
                "sources": [{"type": "otlp_http", "max_in_flight_bytes": "300MiB"}],
            },
            "is less than assembly.max_open_bytes 300MiB, sources.0..max_in_flight_bytes 300MiB",
        ),
    ],
)
def test_options_beyond_the_limit_are_refused_in_words(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        limits.plan(Config.model_validate(given))


def test_the_page_states_the_table_of_shares() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    for name, share in limits.SHARES.items():
        copies = "" if share.copies == 1 else f"; counted {share.copies} times"
        assert f"| {name} | {share.sixteenths}/16{copies} | {share.holds} |" in page
    for size in (limits.PROCESS, limits.WORKER, limits.JUDGE):
        assert f"{size // MIB} MiB" in page
