"""What is named as the cause of a rise, and what is not: small worlds without chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from monitor.statistics.diagnosis import alert_looks, diagnose, diagnose_alert
from monitor.statistics.diagnosis.cases import Factor, JudgedCase, Prepared
from monitor.statistics.diagnosis.looks import FIRST_LOOK
from monitor.statistics.diagnosis.onset import find_step
from monitor.statistics.diagnosis.results import Diagnosis
from monitor.statistics.diagnosis.search import FACTORS_AT_MOST, FactorSearch

SEARCH, ONSET, NOW = 2000, 2500, 3500
"""One case a second; the rise begins at `ONSET`."""

FIRED = 2700
"""The last second before the alert; since the onset 30 answers are bad where one in seven has been."""

TENANTS, LANGUAGES = 7, 5


def tenant(number: int) -> Factor:
    return Factor("slice", "tenant", f"t{number}", pairs=True)


def language(number: int) -> Factor:
    return Factor("slice", "language", f"l{number}", pairs=True)


DOCUMENT = Factor("document", "doc_uri", "stale")
REFUSAL = Factor("slice", "refusal", "yes", outcome=True)

Bad = Callable[[int], bool]
Has = Callable[[int], Sequence[Factor]]


def usual(at: int) -> bool:
    return at % 20 == 0


def nothing(_: int) -> Sequence[Factor]:
    return ()


def cases(bad: Bad, more: Has = nothing, *, weight: float = 1.0) -> list[JudgedCase]:
    """Tenants and languages take turns; bad before the onset is one in twenty."""
    return [
        JudgedCase(
            float(at),
            usual(at) if at < ONSET else bad(at),
            f"u{at}",
            (tenant(at % TENANTS), language(at // TENANTS % LANGUAGES), *more(at)),
            weight,
        )
        for at in range(NOW)
    ]


def found(bad: Bad, more: Has = nothing) -> Diagnosis:
    return diagnose(cases(bad, more), SEARCH)


def names(one: Diagnosis) -> list[Factor]:
    return [factor.factor for factor in one.factors]


def in_tenant(at: int) -> bool:
    return usual(at) or (at % TENANTS == 3 and at % 10 < 7)


def test_the_tenant_with_the_bad_answers_is_named_with_its_rates_share_and_onset() -> None:
    one = found(in_tenant)
    assert (one.state, names(one)) == ("found", [tenant(3)])
    factor = one.factors[0]
    assert factor.how == "worse"
    assert factor.share.lower < 1 < factor.share.upper
    assert factor.inside is not None
    assert factor.outside is not None
    assert factor.inside.rate == pytest.approx(0.7, abs=0.05)
    assert factor.outside.rate == pytest.approx(0.05, abs=0.02)
    assert factor.before == pytest.approx(0.05, abs=0.03)
    assert factor.onset is not None
    assert factor.onset.earliest <= ONSET <= factor.onset.latest + TENANTS
    assert factor.part_now == pytest.approx(1 / TENANTS, abs=0.02)


def test_a_rise_that_all_answers_have_in_common_has_no_cause() -> None:
    one = found(lambda at: at % 4 == 0)
    assert (one.state, one.factors) == ("nothing_stands_out", ())
    assert one.onset is not None
    assert one.onset.at == pytest.approx(ONSET, abs=20)
    assert one.visible is not None
    assert one.judged == pytest.approx(NOW - ONSET, abs=20)


def test_two_causes_are_found_one_after_the_other() -> None:
    one = found(lambda at: in_tenant(at) or (at // TENANTS % LANGUAGES == 1 and at % 10 < 6))
    assert set(names(one)) == {tenant(3), language(1)}


def test_at_most_three_factors_are_named() -> None:
    four = [Factor("document", "doc_uri", f"d{number}") for number in range(4)]
    one = found(
        lambda at: usual(at) or (at % 10 < len(four) and at // 70 % 10 < 6),
        lambda at: four[at % 10 : at % 10 + 1],
    )
    assert len(one.factors) == FACTORS_AT_MOST
    assert set(names(one)) < set(four)


def test_a_pair_of_slices_is_named_where_only_both_together_are_bad() -> None:
    one = found(lambda at: usual(at) or (at % TENANTS == 3 and at // TENANTS % LANGUAGES == 1))
    assert names(one) == [Factor("pair", "language and tenant", "l1 and t3")]


def test_a_pair_gives_way_to_the_part_that_explains_as_much() -> None:
    one = found(in_tenant, lambda at: [Factor("slice", "route", "r", pairs=True)] if at % 9 else [])
    assert names(one) == [tenant(3)]


def test_what_is_retrieved_with_the_stale_document_is_listed_beside_it() -> None:
    twin = Factor("document", "doc_uri", "twin")
    one = found(
        lambda at: usual(at) or at % 11 == 0,
        lambda at: ([DOCUMENT] if at % 11 == 0 else []) + ([twin] if at % 11 == 0 and at % 4 else []),
    )
    assert names(one) == [DOCUMENT]
    assert one.factors[0].likewise == (twin,)


def test_more_of_what_was_always_bad_is_named_as_more_of_it() -> None:
    empty = Factor("slice", "context", "found nothing")

    def has_nothing(at: int) -> bool:
        return at % 50 == 0 or (at >= ONSET and at % 6 == 0)

    one = diagnose(
        [
            case._replace(bad=int(case.time) % 10 < 7 if empty in case.factors else case.bad)
            for case in cases(usual, lambda at: [empty] if has_nothing(at) else [])
        ],
        SEARCH,
    )
    assert names(one) == [empty]
    assert one.factors[0].how == "more"
    assert one.factors[0].part_now > 3 * one.factors[0].part_before


def test_what_everything_has_had_since_the_onset_is_listed_and_is_no_cause() -> None:
    version = Factor("slice", "prompt.version", "2")
    one = found(lambda at: at % 4 == 0, lambda at: [version] if at >= ONSET else [])
    assert (one.factors, one.switched) == ((), (version,))


def test_what_everything_has_had_for_longer_is_not_listed() -> None:
    version = Factor("slice", "prompt.version", "2")
    one = found(lambda at: at % 4 == 0, lambda at: [version] if at >= SEARCH + 100 else [])
    assert one.switched == ()


def test_refusals_that_follow_the_rate_are_no_cause() -> None:
    one = found(lambda at: at % 4 == 0, lambda at: [REFUSAL] if at % 60 == 0 else [])
    assert one.factors == ()


def test_a_word_that_nearly_all_questions_have_is_not_tried() -> None:
    word = Factor("word", "word", "the")
    one = found(in_tenant, lambda at: [word] if at % 20 else [])
    assert word not in names(one)


def test_bad_answers_of_two_sessions_name_nothing() -> None:
    given = [
        case._replace(unit=f"s{int(case.time) % 2}") if int(case.time) % 11 == 0 and case.time >= ONSET else case
        for case in cases(lambda at: usual(at) or at % 11 == 0, lambda at: [DOCUMENT] if at % 11 == 0 else [])
    ]
    assert diagnose(given, SEARCH).factors == ()


def test_without_a_baseline_there_is_no_diagnosis() -> None:
    young = [one for one in cases(in_tenant) if one.time >= SEARCH - 50]
    assert diagnose(young, SEARCH).state == "too_few_before"
    assert diagnose([], 0.0).state == "too_few_before"


def test_without_a_rise_there_is_no_diagnosis() -> None:
    assert found(lambda _: False, nothing).state == "no_rise"


def test_the_limits_of_the_rates_hold_the_rates() -> None:
    one = found(in_tenant)
    assert one.rate_before is not None
    assert one.rate_since is not None
    assert one.rate_before.lower < 0.05 < one.rate_before.upper
    assert one.rate_since.lower < one.bad / one.judged < one.rate_since.upper


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        diagnose([JudgedCase(0.0, bad=True, unit="a", weight=weight)], 0.0)


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        diagnose([JudgedCase(float("nan"), bad=True, unit="a")], 0.0)


def test_an_alert_is_looked_at_when_it_fires_and_with_half_as_many_bad_answers_again_each_time() -> None:
    looks = list(alert_looks(cases(in_tenant), SEARCH, FIRED))
    assert [one.next_look for one in looks] == [math.ceil(0.5 * one.bad) for one in looks]
    assert [later.bad - one.bad for one, later in pairwise(looks)] == [one.next_look for one in looks[:-1]]
    assert len(looks) > 3
    assert all(names(one) == [tenant(3)] for one in looks)


def test_between_two_looks_an_alert_says_the_same() -> None:
    every = cases(in_tenant)
    looks = list(alert_looks(every, SEARCH, FIRED))
    ends = [one.looked or 0.0 for one in looks]
    for now in (FIRED, *(end + step for end in ends[1:] for step in (-1, 0, 1))):
        made = sum(end <= now for end in ends)
        assert diagnose_alert([one for one in every if one.time <= now], SEARCH, FIRED) == looks[made - 1]


def test_a_verdict_that_comes_late_changes_no_look_before_it() -> None:
    early, *_ = alert_looks(cases(in_tenant), SEARCH, FIRED)
    late = [
        JudgedCase(ONSET + 1.0 + number, True, f"late {number}", (tenant(5),), judged_at=FIRED + 1.0)
        for number in range(50)
    ]
    looks = list(alert_looks([*cases(in_tenant), *late], SEARCH, FIRED))
    assert looks[0] == early
    assert looks[-1].bad > early.bad + len(late)


def test_before_its_first_look_an_alert_names_nothing() -> None:
    fired = ONSET + 20.0
    soon = [one for one in cases(in_tenant) if one.time < ONSET + 40]
    one = diagnose_alert(soon, SEARCH, fired)
    assert one.awaits_first_look
    assert (names(one), list(alert_looks(soon, SEARCH, fired))) == ([], [])
    more = [later.time for later in cases(in_tenant) if later.bad and later.time >= ONSET + 40]
    for number in range(FIRST_LOOK):
        known = [later for later in cases(in_tenant) if later.time <= more[number]]
        awaits = diagnose_alert(known, SEARCH, fired).awaits_first_look
        assert awaits is (number + 1 < (one.next_look or 0))


def searched(level: float, *named: Factor, bad: Bad = in_tenant) -> list[Factor]:
    """What one search names, at a level."""
    prepared = Prepared(cases(bad))
    rows = prepared.rows
    step = find_step(rows[SEARCH:], 0.05)
    assert step is not None
    before, after = rows[: SEARCH + step.lowest], rows[SEARCH + step.best :]
    return names(FactorSearch(prepared, before, after, step, rows[SEARCH:], level=level, named=named).diagnosis())


def test_what_a_look_has_named_stays_named_by_a_single_test() -> None:
    assert searched(0.05) == [tenant(3)]
    assert searched(1e-200) == []
    assert searched(1e-200, tenant(3)) == [tenant(3)]


def test_what_a_look_has_named_is_withdrawn_where_its_answers_are_no_worse_than_others() -> None:
    assert searched(0.05, tenant(2)) == [tenant(3)]
    assert searched(0.05, tenant(3), bad=lambda at: at % 4 == 0) == []


def test_at_level_0_nothing_is_named() -> None:
    assert searched(0.0) == []


def test_a_rise_that_all_answers_have_in_common_has_no_cause_at_any_look() -> None:
    looks = list(alert_looks(cases(lambda at: at % 4 == 0), SEARCH, FIRED))
    assert len(looks) > 3
    assert all(one.state == "nothing_stands_out" for one in looks)


def test_an_alert_without_a_baseline_or_without_a_rise_has_no_diagnosis() -> None:
    young = [one for one in cases(in_tenant) if one.time >= SEARCH - 50]
    assert diagnose_alert(young, SEARCH, FIRED).state == "too_few_before"
    assert diagnose_alert([], 0.0, 0.0).state == "too_few_before"
    assert diagnose_alert(cases(lambda _: False), SEARCH, FIRED).state == "no_rise"


def test_a_time_of_a_verdict_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a time"):
        diagnose([JudgedCase(0.0, bad=True, unit="a", judged_at=float("inf"))], 0.0)
