"""What a judge says of the canary set while nothing is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.rates import Sums, estimate
from monitor.statistics.reference import RUNS, Reference, Tally, Z, surely_moved

runs = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.booleans()), max_size=12)


def learned(runs: list[dict[str, bool]]) -> Reference:
    reference = Reference()
    for one in runs:
        reference = reference.with_run(one)
    return reference


@given(runs)
def test_the_verdict_on_a_case_is_that_of_the_majority_where_most_runs_have_one(runs: list[dict[str, bool]]) -> None:
    reference = learned(runs)
    for case in "abcdef":
        said = [one[case] for one in runs if case in one]
        most = 2 * len(said) > len(runs) and 2 * sum(said) != len(said)
        assert reference.verdict(case) == (2 * sum(said) > len(said) if most else None)


@given(runs)
def test_noise_is_the_share_of_verdicts_against_the_majority_and_does_not_depend_on_the_order(
    runs: list[dict[str, bool]],
) -> None:
    reference = learned(runs)
    said = {case: [one[case] for one in runs if case in one] for case in "abcdef"}
    against = sum(min(sum(one), len(one) - sum(one)) for one in said.values())
    every = sum(len(one) for one in said.values())
    assert reference.noise == (against / every if every else 0)
    assert 0 <= reference.noise <= 0.5
    assert learned(runs[::-1]).noise == reference.noise


def test_a_reference_is_complete_after_so_many_runs() -> None:
    reference = Reference()
    for _ in range(RUNS):
        assert not reference.complete
        reference = reference.with_run({"a": True, "b": False})
    assert reference.complete
    assert reference.cases == {"a": Tally(0, RUNS), "b": Tally(RUNS, 0)}


@given(st.integers(0, 72), st.integers(0, 72))
def test_the_limit_is_that_of_any_other_rate(moved: int, more: int) -> None:
    judged = moved + more
    found = estimate(Sums.counted(judged, moved), Z)
    assert surely_moved(moved, judged) == (found.lower if found else 0.0)


@pytest.mark.parametrize(
    ("moving", "runs", "shows"),
    [(5, 2, True), (4, 2, True), (3, 2, False), (3, 3, True), (2, 3, False), (24, 2, True)],
)
def test_that_four_of_24_cases_have_moved_shows_after_two_runs_and_that_three_have_after_three(
    moving: int, runs: int, shows: bool
) -> None:
    assert (surely_moved(moving * runs, 24 * runs) > 0.05) is shows
