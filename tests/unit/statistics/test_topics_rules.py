"""Each number behind topics from both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from monitor.statistics.topics import (
    OTHER,
    TOPICS_AT_MOST,
    QuestionTopic,
    QuestionWords,
    is_word,
    key_of,
    renewed,
    topic_of,
    topic_words,
)


def questions(number: int, *words: str, since: int = 0) -> Iterator[QuestionWords]:
    return (QuestionWords(f"q{since + at}", words) for at in range(number))


def quiet(number: int) -> list[QuestionWords]:
    """Questions that have no word in common."""
    return [QuestionWords(f"z{at}", (f"{at}x",)) for at in range(number)]


def names(topics: tuple[QuestionTopic, ...]) -> list[str]:
    return sorted(one.name for one in topics)


@pytest.mark.parametrize(
    ("asked", "others", "found"), [(5, 50, True), (4, 50, False), (10, 990, True), (10, 991, False), (11, 1089, True)]
)
def test_a_topic_has_five_questions_and_one_in_a_hundred(asked: int, others: int, found: bool) -> None:
    topics = renewed((), [*questions(asked, "refund"), *quiet(others)])
    assert names(topics) == (["refund"] if found else [])
    if found:
        assert topics[0] == QuestionTopic("refund", "refund", asked / (asked + others))


@pytest.mark.parametrize(("others", "found"), [(10, True), (9, False)])
def test_a_word_of_more_than_half_of_the_questions_is_no_new_topic(others: int, found: bool) -> None:
    assert bool(renewed((), [*questions(10, "refund"), *quiet(others)])) is found


@pytest.mark.parametrize(("asked", "stays"), [(2, False), (3, True), (75, True), (76, False)])
def test_a_topic_stays_at_half_of_what_a_new_one_needs_and_up_to_three_quarters(asked: int, stays: bool) -> None:
    kept = [QuestionTopic("refund", "refunds", 0.1)]
    topics = renewed(kept, [*questions(asked, "refund"), *quiet(100 - asked)])
    assert names(topics) == (["refunds"] if stays else [])


@pytest.mark.parametrize(("share", "noted"), [(0.1, 0.1), (0.4, 0.4), (0.09, 0.2), (0.41, 0.2), (0.2, 0.2)])
def test_a_share_is_noted_again_once_it_has_doubled_or_halved(share: float, noted: float) -> None:
    (topic,) = renewed([QuestionTopic("refund", "refund", share)], [*questions(20, "refund"), *quiet(80)])
    assert topic.share == noted


def test_there_are_at_most_forty_topics_and_those_that_tell_most_are_found_first() -> None:
    every = [one for at in range(45) for one in questions(5 + at % 9, f"w{at}", since=100 * at)]
    topics = renewed((), every)
    assert len(topics) == TOPICS_AT_MOST == 40
    left = {f"w{at}" for at in range(45)} - set(names(topics))
    assert all(int(word[1:]) % 9 == 0 for word in left)  # with five questions, the fewest


def test_of_two_words_of_the_same_questions_one_is_the_topic() -> None:
    topics = renewed((), [*questions(8, "refund", "money"), *questions(4, "money", since=50), *quiet(40)])
    told = {word: number * math.log(52 / number) for word, number in (("refund", 8), ("money", 12))}
    assert names(topics) == [max(told, key=lambda word: told[word])]


def test_forms_of_a_word_are_one_topic_by_their_first_six_letters_but_not_with_digits() -> None:
    assert [key_of(word) for word in ("returns", "return", "ret", "order12345")] == [
        "return",
        "return",
        "ret",
        "order12345",
    ]
    topics = renewed((), [*questions(3, "returns"), *questions(4, "returned", since=50), *quiet(40)])
    assert topics == (QuestionTopic("return", "returned", 7 / 47),)


def test_of_equally_common_forms_the_shortest_names_the_topic_and_no_two_have_one_name() -> None:
    topics = renewed((), [*questions(3, "returned"), *questions(3, "returns", since=50), *quiet(40)])
    assert names(topics) == ["returns"]
    kept = [QuestionTopic("gift", "returns", 0.1)]
    topics = renewed(kept, [*questions(6, "returns"), *questions(6, "gift", since=50), *quiet(40)])
    assert names(topics) == ["return", "returns"]  # its only form is the name of another


def test_a_question_belongs_to_the_rarest_of_its_topics() -> None:
    topics = [
        QuestionTopic("refund", "refund", 0.2),
        QuestionTopic("norway", "norway", 0.1),
        QuestionTopic("cost", "cost", 0.1),
    ]
    assert topic_of(topics, ["refunds", "norway"]) == "norway"
    assert topic_of(topics, ["norway", "cost"]) == "cost"
    assert topic_of(topics, ["hello"]) == OTHER
    assert topic_of([], ["refund"]) == OTHER


def test_a_hash_is_shown_by_its_first_six_digits() -> None:
    assert topic_words("00f1c2d3e4a5b6c7") == "topic 00f1c2"
    assert topic_words("refund") == "refund"
    assert not is_word("00f1c2d3e4a5b6c7")
    assert is_word("00f1c2d3e4a5b6c")
    assert is_word("00f1c2d3e4a5b6cg")


def test_questions_without_words_and_more_of_the_same_session_count_for_nothing() -> None:
    every = [*questions(5, "refund"), *quiet(20)]
    again = [*every, *questions(5, "refund"), *(QuestionWords(f"n{at}", ()) for at in range(900))]
    assert renewed((), again) == renewed((), every)
    assert renewed([QuestionTopic("refund", "refund", 0.5)], []) == ()
