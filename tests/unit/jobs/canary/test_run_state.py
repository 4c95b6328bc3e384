"""What the canary remembers across restarts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import MonitorError
from monitor.jobs.canary import run as state
from monitor.jobs.canary.run import CanaryReference, CanaryState
from monitor.model.canary import CanaryRun
from monitor.statistics.reference import WINDOW, Reference, Tally
from tests.support.examples import examples

counts = st.integers(0, 100)
cases = st.dictionaries(st.text(min_size=1, max_size=4), st.builds(Tally, counts, counts), max_size=4)
times = st.floats(0, 2e9)
runs = st.builds(
    CanaryRun,
    at=times,
    evaluator=st.just("any"),
    version=st.text(max_size=8),
    same=counts,
    stricter=counts,
    milder=counts,
    tolerance=st.floats(0, 1),
)


def run(at: float) -> CanaryRun:
    return CanaryRun(at, "any", "1", 20, 3, 1, 0.05)


@given(
    times, st.lists(st.tuples(st.text(min_size=1, max_size=4), counts, cases, st.lists(runs, max_size=3)), max_size=3)
)
@examples(30)
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    last: float,
    known: list[tuple[str, int, dict[str, Tally], list[CanaryRun]]],
) -> None:
    path = tmp_path_factory.mktemp("state") / "canary.json"
    written = CanaryState()
    written.last_run = last
    for key, number, tallies, ran in known:
        one = written.of("any", key)
        one.reference, one.runs = Reference(number, tallies), ran
    state.write(path, written)
    read = state.read(path)
    assert read.last_run == last
    assert list(read.items()) == list(written.items())


def test_the_file_is_for_its_owner_only_and_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "canary.json"
    state.write(path, CanaryState())
    before = path.stat().st_ino
    state.write(path, CanaryState())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before
    assert [one.name for one in tmp_path.iterdir()] == ["canary.json"]


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert list(state.read(tmp_path / "canary.json").items()) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"last_run": "NaN", "known": []}', '{"last_run": 1, "known": [{}]}']
)
def test_a_damaged_file_is_told(content: str, tmp_path: Path) -> None:
    path = tmp_path / "canary.json"
    path.write_text(content)
    with pytest.raises(MonitorError, match=r"canary\.json is damaged"):
        state.read(path)


def test_runs_older_than_the_window_are_forgotten() -> None:
    known = CanaryReference()
    for at in (0.0, 10.0, WINDOW, WINDOW + 5):
        known.ran(run(at))
    assert [one.at for one in known.runs] == [10.0, WINDOW, WINDOW + 5]


def test_of_each_evaluator_the_five_references_used_last_are_kept() -> None:
    known = CanaryState()
    for number in range(8):
        known.of("any", str(number))
        known.of("any", "0")
        known.of("other", str(number))
    assert [key for (name, key), _ in known.items() if name == "any"] == ["4", "5", "6", "7", "0"]
    assert [key for (name, key), _ in known.items() if name == "other"] == ["3", "4", "5", "6", "7"]
