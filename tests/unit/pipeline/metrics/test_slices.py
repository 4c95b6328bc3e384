from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score, SessionProducts
from monitor.pipeline.metrics.slices import FORGET_AFTER, MOST_VALUES, SliceMetrics
from monitor.telemetry.metrics import OVERFLOW
from tests.support.examples import examples
from tests.support.runtime import runtime, total

NAMES = ("prompt.version", "tenant")
NUMBER = "ragmonitor_slice_evaluations_total"


def judged(weight=1.0, defect=False, **attributes):
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    case = Case(request_id="ab", attributes=told)
    return EvaluationResult(
        case=case, evaluator="e", version="1", outcome=Score(1, ""), weight=weight, level="l", defect=defect
    )


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.floats(1, 100), st.booleans()), max_size=120)
)  # fmt: skip
def test_every_slice_sums_to_the_whole(verdicts):
    lent = runtime()
    slicing = SliceMetrics(NAMES, lent.metrics, lent.clock)
    weights = Counter()
    for version, tenant, weight, defect in verdicts:
        told = {"tenant": f"t{tenant}"} if tenant else {}
        slicing.count("shop", judged(weight, defect, prompt__version=f"v{version}", **told))
        weights[defect] += weight
    for name in NAMES:
        assert total(lent.metrics, NUMBER, slice=name) == len(verdicts)
        for defect in (False, True):
            labels = {"slice": name, "defect": str(defect).lower()}
            whole = total(lent.metrics, "ragmonitor_slice_evaluation_weight_total", **labels)
            assert abs(whole - weights[defect]) < 1e-6 * (1 + whole)


def test_verdicts_of_two_versions_are_in_no_common_series():
    lent = runtime()
    slicing = SliceMetrics(("tenant",), lent.metrics, lent.clock)
    for version in ("1", "2", "2"):
        slicing.count("shop", replace(judged(tenant="north"), version=version))
    assert [total(lent.metrics, NUMBER, value="north", version=version) for version in ("1", "2")] == [1, 2]


def test_more_values_than_the_cap_are_counted_together():
    lent = runtime()
    slicing = SliceMetrics(("prompt.version",), lent.metrics, lent.clock)
    for number in range(MOST_VALUES + 5):
        slicing.count("shop", judged(prompt__version=f"v{number}"))
    assert total(lent.metrics, NUMBER, value=OVERFLOW) == 5
    assert total(lent.metrics, NUMBER, value="v3") == 1


def test_the_values_of_one_app_take_no_room_from_another():
    lent = runtime()
    slicing = SliceMetrics(("tenant",), lent.metrics, lent.clock)
    for number in range(MOST_VALUES + 5):
        slicing.count("loud", judged(tenant=f"t{number}"))
    slicing.count("quiet", judged(tenant="mine"))
    assert total(lent.metrics, NUMBER, app="quiet", value="mine") == 1


def test_a_case_without_the_attribute_has_an_empty_value():
    lent = runtime()
    SliceMetrics(("tenant",), lent.metrics, lent.clock).count("shop", judged())
    assert total(lent.metrics, NUMBER, value="") == 1


def test_a_value_that_no_longer_occurs_makes_room_and_its_series_are_gone():
    lent = runtime()
    slicing = SliceMetrics(("prompt.version",), lent.metrics, lent.clock)
    for number in range(MOST_VALUES):
        slicing.count("shop", judged(prompt__version=f"v{number}"))
    lent.clock.advance(FORGET_AFTER + 1)
    slicing.count("shop", judged(prompt__version="v1"))
    slicing.count("shop", judged(prompt__version="new"))
    assert total(lent.metrics, NUMBER, value="new") == 1
    assert total(lent.metrics, NUMBER, value=OVERFLOW) == 0
    values = {sample.labels["value"] for one in lent.metrics.slice_evaluations.collect() for sample in one.samples}
    assert "v0" not in values
    assert "v1" in values
    slicing.count("shop", judged(prompt__version="v2"))
    assert total(lent.metrics, NUMBER, value="v2") == 2


def test_a_value_from_outside_is_made_safe_for_every_parser():
    lent = runtime()
    SliceMetrics(("tenant",), lent.metrics, lent.clock).count("shop", judged(tenant="a\nb" + "x" * 200))
    (value,) = {sample.labels["value"] for one in lent.metrics.slice_weight.collect() for sample in one.samples}
    assert value.isprintable()
    assert len(value) == 128


def test_a_slice_adds_up_what_its_answers_add_within_their_sessions():
    lent = runtime()
    slicing = SliceMetrics(("tenant",), lent.metrics, lent.clock)
    for products in ((1.0, 1.0, 1.0), (3.0, 3.0, 3.0)):  # two bad answers of a session
        one = replace(judged(1.0, defect=True, tenant="north"), session_products={"": SessionProducts(*products)})
        slicing.count("shop", replace(one, evaluated_at=lent.clock.now()))
    slicing.count("shop", replace(judged(2.0, tenant="north"), evaluated_at=lent.clock.now()))
    name = "ragmonitor_slice_evaluation_session_products_total"
    found = [total(lent.metrics, name, value="north", of=of) for of in ("defects", "all", "both")]
    assert found == [4.0, 8.0, 4.0]
    sums = slicing.recent.of("shop", "e")["tenant"]["north"]
    assert (sums.defect_products, sums.every_products, sums.both_products) == (4.0, 8.0, 4.0)


def test_the_products_of_a_value_that_no_longer_occurs_make_room_as_well():
    lent = runtime()
    slicing = SliceMetrics(("tenant",), lent.metrics, lent.clock)
    slicing.count("shop", judged(tenant="old"))
    lent.clock.advance(FORGET_AFTER + 1)
    for number in range(MOST_VALUES):
        slicing.count("shop", judged(tenant=f"t{number}"))
    assert total(lent.metrics, "ragmonitor_slice_evaluation_session_products_total", value="old") == 0
    assert total(lent.metrics, "ragmonitor_slice_evaluation_session_products_total", value="t1", of="all") == 1
