"""Consistent probability sampling: the same trace, the same answer, and shares that come out right."""

from __future__ import annotations

import math
import random
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.consistent_sampling import (
    chosen,
    keep,
    lowest_kept,
    parse_threshold,
    randomness,
)

trace_ids = st.binary(min_size=16, max_size=16).filter(any)
rates = st.floats(0, 1)
hex14 = st.text("0123456789abcdef", min_size=14, max_size=14)


def threshold_of(probability: float) -> int:
    """The rejection threshold of a sampler upstream that keeps with `probability`, 2^-56 <= probability <= 1."""
    return (1 << 56) - round(probability * (1 << 56))


def format_threshold(threshold: int) -> str:
    """The `th` value that such a sampler writes."""
    return f"{threshold:014x}".rstrip("0") or "0"


def ids(count: int, seed: int = 7) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(16) for _ in range(count)]


def assert_share(kept: int, of: int, probability: float) -> None:
    """Within five standard deviations of the binomial distribution: wrong once in two million."""
    limit = 5 * math.sqrt(of * probability * (1 - probability))
    assert abs(kept - of * probability) <= limit, (kept, of * probability, limit)


class TestHead:
    @given(trace_ids, rates)
    def test_the_answer_is_the_same_on_every_call(self, trace_id: bytes, rate: float) -> None:
        assert keep(trace_id, "", rate) == keep(trace_id, "", rate)

    @given(trace_ids, st.one_of(rates, st.sampled_from([0.0, 1e-17, 0.5, 1 - 2**-53, 1.0])))
    def test_an_id_is_kept_from_the_lowest_one_on(self, trace_id: bytes, rate: float) -> None:
        assert (trace_id[-7:] >= lowest_kept(rate)) == keep(trace_id, "", rate)[0]
        edge = trace_id[:9] + lowest_kept(rate)[:7]
        assert (edge[-7:] >= lowest_kept(rate)) == keep(edge, "", rate)[0]

    @given(trace_ids, rates, rates, st.sampled_from(["", "ot=th:8", "ot=th:c;rv:fedcba98765432"]))
    def test_what_a_rate_keeps_every_greater_rate_keeps(
        self, trace_id: bytes, one: float, other: float, state: str
    ) -> None:
        low, high = sorted((one, other))
        assert not keep(trace_id, state, low)[0] or keep(trace_id, state, high)[0]

    @given(trace_ids)
    def test_nothing_is_kept_at_0_and_everything_at_1(self, trace_id: bytes) -> None:
        assert keep(trace_id, "", 0.0) == (False, 0.0)
        assert keep(trace_id, "", 1.0) == (True, 1.0)

    @pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
    def test_the_share_kept_is_the_rate(self, rate: float) -> None:
        traces = ids(50_000)
        assert_share(sum(keep(t, "", rate)[0] for t in traces), len(traces), rate)

    @pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
    @pytest.mark.parametrize("upstream", [0.5, 0.1])
    def test_the_probability_is_that_of_both_samplers_together_and_the_share_kept_is_that(
        self, rate: float, upstream: float
    ) -> None:
        state = f"ot=th:{format_threshold(threshold_of(upstream))}"
        traces = ids(100_000)
        arriving = [t for t in traces if randomness(t, state) >= threshold_of(upstream)]
        answers = [keep(t, state, rate) for t in arriving]
        assert all(p == pytest.approx(rate * upstream, rel=1e-12) for _, p in answers)
        assert_share(sum(kept for kept, _ in answers), len(traces), rate * upstream)

    def test_only_the_last_seven_bytes_of_the_id_decide(self) -> None:
        assert keep(b"\xff" * 9 + b"\x7f" + b"\xff" * 6, "", 0.5)[0] is False
        assert keep(b"\x00" * 9 + b"\x80" + b"\x00" * 6, "", 0.5)[0] is True

    def test_an_explicit_random_value_replaces_the_bits_of_the_id(self) -> None:
        assert keep(b"\xff" * 16, "ot=rv:00000000000001", 0.5) == (False, 0.5)
        assert keep(b"\x01" + b"\x00" * 15, "ot=rv:ffffffffffffff", 0.01)[0] is True

    def test_the_entry_is_found_among_those_of_other_vendors(self) -> None:
        state = "vendor=ot:1, ot=x:y;th:8;rv:ffffffffffffff ,zoo=th:f"
        assert keep(b"\x01" * 16, state, 0.5) == (True, 0.25)

    @pytest.mark.parametrize(
        "state",
        ["ot=th:", "ot=th:xyz", "ot=th:8000000000000000", "ot=TH:8", "ot", "=", ",,,", "not=th:8", "ot=th:8A", "\x00"],
    )
    def test_a_malformed_entry_counts_as_none(self, state: str) -> None:
        assert keep(b"\xff" * 16, state, 0.5) == (True, 0.5)

    @pytest.mark.parametrize("value", ["123", "0123456789abcde", "0123456789ABCD", "0123456789abcg", ""])
    def test_a_malformed_random_value_counts_as_none(self, value: str) -> None:
        assert randomness(b"\xff" * 16, f"ot=rv:{value}") == (1 << 56) - 1

    def test_a_threshold_above_the_randomness_counts_as_none(self) -> None:
        """Whoever sent this trace did not sample by its bits: with everything kept it must not be lost."""
        assert keep(b"\x01" + b"\x00" * 15, "ot=th:8", 1.0) == (True, 1.0)

    @given(st.text(), trace_ids, rates)
    def test_no_tracestate_raises(self, state: str, trace_id: bytes, rate: float) -> None:
        _, probability = keep(trace_id, f"ot={state}", rate)
        assert 0 <= probability <= 1

    def test_a_trace_without_tracestate_costs_about_a_microsecond(self) -> None:
        trace_id = ids(1)[0]
        assert min(timeit.repeat(lambda: keep(trace_id, "", 0.1), number=10_000, repeat=5)) / 10_000 < 10e-6


