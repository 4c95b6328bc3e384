"""Topics of questions: found in any language, named once, and few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.topics import (
    LEAST_STORIES,
    OTHER,
    TOPICS_AT_MOST,
    QuestionTopic,
    QuestionWords,
    renewed,
    topic_of,
)
from monitor.storage.history.features import words_of
from tests.support.examples import examples

QUESTIONS = (
    "How do I return the blue shoes?",
    "Can I return a gift?",
    "What does shipping to Norway cost?",
    "Is shipping free?",
    "Where is my invoice?",
    "Please send me the invoice for May",
)


def asked(texts: list[str], times: int = 10, session: str = "") -> list[QuestionWords]:
    return [
        QuestionWords(session or f"{number} {text}", tuple(words_of(text))) for number in range(times) for text in texts
    ]


def names(topics: tuple[QuestionTopic, ...]) -> set[str]:
    return {one.name for one in topics}


def test_the_words_that_tell_questions_apart_are_topics() -> None:
    topics = renewed((), asked(list(QUESTIONS)))
    assert names(topics) == {"return", "shipping", "invoice"}
    assert [topic_of(topics, words_of(text)) for text in ("Who pays for returns?", "Invoices please", "Hello?")] == [
        "return",
        "invoice",
        OTHER,
    ]


def test_topics_are_found_without_spaces_and_in_other_scripts() -> None:
    for texts in (
        ["如何申请退款", "退款需要多久", "怎么开发票", "发票抬头能改吗"],
        ["Как вернуть товар?", "Можно вернуть подарок?", "Сколько стоит доставка?", "Где моя доставка?"],
        ["रिफंड कब मिलेगा", "रिफंड कैसे मिलेगा", "डिलीवरी कब होगी", "डिलीवरी कहाँ है"],
        ["ขอคืนเงินได้ไหม", "คืนเงินเมื่อไร", "จัดส่งฟรีหรือเปล่า", "จัดส่งถึงบ้าน"],
        ["환불 가능한가요", "환불 언제 되나요", "배송비 얼마인가요", "배송비 무료인가요"],
    ):
        topics = renewed((), asked(texts))
        found = [topic_of(topics, words_of(text)) for text in texts]
        assert found[0] == found[1] != OTHER, (texts, topics)
        assert found[2] == found[3] != OTHER, (texts, topics)
        assert found[0] != found[2]


def test_a_name_stays_when_another_form_becomes_more_common() -> None:
    topics = renewed((), asked(["Return?", "Invoice?", "Shipping?"]))
    later = renewed(topics, asked(["Returns?", "Returned it?", "Invoices?", "Invoice?", "Shipping?"], 50))
    assert names(later) == names(topics) == {"return", "invoice", "shipping"}
    assert topic_of(later, words_of("returned goods")) == "return"


def test_one_person_who_asks_on_and_on_makes_no_topic() -> None:
    topics = renewed((), [*asked(list(QUESTIONS)), *asked(["Unicorns forever"], 1000, session="bot")])
    assert names(topics) == {"return", "shipping", "invoice"}


def test_a_topic_stays_until_it_is_asked_about_half_as_often_as_a_new_one_must_be() -> None:
    many = asked(["shipping time", "invoice lost"], 500)
    topics = renewed((), [*many, *asked(["refund missing"], 11)])
    assert "refund" in names(topics) or "missing" in names(topics)
    name = topic_of(topics, ["refund", "missing"])
    assert name in names(renewed(topics, [*many, *asked(["refund missing"], 6)]))
    assert name not in names(renewed((), [*many, *asked(["refund missing"], 6)]))
    assert name not in names(renewed(topics, [*many, *asked(["refund missing"], 4)]))


def test_hashed_words_make_the_same_topics_without_readable_names() -> None:
    hashes = {"return": "00f1c2d3e4a5b6c7", "shipping": "1a2b3c4d5e6f7081", "invoice": "9f8e7d6c5b4a3921"}
    plain = asked(["return", "shipping", "invoice"], 1)
    hashed = [one._replace(words=tuple(hashes[word] for word in one.words)) for one in plain for _ in range(9)]
    spread = [one._replace(unit=f"{one.unit}{number}") for number, one in enumerate(hashed)]
    assert names(renewed((), spread)) == set(hashes.values())


WORDS = st.lists(st.sampled_from([f"w{number}" for number in range(60)]), max_size=6).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 40), WORDS), max_size=200), st.randoms(use_true_random=False))
@examples(60)
def test_topics_depend_on_no_order_and_are_few_frequent_and_named_apart(
    given_questions: list[tuple[int, tuple[str, ...]]], random: object
) -> None:
    questions = [QuestionWords(f"u{unit}", words) for unit, words in given_questions]
    topics = renewed((), questions)
    mixed = list(questions)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert renewed((), mixed) == topics
    assert len(topics) <= TOPICS_AT_MOST
    assert len(names(topics)) == len(topics)
    assert OTHER not in names(topics)
    for one in topics:
        assert len({q.unit for q in questions if one.name in q.words}) >= LEAST_STORIES


@given(st.lists(st.tuples(st.integers(0, 40), WORDS), max_size=200))
@examples(60)
def test_topics_stay_the_same_while_the_questions_do(given_questions: list[tuple[int, tuple[str, ...]]]) -> None:
    questions = [QuestionWords(f"u{unit}", words) for unit, words in given_questions]
    topics = renewed((), questions)
    assert set(topics) <= set(renewed(topics, questions))
