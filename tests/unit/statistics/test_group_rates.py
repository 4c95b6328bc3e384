"""Groups of answers that are worse than the rest: planted ones are found, company and bad hours not blamed."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.group_rates import GroupComparison, compare_groups, corrected_z
from tests.support.examples import examples


def document(name: str) -> Factor:
    return Factor("document", "document", name)


def worse(found: GroupComparison) -> set[str]:
    return {one.factor.value for one in found.groups if one.surely_worse}


def history(
    random: Random, *, number: int = 600, documents: int = 60, stale: str = "", company: str = ""
) -> list[JudgedCase]:
    """Answers with three documents each; 5 in 100 are bad, with the stale one 60 in 100."""
    cases = []
    for at in range(number):
        own = {f"d{random.randrange(documents)}" for _ in range(3)}
        if stale and at % 10 == 0:
            own |= {stale, company} - {""}
        bad = random.random() < (0.6 if stale in own else 0.05)
        weight = 1.0 if at % 3 else 10.0
        cases.append(JudgedCase(float(at), bad, f"s{at}", tuple(map(document, sorted(own))), weight))
    return cases


def test_a_stale_document_is_surely_worse_and_nothing_else() -> None:
    assert worse(compare_groups(history(Random(1), stale="stale"))) == {"stale"}


def test_a_document_that_is_only_retrieved_beside_the_stale_one_is_named_as_its_company() -> None:
    cases = history(Random(2), stale="stale", company="company")
    alone = [
        JudgedCase(1000.0 + at, False, f"a{at}", (document("company"),) if at % 4 else (document("stale"),))
        for at in range(8)
    ]
    bad = [JudgedCase(2000.0 + at, True, f"b{at}", (document("stale"),), 5.0) for at in range(12)]
    found = compare_groups([*cases, *alone, *bad])
    assert worse(found) == {"stale"}
    beside = {one.factor.value: one.beside for one in found.groups if one.beside is not None}
    assert beside == {"company": document("stale")}


def test_without_a_cause_at_most_one_list_in_twenty_names_a_document() -> None:
    falsely = sum(bool(worse(compare_groups(history(Random(seed))))) for seed in range(60))
    assert falsely <= 6, falsely


def test_a_document_is_not_worse_because_all_answers_of_its_hours_were() -> None:
    cases, random = [], Random(3)
    for at in range(800):
        outage = at >= 700
        own = (document("new"),) if outage and random.random() < 0.5 else (document(f"d{random.randrange(30)}"),)
        cases.append(JudgedCase(float(at), random.random() < (0.7 if outage else 0.05), f"s{at}", own))
    assert worse(compare_groups(cases)) == set()


def test_one_session_is_one_story() -> None:
    quiet = [JudgedCase(float(at), at % 37 == 0, f"s{at}", (document(f"d{at % 20}"),)) for at in range(400)]
    angry = [JudgedCase(500.0 + at, True, "one", (document("theirs"),)) for at in range(50)]
    assert worse(compare_groups([*quiet, *angry])) == set()


def test_a_document_of_nearly_all_answers_or_of_few_is_not_compared() -> None:
    cases = [
        JudgedCase(float(at), at % 3 == 0, f"s{at}", (document("all"), *([document("few")] if at < 4 else [])))
        for at in range(100)
    ]
    found = compare_groups(cases)
    assert [one.z for one in found.groups] == [None, None]
    assert found.tried == 0


CASE = st.builds(
    JudgedCase,
    time=st.floats(0, 1e9),
    bad=st.booleans(),
    unit=st.sampled_from("abcdefghij"),
    factors=st.lists(st.sampled_from([document(one) for one in "pqrst"]), max_size=3).map(tuple),
    weight=st.floats(1e-6, 1e9),
    judged_at=st.none() | st.floats(0, 1e9),
)


@given(st.lists(CASE, max_size=80), st.randoms(use_true_random=False))
@examples(80)
def test_any_answers_can_be_compared_in_any_order(cases: list[JudgedCase], random: Random) -> None:
    found = compare_groups(cases)
    mixed = list(cases)
    random.shuffle(mixed)
    again = {one.factor: one for one in compare_groups(mixed).groups}
    assert {one.factor for one in found.groups} == {factor for one in cases for factor in one.factors}
    for one in found.groups:
        assert one.sums.judged == sum(one.factor in case.factors for case in cases)
        assert again[one.factor].surely_worse == one.surely_worse


def test_the_limit_grows_with_the_number_of_groups() -> None:
    assert corrected_z(1) < corrected_z(10) < corrected_z(10_000)
    assert corrected_z(1, sides=2) > corrected_z(1)


def test_of_two_documents_that_always_come_together_the_same_one_is_named_in_any_order() -> None:
    twins = (document("one"), document("two"))
    cases = history(Random(4), number=300)
    for at in range(20):
        cases.append(JudgedCase(200.0, True, f"u{at // 2}", twins if at % 2 else twins[::-1]))
        cases.append(JudgedCase(15.0 * at, True, f"t{at}", twins if at % 2 else twins[::-1]))
    for ordered in (cases, cases[::-1]):
        found = compare_groups(ordered)
        assert worse(found) == {"one"}
        assert {one.factor.value: one.beside for one in found.groups if one.beside} == {"two": document("one")}
