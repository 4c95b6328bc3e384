from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import pytest

from monitor.statistics.quality.plot import Curve, draw
from monitor.statistics.quality.quality import Labelled, in_first_half, measure, spread


def answers(number: int = 200, groups: int = 40) -> list[Labelled]:
    """Of the defective most score low, of the good most high, on a scale from 0 to 1 where higher is better."""
    rng = random.Random(5)
    made = []
    for at in range(number):
        defective = rng.random() < 0.3
        score = rng.betavariate(2, 5) if defective else rng.betavariate(5, 2)
        made.append(Labelled(f"g{at % groups}", defective, score, score < 0.4))
    return made


def measured(given: list[Labelled], better="higher"):
    return measure(given, better, random.Random(0))


def test_a_scale_turned_round_measures_the_same():
    given = answers()
    turned = [one._replace(score=1 - one.score) for one in given]
    first, second = measured(given), measured(turned, "lower")
    assert first.auroc == second.auroc > 0.8
    assert first.average_precision == second.average_precision
    assert first.best_f1.confusion == second.best_f1.confusion
    assert first.best_f1.score == pytest.approx(1 - second.best_f1.score)
    assert first.calibration_error == pytest.approx(second.calibration_error)


def test_a_good_evaluator_read_in_the_wrong_direction_shows_it():
    given = answers()
    assert measured(given, "lower").auroc == pytest.approx(1 - measured(given).auroc)


def test_the_intervals_hold_their_statistic():
    found = measured(answers())
    assert found.auroc_interval.lower < found.auroc < found.auroc_interval.upper
    assert found.average_precision_interval.lower < found.average_precision < found.average_precision_interval.upper


def test_a_threshold_is_tested_on_other_answers_than_those_it_was_chosen_on():
    given = answers()
    tested = [one for one in given if not in_first_half(one.group)]
    assert 0 < len(tested) < len(given)
    assert sum(measured(given).best_f1.confusion) == len(tested)
    # Whatever stands in the second half does not move the threshold.
    flipped = [one if in_first_half(one.group) else one._replace(defective=not one.defective) for one in given]
    assert measured(flipped).best_f1.score == measured(given).best_f1.score


def test_a_group_is_never_on_both_sides():
    assert all(in_first_half(group) == in_first_half(group) for group in map(str, range(100)))
    assert 30 < sum(in_first_half(str(number)) for number in range(100)) < 70


def test_what_cannot_be_told_is_none_and_not_a_number():
    nothing = measured([])
    assert (nothing.answers, nothing.auroc, nothing.best_f1, nothing.calibration_error) == (0, None, None, None)
    one_kind = measured([Labelled("a", True, 0.1, True), Labelled("b", True, 0.9, False)])
    assert (one_kind.auroc, one_kind.auroc_interval, one_kind.best_balanced, one_kind.bins) == (None, None, None, ())
    assert one_kind.by_rule.recall == 0.5


def test_the_configured_rule_is_measured_on_all_answers():
    given = answers()
    assert measured(given).by_rule.caught == sum(one.defective and one.called for one in given)


def test_percentiles_are_values_that_occur():
    assert spread(list(range(1, 101))) == (50, 95)
    assert spread([3.0]) == (3.0, 3.0)
    assert spread([]) is None


def test_the_plot_is_well_formed_whatever_the_names():
    found = measured(answers())
    bins = [(one.predicted, one.observed, one.number) for one in found.bins]
    curves = [Curve(f'<&"{number}', found.roc, found.auroc, bins) for number in range(9)]
    root = ET.fromstring(draw(curves))
    shapes = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert shapes.count("polyline") == 18
    assert shapes.count("circle") == 9 * len(bins)
    assert any(element.text == f'<&"0, AUROC {found.auroc:.3f}' for element in root.iter())


def test_nothing_to_draw_is_an_empty_diagram():
    assert "polyline" not in draw([])
    ET.fromstring(draw([]))
