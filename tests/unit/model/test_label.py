"""Labels: which draws measure, what a label stands for, and the half of the requests that measures."""

from __future__ import annotations

import pytest

from monitor.model.label import LabelDraw, is_test
from tests.support.labels import label


def test_only_what_was_drawn_at_random_measures():
    assert {one for one in LabelDraw if one.measures} == {LabelDraw.UNIFORM, LabelDraw.STRATIFIED}


def test_a_label_stands_for_its_result_by_the_chance_of_its_draw():
    assert label(weight=4.0, probability=0.1).design_weight == pytest.approx(40.0)
    assert label(weight=4.0, draw=LabelDraw.PICKED).design_weight == 4.0


def test_half_of_the_requests_measure_and_always_the_same():
    chosen = [is_test(f"{number:032x}") for number in range(10_000)]
    assert 4_800 < sum(chosen) < 5_200
    assert [is_test(one) for one in ("a", "b", "c", "d", "e", "f")] == [True, True, True, False, False, True]


def test_a_request_id_that_is_no_text_has_its_half_as_it_is_stored():
    assert is_test("a\ud800") == is_test("a?")
