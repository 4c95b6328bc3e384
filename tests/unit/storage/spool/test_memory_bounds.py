"""What came lately is known, in as much memory as was given, whatever comes."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.storage.spool.memory import RecentIds, RecentPairs

MIB = 1024**2


@given(st.lists(st.tuples(st.sampled_from(["first", "forget"]), st.integers(0, 30)), max_size=200))
def test_within_its_limit_it_is_a_set(steps):
    ids, known = RecentIds(MIB), set()
    for what, number in steps:
        key = f"id-{number}"
        if what == "first":
            assert ids.first(key) is (key not in known)
            known.add(key)
        else:
            ids.forget(key)
            known.discard(key)
    assert all((f"id-{number}" in ids) is (f"id-{number}" in known) for number in range(31))


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1), st.floats(0, 1)), max_size=200))
def test_within_their_limit_pairs_are_a_dictionary(steps):
    pairs, known = RecentPairs(MIB), {}
    for number, one, other in steps:
        pairs.put(b"id-%d" % number, one, other)
        known[number] = (one, other)
    assert all(pairs.get(b"id-%d" % number) == known.get(number) for number in range(31))


@pytest.mark.parametrize("most", [1, 3, 100, 10_000])
def test_the_newest_are_known_and_at_most_twice_as_many_as_asked_for(most):
    ids = RecentIds(MIB, most)
    keys = [f"id-{number}" for number in range(5 * most)]
    assert all(map(ids.first, keys))
    assert ids.limit == most
    assert all(key in ids for key in keys[-most:])
    assert sum(key in ids for key in keys) <= 2 * most


def test_what_is_seen_again_stays_known():
    ids = RecentIds(MIB, 10)
    ids.first("kept")
    for number in range(100):
        ids.first(f"id-{number}")
        assert not ids.first("kept")


@pytest.mark.parametrize("make", [RecentIds, RecentPairs])
@pytest.mark.parametrize("size", [1, 64 * 1024, MIB])
def test_its_memory_has_a_bound_however_many_ids_come_and_however_long_they_are(make, size):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make(size)
        for number in range(30_000):
            key = f"{number:0{2_000 if number % 100 == 0 else 16}d}"
            if isinstance(kept, RecentIds):
                kept.first(key)
            else:
                kept.put(key, 1.0, 2.0)
        tables = sum(part.nbytes for one in (kept._new, kept._old) for part in (one.keys, one.numbers))
        traced = tracemalloc.get_traced_memory()[0] - before  # without the tables, which are mapped
        assert tables + traced <= size + 16 * 1024
    finally:
        tracemalloc.stop()
