"""What a sender holds the durable copy of: when it is done with, and what happens when it is another's."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import anyio
import pytest

from monitor.errors import Overloaded
from monitor.pipeline import run
from tests.support.evaluators import JudgedEvaluator, configured
from tests.support.ingest import spans, trace_id
from tests.support.pipeline import At, Handed, pipeline, settled
from tests.support.results import judged
from tests.support.runtime import total
from tests.support.tools import until

pytestmark = pytest.mark.anyio


async def test_what_is_durable_upstream_is_not_spooled_and_its_receipt_settles_when_the_sinks_have_the_result(tmp_path):
    async with pipeline(tmp_path) as at:
        await at.rows("a", "b", ack=at.ack("first"))
        await until(lambda: total(at.metrics, "ragmonitor_evaluations_pending") == 2)
        assert total(at.metrics, "ragmonitor_spool_records") == 0
        assert at.settled == []
        at.gate.set()
        await until(lambda: at.settled)
        assert (at.settled, sorted(at.results)) == (["first"], ["a", "b"])


async def test_a_receipt_of_nothing_new_settles_at_once(tmp_path):
    async with pipeline(tmp_path, grace_period=0.01, idle_timeout=0.01) as at:
        at.gate.set()
        await at.spans(1, ack=at.ack("first"))
        await until(lambda: at.settled == ["first"])
        await at.spans(1, ack=at.ack("again"))
        assert at.settled == ["first", "again"]
        assert at.outcome("no_request") == at.balanced() == 1


async def test_an_open_trace_that_is_handed_over_is_counted_so_and_begins_anew_when_it_comes_back(tmp_path):
    async with pipeline(tmp_path, grace_period=0.01) as at:
        first = at.ack("first")
        await at.spans(1, 2, ack=first)  # open until a root has ended
        Handed.intake.hand_over([first])
        assert first.void
        assert at.outcome("handed_over") == at.balanced() == 2
        await at.spans(1, ack=at.ack("second"), end=1)
        await until(lambda: at.outcome("no_request") == 1)
        assert at.settled == ["second"]
        assert at.balanced() == 3
        assert total(at.metrics, "ragmonitor_open_traces_bytes") == 0


async def test_only_what_hangs_on_a_void_receipt_is_handed_over(tmp_path):
    async with pipeline(tmp_path, grace_period=0.01) as at:
        gone = at.ack("gone")
        await at.spans(1, ack=gone)  # open until its root has ended
        await at.spans(2, ack=at.ack("stays"), end=1)
        Handed.intake.hand_over([gone])
        await until(lambda: at.outcome("no_request") == 1)
        assert at.settled == ["stays"]


async def test_what_is_being_judged_is_finished_and_a_repeat_of_it_is_safe_only_then(tmp_path):
    async with pipeline(tmp_path) as at:
        first = at.ack("first")
        await at.rows("a", ack=first)
        await until(lambda: total(at.metrics, "ragmonitor_evaluations_pending") == 1)
        Handed.intake.hand_over([first])
        await at.rows("a", ack=at.ack("again"))
        await anyio.sleep(0.02)
        assert at.settled == []
        at.gate.set()
        await until(lambda: at.settled)
        assert (at.settled, at.results) == (["again"], ["a"])
        assert at.request_outcome("evaluated") == at.balanced() == 1


async def waiting_for_the_judge(at, *ids, ack):
    """Have rows read, of which the first is at the judge and the others wait for their turn."""
    await at.rows(*ids, ack=ack)
    await until(lambda: total(at.metrics, "ragmonitor_evaluations_pending") == len(ids))
    await settled()


def skipped(at):
    return total(at.metrics, "ragmonitor_skipped_total", reason="handed_over")


def evaluations_balance(at):
    selected = total(at.metrics, "ragmonitor_evaluations_selected_total")
    scored = total(at.metrics, "ragmonitor_evaluations_total")
    return selected == scored + skipped(at) + total(at.metrics, "ragmonitor_evaluations_pending")


async def test_what_waits_for_the_judge_when_its_partition_moves_is_not_judged_here(tmp_path):
    async with pipeline(tmp_path, turns=1) as at:
        gone = at.ack("gone")
        await waiting_for_the_judge(at, "at the judge", "b", "c", ack=gone)
        Handed.intake.hand_over([gone])
        at.gate.set()
        await until(lambda: skipped(at) == 2)
        await until(lambda: at.request_outcome("evaluated") == 3)
        assert at.results == ["at the judge"]
        assert total(at.metrics, "ragmonitor_unscored_total") == 0
        assert total(at.metrics, "ragmonitor_evaluation_weight_total") == 1
        assert at.balanced() == 3
        assert evaluations_balance(at)
        assert at.settled == []


async def test_what_waits_for_the_judge_and_stays_here_is_judged_when_others_move(tmp_path):
    async with pipeline(tmp_path, turns=1) as at:
        gone = at.ack("gone")
        await waiting_for_the_judge(at, "a", "b", ack=gone)
        await at.rows("c", ack=at.ack("stays"))
        await until(lambda: total(at.metrics, "ragmonitor_evaluations_pending") == 3)
        Handed.intake.hand_over([gone])
        at.gate.set()
        await until(lambda: at.settled == ["stays"])
        assert at.results == ["a", "c"]


async def test_what_was_given_up_before_the_judge_and_comes_back_is_judged(tmp_path):
    async with pipeline(tmp_path, turns=1) as at:
        gone = at.ack("gone")
        await waiting_for_the_judge(at, "a", "b", ack=gone)
        Handed.intake.hand_over([gone])
        at.gate.set()
        await until(lambda: at.request_outcome("evaluated") == 2)
        await at.rows("a", "b", ack=at.ack("again"))
        await until(lambda: at.settled == ["again"])
        assert at.results == ["a", "b"]
        assert at.balanced() == 3
        assert evaluations_balance(at)


async def test_what_comes_back_while_it_waits_for_the_judge_is_judged_once(tmp_path):
    async with pipeline(tmp_path, turns=1) as at:
        gone = at.ack("gone")
        await waiting_for_the_judge(at, "a", "b", ack=gone)
        Handed.intake.hand_over([gone])
        await at.rows("a", "b", ack=at.ack("again"))
        assert at.settled == []
        at.gate.set()
        await until(lambda: at.settled == ["again"])
        assert (at.results, skipped(at)) == (["a", "b"], 0)
        assert at.balanced() == 2


async def test_what_comes_back_and_moves_again_while_it_waits_for_the_judge_is_not_judged_here(tmp_path):
    async with pipeline(tmp_path, turns=1) as at:
        gone, again = at.ack("gone"), at.ack("again")
        await waiting_for_the_judge(at, "a", "b", ack=gone)
        Handed.intake.hand_over([gone])
        await at.rows("a", "b", ack=again)
        Handed.intake.hand_over([again])
        at.gate.set()
        await until(lambda: at.request_outcome("evaluated") == 2)
        assert (at.results, skipped(at), at.settled) == (["a"], 1, [])


class SlowToPublish(At):
    """Publishes the result of the first answer of a conversation only when the test allows it."""

    def __init__(self, lent):
        super().__init__(lent)
        self.publishes = anyio.Event()

    async def deliver(self, judged):
        if any(one.case.request_id == "talk/1" for one in judged):
            await self.publishes.wait()
        await super().deliver(judged)


class OfAnyAnswer(JudgedEvaluator):
    needs: ClassVar[frozenset[str]] = frozenset()


async def test_a_conversation_that_is_given_up_in_part_is_a_new_one_when_it_comes_back_before_its_end(tmp_path):
    said = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}] * 4
    talk = {"request_id": "talk", "messages": said}
    async with pipeline(tmp_path, [configured(OfAnyAnswer())], made=SlowToPublish, turns=3) as at:
        gone = at.ack("gone")
        await at.whole_rows(talk, ack=gone)
        await until(lambda: total(at.metrics, "ragmonitor_evaluations_pending") == 4)
        await settled()
        Handed.intake.hand_over([gone])
        at.gate.set()
        await until(lambda: skipped(at) == 1)
        assert sorted(at.results) == ["talk/2", "talk/3"]
        await at.whole_rows(talk, ack=at.ack("again"))
        await until(lambda: sorted(at.results) == ["talk/2", "talk/3", "talk/4"])
        assert at.settled == []
        at.publishes.set()
        await until(lambda: at.settled == ["again"])
        assert at.balanced() == 2
        assert evaluations_balance(at)


async def test_a_row_that_is_handed_over_before_it_was_read_is_taken_again(tmp_path):
    async with pipeline(tmp_path) as at:
        at.gate.set()
        first = at.ack("first")
        await at.rows("a", ack=first)
        Handed.intake.hand_over([first])  # in the same step: nobody has read it yet
        await until(lambda: at.outcome("handed_over") == 1)
        await at.rows("a", ack=at.ack("again"))
        await until(lambda: at.settled == ["again"])
        assert at.results == ["a"]
        assert at.balanced() == 2


async def test_while_open_traces_take_half_of_their_memory_a_sender_who_can_wait_is_asked_to(tmp_path):
    async with pipeline(tmp_path, max_open_bytes=8_000) as at:
        await at.spans(1, 2, 3, ack=at.ack("first"))
        with pytest.raises(Overloaded, match="open traces"):
            await at.spans(4, ack=at.ack("second"))
        assert at.balanced() == 3
        await Handed.intake.accept(spans(trace_id(4)))  # this one cannot
        assert at.balanced() == 4


async def test_what_waits_for_room_among_the_closed_traces_is_taken_again_too(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_READERS", 0)
    async with pipeline(tmp_path, closed_limit=1, grace_period=0.02, idle_timeout=0.02) as at:
        first = at.ack("first")
        await at.spans(1, 2, 3, ack=first)
        await until(lambda: total(at.metrics, "ragmonitor_open_traces") == 0)
        assert all(at.assembly.is_known(trace_id(number)) for number in (1, 2, 3))
        Handed.intake.hand_over([first])
        assert not any(at.assembly.is_known(trace_id(number)) for number in (1, 2, 3))


def test_a_result_has_the_same_id_whichever_span_of_its_trace_seems_to_be_the_answer():
    """Where a part of a trace comes again, its last answer is another span's; it is a repeat all the same."""
    one = judged(1)
    assert replace(one, case=replace(one.case, span_id="0" * 16)).id == one.id
    assert replace(one, case=replace(one.case, request_id="0" * 32)).id != one.id
