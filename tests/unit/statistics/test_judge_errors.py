"""What the errors of a judge have in common: found where it is so, and hardly ever where it is not."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.judge_errors import FACTORS_AT_MOST, JudgeErrors, LabelledAnswer, judge_errors

ACME, OTHERS = (Factor("slice", "tenant", one, pairs=True) for one in ("acme", "others"))
WEB, PHONE = (Factor("slice", "channel", one, pairs=True) for one in ("web", "phone"))


def answer(number: int, *factors: Factor, verdict: bool = False, wrong: bool = False, weight: float = 1.0):
    return LabelledAnswer(f"unit-{number}", verdict, verdict != wrong, weight, factors)


def world(rng: random.Random, number: int, wrong: float, *, at_acme: float | None = None) -> Iterator[LabelledAnswer]:
    """Labelled answers with forty words, some slices and documents, of which the judge errs at so many."""
    for n in range(number):
        tenant = ACME if rng.random() < 0.2 else OTHERS
        words = (Factor("word", "word", f"w{rng.randrange(40)}") for _ in range(6))
        document = Factor("document", "document", f"kb/{rng.randrange(30)}")
        share = at_acme if tenant is ACME and at_acme is not None else wrong
        verdict = rng.random() < 0.4  # drawn more often than its share of the traffic
        err = rng.random() < (share if verdict else share / 3)
        yield answer(n, tenant, rng.choice((WEB, PHONE)), document, *words, verdict=verdict, wrong=err)


def test_a_slice_at_which_the_judge_errs_is_found_with_both_shares_and_kinds_of_errors() -> None:
    found = judge_errors(world(random.Random(1), 200, 0.05, at_acme=0.8))
    first = found.factors[0]
    assert (first.factor, first.parts) == (ACME, (ACME,))
    assert first.inside.lower > first.outside.upper
    assert first.missed + first.alarmed <= found.missed + found.alarmed
    assert first.alarmed > first.missed > 0
    assert first.answers == 40


def test_of_judges_that_err_anywhere_alike_something_is_named_in_one_of_twenty_at_most() -> None:
    rng = random.Random(2)
    named = sum(bool(judge_errors(world(rng, 120, 0.25)).factors) for _ in range(200))
    assert named <= 200 * 0.05


def test_that_flagged_answers_are_labelled_more_often_makes_no_factor_of_what_they_have() -> None:
    """All errors are false alarms, and everything that is flagged comes from acme: that explains them all."""
    flagged = [answer(n, ACME, verdict=True, wrong=n % 3 == 0) for n in range(60)]
    good = [answer(100 + n, OTHERS) for n in range(60)]
    assert judge_errors([*flagged, *good]) == JudgeErrors(answers=120, missed=0, alarmed=20)


def test_two_slices_together_are_found_where_neither_alone_is_it() -> None:
    rng = random.Random(3)
    answers = []
    for n in range(400):
        tenant, channel = rng.choice((ACME, OTHERS)), rng.choice((WEB, PHONE))
        both = tenant is ACME and channel is WEB
        answers.append(answer(n, tenant, channel, verdict=True, wrong=rng.random() < (0.7 if both else 0.05)))
    first = judge_errors(answers).factors[0]
    assert (first.factor.kind, set(first.parts)) == ("pair", {ACME, WEB})


def test_the_answers_of_one_session_are_one_story() -> None:
    others = [answer(n, OTHERS, wrong=n % 10 == 0) for n in range(60)]
    session = [answer(1_000, ACME, wrong=True) for _ in range(30)]
    found = judge_errors([*others, *session])
    assert (found.answers, found.factors) == (61, ())


@pytest.mark.parametrize("number", [0, 1, 4])
def test_few_answers_name_nothing(number: int) -> None:
    found = judge_errors(answer(n, ACME, wrong=True) for n in range(number))
    assert (found.answers, found.missed, found.alarmed, found.factors) == (number, number, 0, ())


def test_what_most_of_the_same_errors_have_as_well_is_named_beside_it() -> None:
    paper = Factor("document", "document", "kb/old")
    answers = [answer(n, ACME, paper, wrong=n < 15) for n in range(20)]
    answers += [answer(100 + n, OTHERS, wrong=n % 20 == 0) for n in range(100)]
    (found,) = judge_errors(answers).factors
    assert {found.factor, *found.likewise} == {ACME, paper}


def test_values_of_strangers_in_any_number_are_only_compared() -> None:
    rng = random.Random(4)
    odd = [Factor("word", "word", text) for text in ("", "\x00", "\ud800", "x" * 100_000, "<script>", "'; DROP")]
    many = [
        answer(n, *odd, *(Factor("word", "word", f"{n} {k}") for k in range(300)), wrong=rng.random() < 0.3)
        for n in range(300)
    ]
    assert len(judge_errors(many).factors) <= FACTORS_AT_MOST
