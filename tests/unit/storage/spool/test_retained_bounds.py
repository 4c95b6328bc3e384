"""Processed deliveries, counted to the byte and kept to the second."""

from __future__ import annotations

import base64
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.storage.spool import SpoolRecord, retained
from monitor.storage.spool.retained import Retained, forms_of
from monitor.storage.spool.table import encode
from tests.support.runtime import runtime, total

BYTES, DROPPED = "ragmonitor_spool_retained_bytes", "ragmonitor_spool_retained_dropped_total"


def row(number: int, payload: bytes = b"payload", meta: bytes = b"") -> tuple[object, ...]:
    return encode(number, SpoolRecord("otlp_http", "traces", 1000.0 + number, payload, meta))


def size_of(one: tuple[object, ...]) -> int:
    _, head, meta, body, _ = one
    return len(head) + len(meta) + len(body) + 256


class Bench:
    def __init__(self, folder: Path, *, at_most: int = 10**6, keep: float = 60.0) -> None:
        self.path, self.at_most, self.keep = folder / retained.NAME, at_most, keep
        self.clock = ManualClock()
        self.runtime = runtime(self.clock)
        self.restart()

    def restart(self) -> None:
        lent = self.runtime
        self.kept = Retained(
            self.path,
            keep=self.keep,
            at_most=self.at_most,
            clock=self.clock,
            metrics=lent.metrics,
            events=lent.events,
        )

    def value(self, name: str) -> float:
        return total(self.runtime.metrics, name)

    def left(self) -> list[int]:
        return [int(one.received_at) - 1000 for one in retained.read(self.path, 0.0)]


def test_each_delivery_counts_with_its_parts_and_what_a_row_takes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    rows = [row(1, b"a" * 10), row(2, bytes(range(256)), b"{}")]
    bench.kept.take(rows)
    assert bench.value(BYTES) == sum(map(size_of, rows))
    bench.kept.take(rows)
    assert bench.value(BYTES) == sum(map(size_of, rows))
    assert bench.value(DROPPED) == 0


def test_bytes_are_counted_on_over_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kept.take([row(1)])
    bench.kept.close()
    bench.restart()
    bench.kept.take([row(2)])
    assert bench.value(BYTES) == size_of(row(1)) + size_of(row(2))


def test_what_just_fits_stays_and_a_byte_less_of_room_costs_the_oldest(tmp_path: Path) -> None:
    rows = [row(number) for number in (1, 2, 3)]
    whole = sum(map(size_of, rows))
    for name, at_most, left in (("fits", whole, [1, 2, 3]), ("short", whole - 1, [2, 3])):
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name, at_most=at_most)
        bench.kept.take(rows)
        assert bench.left() == left
        assert bench.value(DROPPED) == 3 - len(left)
        assert bench.value(BYTES) == sum(size_of(one) for one in rows[3 - len(left) :])


def test_the_bytes_of_what_makes_room_can_be_used_again(tmp_path: Path) -> None:
    large, small = row(1, random.Random(1).randbytes(3000)), [row(number) for number in range(2, 6)]
    bench = Bench(tmp_path, at_most=size_of(large) + size_of(small[0]))
    bench.kept.take([large])
    bench.kept.take(small)
    assert bench.left() == [2, 3, 4, 5]
    assert (bench.value(BYTES), bench.value(DROPPED)) == (sum(map(size_of, small)), 1)


def test_where_not_even_one_fits_nothing_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, at_most=0)
    bench.kept.take([row(1), row(2)])
    assert (bench.left(), bench.value(BYTES), bench.value(DROPPED)) == ([], 0, 2)


def test_what_is_just_as_old_as_it_may_be_stays_and_its_bytes_go_with_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kept.take([row(1)])
    bench.clock.advance(60)
    bench.kept.take([row(2)])
    assert bench.left() == [1, 2]
    bench.clock.advance(1)
    bench.kept.take([row(3)])
    assert bench.left() == [2, 3]
    assert (bench.value(BYTES), bench.value(DROPPED)) == (size_of(row(2)) + size_of(row(3)), 0)


def test_rows_that_are_none_are_counted_as_dropped_and_the_next_are_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kept.take([(1, b"no json", b"", b"", 0), row(2)])
    assert bench.value(DROPPED) == 2
    bench.kept.take([row(3)])
    assert bench.left() == [3]
    assert bench.value(BYTES) == size_of(row(3))


def test_more_than_one_batch_is_read_in_order_from_its_first_second(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kept.take([row(number) for number in range(150)])
    assert bench.left() == list(range(150))
    assert [one.received_at for one in retained.read(bench.path, 1148.0)] == [1148.0, 1149.0]


def test_a_delivery_goes_with_any_of_the_ids_that_are_in_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    trace = "5b8efff798038103d269b633813fc60c"
    payloads = [bytes.fromhex(trace), trace.encode(), trace.upper().encode(), b"user: b\\u00f6b", b"another"]
    bench.kept.take([row(number, b"<" + one + b">") for number, one in enumerate(payloads)])
    bench.kept.close()
    assert retained.erase(bench.path, {trace, "böb", ""}, dry_run=True) == {"records": 4}
    assert bench.left() == [0, 1, 2, 3, 4]
    assert retained.erase(bench.path, {trace, "böb", ""}, dry_run=False) == {"records": 4}
    assert bench.left() == [4]


def test_a_damaged_delivery_is_in_nobodys_way_when_another_is_erased(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kept.take([row(1, b"user-1"), row(2, b"user-1")])
    bench.kept.close()
    with closing(sqlite3.connect(bench.path)) as db, db:
        db.execute("UPDATE records SET body = x'00' WHERE id = 1")
    assert retained.erase(bench.path, {"user-1"}, dry_run=False) == {"records": 1}


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("u-1", []),
        ("x" * 32, []),
        ("0" * 31, []),
        ("ab" * 16, [bytes([0xAB] * 16), b"AB" * 16, base64.b64encode(bytes([0xAB] * 16))]),
    ],
)
def test_only_a_trace_id_has_a_form_of_bytes(word: str, more: list[bytes]) -> None:
    assert list(forms_of(word)) == [word.encode(), word.encode(), *more]
