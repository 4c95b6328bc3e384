"""Diagnoses of small worlds to the last digit: the numbers are those of this version, to be changed only on purpose.

The rules are told one by one in `test_diagnosis.py`, the formulas are worked out again in `test_excess_formulas.py`.
Here a change of a threshold or of an order shows that no rule speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from monitor.statistics.diagnosis import alert_looks, diagnose, diagnose_alert
from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor

SEARCH, ONSET, NOW = 1000, 1500, 2300
TENANTS, LANGUAGES = 7, 5
STALE, TWIN = (Factor("document", "doc_uri", one) for one in ("stale", "twin"))
NEW_PROMPT = Factor("slice", "prompt.version", "2")
EMPTY = Factor("slice", "context", "found nothing")
REFUSAL = Factor("slice", "refusal", "yes", outcome=True)


def of_tenant(at: int) -> bool:
    return at % TENANTS == 3


def of_language(at: int) -> bool:
    return at // TENANTS % LANGUAGES == 1


def of_document(at: int) -> bool:
    return at % 11 == 0


def is_empty(at: int) -> bool:
    return at % 40 == 0 or (at >= ONSET and at % 6 == 0)


def two_causes(at: int) -> bool:
    return (of_tenant(at) and at % 10 < 7) or (of_language(at) and at % 10 < 6)


def a_pair(at: int) -> bool:
    return of_tenant(at) and of_language(at)


def a_document(at: int) -> bool:
    return of_document(at) and at % 7 < 6


def everything(at: int) -> bool:
    return at % 4 == 0


def nothing(_: int) -> bool:
    return False


def cases(bad: Callable[[int], bool]) -> list[JudgedCase]:
    """One case a second: before the onset one in twenty is bad; weights from 1 to 3, and three cases to a session."""
    found = []
    for at in range(NOW):
        factors = [
            Factor("slice", "tenant", f"t{at % TENANTS}", pairs=True),
            Factor("slice", "language", f"l{at // TENANTS % LANGUAGES}", pairs=True),
        ]
        factors += [STALE] if of_document(at) else []
        factors += [TWIN] if of_document(at) and at % 4 else []
        factors += [NEW_PROMPT] if at >= ONSET - 3 else []
        factors += [EMPTY] if is_empty(at) else []
        factors += [REFUSAL] if at % 13 == 0 else []
        is_bad = at % 10 < 8 if is_empty(at) and bad is nothing else at % 20 == 0 or (at >= ONSET and bad(at))
        found.append(JudgedCase(float(at), is_bad, f"u{at // 3}", tuple(factors), 1.0 + at % 3))
    return found


def numbers(one: Diagnosis) -> list[float | None]:
    onset = (one.onset.at, one.onset.earliest, one.onset.latest) if one.onset else ()
    rates = [(each.rate, each.lower, each.upper) for each in (one.rate_before, one.rate_since) if each is not None]
    return [*onset, one.judged, one.bad, *(each for rate in rates for each in rate), one.visible, one.looked]


def of_factor(one: FoundFactor) -> list[float]:
    onset = (one.onset.at, one.onset.earliest, one.onset.latest) if one.onset else ()
    assert one.inside is not None
    assert one.outside is not None
    shares = (one.share.value, one.share.lower, one.share.upper, one.inside.rate, one.outside.rate, one.before)
    return [one.z, *shares, *onset, one.cases, one.bad, one.part_now, one.part_before]


def names(factors: Sequence[Factor]) -> list[str]:
    return [f"{one.name}={one.value}" for one in factors]


EXPECTED = {
    two_causes: (
        [
            1499.5,
            1457.0,
            1514.0,
            800.0,
            184.0,
            0.04972565158,
            0.03831014503,
            0.06339098691,
            0.2301438399,
            0.1942327775,
            0.2692710348,
            0.24,
            2299.0,
        ],
        ["prompt.version=2"],
        [
            (
                ["tenant=t3"],
                "worse",
                [],
                [
                    7.010137897,
                    0.5177905126,
                    0.426701724,
                    0.6088793012,
                    0.7,
                    0.1512052593,
                    0.05060240964,
                    1476.5,
                    1459.0,
                    1522.0,
                    115.0,
                    80.0,
                    0.1438398999,
                    0.1423182442,
                ],
            ),
            (
                ["language=l1"],
                "worse",
                [],
                [
                    9.391544119,
                    0.5965079543,
                    0.4966729371,
                    0.6963429715,
                    0.5714285714,
                    0.1440877056,
                    0.03571428571,
                    1479.5,
                    1444.0,
                    1550.0,
                    161.0,
                    92.0,
                    0.2013758599,
                    0.2016460905,
                ],
            ),
            (
                ["context=found nothing"],
                "more",
                [],
                [
                    6.101447695,
                    0.1706743477,
                    0.1194845139,
                    0.2218641815,
                    0.4251497006,
                    0.2074022346,
                    1.0,
                    1499.5,
                    1457.0,
                    1514.0,
                    147.0,
                    51.0,
                    0.1044402752,
                    0.02503429355,
                ],
            ),
        ],
    ),
    a_pair: (
        [
            1514.5,
            1000.0,
            2075.0,
            785.0,
            57.0,
            0.05002501251,
            0.03632054168,
            0.06705651509,
            0.07265774379,
            0.05406078245,
            0.09521034864,
            0.4,
            2299.0,
        ],
        ["prompt.version=2"],
        [
            (
                ["language=l1", "tenant=t3"],
                "worse",
                [],
                [
                    7.309803621,
                    1.098417141,
                    0.2794991815,
                    1.9173351,
                    1.0,
                    0.04464871963,
                    0.2631578947,
                    1462.5,
                    1445.0,
                    1550.0,
                    23.0,
                    23.0,
                    0.02931803697,
                    0.02851425713,
                ],
            ),
            (
                ["context=found nothing"],
                "more",
                [],
                [
                    7.362624493,
                    0.8463309681,
                    0.2862449,
                    1.406417036,
                    0.2926829268,
                    0.04697508897,
                    1.0,
                    1514.5,
                    1000.0,
                    2075.0,
                    144.0,
                    28.0,
                    0.1045251753,
                    0.02451225613,
                ],
            ),
        ],
    ),
    a_document: (
        [
            1519.5,
            1390.0,
            1600.0,
            780.0,
            97.0,
            0.04998202086,
            0.0382787885,
            0.06404504036,
            0.1237179487,
            0.09947549092,
            0.1514622492,
            0.2,
            2299.0,
        ],
        ["prompt.version=2"],
        [
            (
                ["doc_uri=stale"],
                "worse",
                ["doc_uri=twin"],
                [
                    12.65244377,
                    1.005639677,
                    0.7852629357,
                    1.226016418,
                    0.8601398601,
                    0.04940014114,
                    0.05138339921,
                    1501.5,
                    1485.0,
                    1529.0,
                    71.0,
                    62.0,
                    0.09166666667,
                    0.09097446962,
                ],
            ),
        ],
    ),
    everything: (
        [
            1499.5,
            1487.0,
            1516.0,
            800.0,
            200.0,
            0.05040322581,
            0.03899807573,
            0.06401143377,
            0.2495309568,
            0.2169747073,
            0.2838410906,
            0.19,
            2299.0,
        ],
        ["prompt.version=2"],
        [
            (
                ["context=found nothing"],
                "more",
                [],
                [
                    7.771294304,
                    0.2435571693,
                    0.1878618486,
                    0.2992524901,
                    0.5988023952,
                    0.2087988827,
                    1.0,
                    1499.5,
                    1487.0,
                    1516.0,
                    147.0,
                    80.0,
                    0.1044402752,
                    0.0252016129,
                ],
            ),
        ],
    ),
    nothing: (
        [
            1499.5,
            1388.0,
            1580.0,
            800.0,
            133.0,
            0.05003599712,
            0.03832016809,
            0.06411395705,
            0.1075672295,
            0.08826163609,
            0.1297663268,
            0.16,
            2299.0,
        ],
        ["prompt.version=2"],
        [
            (
                ["context=found nothing"],
                "more",
                [],
                [
                    12.07696941,
                    1.289154796,
                    1.019303154,
                    1.559006438,
                    0.8383233533,
                    0.02234636872,
                    1.0,
                    1499.5,
                    1388.0,
                    1580.0,
                    147.0,
                    120.0,
                    0.1044402752,
                    0.02483801296,
                ],
            ),
        ],
    ),
}

LOOKS = [
    (10, 5, 1600.0, 3.548484656),
    (15, 8, 1639.0, 5.206643995),
    (23, 12, 1700.0, 5.812342951),
    (35, 18, 1800.0, 8.002485474),
    (53, 27, 1940.0, 9.494558106),
    (80, 40, 2156.0, 11.6175966),
]


@pytest.mark.parametrize("bad", EXPECTED, ids=lambda one: one.__name__)
def test_a_small_world_has_this_diagnosis(bad: Callable[[int], bool]) -> None:
    whole, switched, factors = EXPECTED[bad]
    one = diagnose(cases(bad), SEARCH)
    assert numbers(one) == pytest.approx(whole, rel=1e-7)
    assert names(one.switched) == switched
    assert one.state == ("found" if factors else "nothing_stands_out")
    assert [names(each.parts) for each in one.factors] == [parts for parts, *_ in factors]
    for each, (_, how, likewise, known) in zip(one.factors, factors, strict=True):
        assert (each.how, names(each.likewise)) == (how, likewise)
        assert of_factor(each) == pytest.approx(known, rel=1e-7)


def test_an_alert_in_a_small_world_is_looked_at_like_this() -> None:
    looks = list(alert_looks(cases(a_document), SEARCH, ONSET + 60.0))
    assert [(one.bad, one.next_look, one.looked) for one in looks] == [one[:3] for one in LOOKS]
    assert [one.factors[0].z if one.factors else None for one in looks] == pytest.approx([one[3] for one in LOOKS])
    assert diagnose_alert(cases(a_document), SEARCH, ONSET + 60.0) == looks[-1]


@pytest.mark.parametrize(("bad_before", "state"), [(4, "too_few_before"), (5, "found")])
def test_a_diagnosis_needs_five_bad_answers_before_the_search(bad_before: int, state: str) -> None:
    given = [
        one._replace(bad=(one.bad and one.time >= SEARCH) or (one.time < 20 * bad_before and one.time % 20 == 0))
        for one in cases(two_causes)
    ]
    assert diagnose(given, SEARCH).state == state


def test_what_shares_the_bad_answers_is_listed_by_how_much_it_stands_out() -> None:
    third = Factor("document", "doc_uri", "a third")
    given = [
        one._replace(factors=(*one.factors, third)) if STALE in one.factors and one.time % 3 else one
        for one in cases(a_document)
    ]
    (found,) = diagnose(given, SEARCH).factors
    assert names([found.factor]) == ["doc_uri=stale"]
    assert names(found.likewise) == ["doc_uri=twin", "doc_uri=a third"]  # three in four and two in three