class TestThreshold:
    @given(st.integers(0, (1 << 56) - 1))
    def test_what_is_written_is_read_back(self, threshold: int) -> None:
        text = format_threshold(threshold)
        assert parse_threshold(text) == threshold
        assert text == "0" or not text.endswith("0")

    @given(hex14)
    def test_what_is_read_is_written_back_without_trailing_zeros(self, digits: str) -> None:
        threshold = parse_threshold(digits)
        assert threshold is not None
        assert format_threshold(threshold).ljust(14, "0") == digits

    @pytest.mark.parametrize(("probability", "text"), [(1.0, "0"), (0.5, "8"), (0.25, "c"), (0.1, "e6666666666666")])
    def test_known_probabilities_have_their_known_text(self, probability: float, text: str) -> None:
        assert format_threshold(threshold_of(probability)) == text


class TestKeyedDraw:
    @given(st.text(), st.text(), rates)
    def test_the_answer_is_the_same_on_every_call(self, trace_id: str, salt: str, probability: float) -> None:
        assert chosen(trace_id, salt, probability) == chosen(trace_id, salt, probability)

    @given(st.text(), st.text(), rates, rates)
    def test_what_is_chosen_at_one_probability_is_chosen_at_every_greater_one(
        self, trace_id: str, salt: str, one: float, other: float
    ) -> None:
        low, high = sorted((one, other))
        assert not chosen(trace_id, salt, low) or chosen(trace_id, salt, high)

    @given(st.text(), st.text())
    def test_nothing_is_chosen_at_0_and_everything_at_1(self, trace_id: str, salt: str) -> None:
        assert not chosen(trace_id, salt, 0.0)
        assert chosen(trace_id, salt, 1.0)

    @pytest.mark.parametrize("probability", [0.01, 0.2, 0.7])
    def test_the_share_chosen_is_the_probability(self, probability: float) -> None:
        traces = ids(20_000)
        assert_share(sum(chosen(t.hex(), "judge", probability) for t in traces), len(traces), probability)

    def test_it_does_not_depend_on_the_head_decision(self) -> None:
        """Reusing the same bits would choose all or nothing of what head sampling has kept."""
        kept = [t for t in ids(100_000) if keep(t, "", 0.1)[0]]
        assert_share(sum(chosen(t.hex(), "judge", 0.1) for t in kept), len(kept), 0.1)

    def test_two_salts_draw_independently(self) -> None:
        first = [t for t in ids(50_000) if chosen(t.hex(), "one", 0.2)]
        assert_share(sum(chosen(t.hex(), "two", 0.2) for t in first), len(first), 0.2)

    def test_a_salt_longer_than_a_hash_key_counts_to_its_end(self) -> None:
        traces = ids(2_000)
        first = [chosen(t.hex(), "x" * 70 + "a", 0.5) for t in traces]
        second = [chosen(t.hex(), "x" * 70 + "b", 0.5) for t in traces]
        assert first != second
