"""When two texts are the same, when one says no more than others, and when a document stands in a prompt."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction import evidence
from monitor.model.case import Document

LETTERS = st.text("abcdefghij", min_size=1, max_size=12)


def words(count: int, of: str = "word") -> str:
    return " ".join(f"{of}{number}" for number in range(count))


# -- texts by their words


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("It is  \u201cbest\u201d \u2014 really\u2026", "it is best really"),
        (r"one\ntwo\tthree\rfour", "one two three four"),
        (r"caf\u00e9", "café"),
        (json.dumps("Straße\nüber"), "straße über"),
        ("snake_case, and 42!", "snake_case and 42"),
        ("年度\u3001套餐 (一)", "年度 套餐 一"),
        ("…", ""),
        ("", ""),
        ("?!", ""),
        ("x" * 100 + "\u3001" + "年" * 100, "x" * 100 + " " + "年" * 100),
    ],
)
@pytest.mark.parametrize("times", [1, 600, 3000])
def test_a_text_is_reduced_to_its_words_whatever_its_length(written: str, read: str, times: int) -> None:
    assert evidence.folded("\n".join([written] * times)) == " ".join([read] * times if read else [])


# -- lists of documents


def test_merging_keeps_bare_ids_of_which_no_text_is_known_once() -> None:
    bare, nameless = Document("", doc_id="1"), Document("", "s3://a")
    assert evidence.merge([[bare, Document("Text.", doc_id="2")], [bare, nameless]]) == (
        bare,
        Document("Text.", doc_id="2"),
        nameless,
    )


def test_merging_keeps_a_document_without_id_beside_texts_without_ids() -> None:
    assert evidence.merge([[Document("Text."), Document("", "s3://a")]]) == (Document("Text."), Document("", "s3://a"))


def test_a_bare_id_keeps_what_it_says_itself_and_takes_the_rest_from_the_known_text() -> None:
    known = [Document("Text.", "s3://known", "1", 0.3)]
    assert evidence.fill([Document("", "s3://own", "1")], known) == (Document("Text.", "s3://own", "1", 0.3),)
    assert evidence.fill([Document("", "", "1", 0.0)], known) == (Document("Text.", "s3://known", "1", 0.0),)
    assert evidence.fill([Document("Mine.", "", "1")], known) == (Document("Mine.", "", "1"),)


def test_a_document_without_an_id_is_filled_from_none() -> None:
    assert evidence.fill([Document("")], [Document("Text.")]) == (Document(""),)


def test_the_same_text_twice_under_one_id_is_one_text() -> None:
    known = [Document("Text.", "", "1", 0.9), Document("Text.", "", "1", 0.1), Document("", "", "1")]
    assert evidence.fill([Document("", "", "1")], known) == (Document("Text.", "", "1", 0.9),)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Document("A b."), Document("a B"), True),
        (Document("", doc_id="1"), Document("Text.", doc_id="1"), True),
        (Document("One.", doc_id="1"), Document("Two.", doc_id="2"), False),
        (Document("", "s3://a"), Document("", "s3://a"), False),
        (Document("1"), Document("", doc_id="1"), False),
    ],
)
def test_documents_are_the_same_by_their_id_or_by_their_text(first: Document, second: Document, same: bool) -> None:
    other = Document("Something else.", doc_id="9")
    assert evidence.share([other, first], [second]) is same
    assert evidence.sharing([first])([second, other]) is same
    assert evidence.within([first], [other, second]) is same
    assert evidence.within([first, Document("Third.")], [first, second]) is False
    assert evidence.share([], [second]) is False
    assert evidence.within([], [second]) is True


# -- documents in prompts


def test_documents_are_in_the_order_of_the_prompts_and_of_their_places_there() -> None:
    one, two, three = (Document(f"Text number {name}.") for name in ("one", "two", "three"))
    prompts = [f"{three.content} {two.content}", f"{one.content} {three.content}"]
    assert evidence.reached([one, two, three], prompts) == (three, two, one)


def test_a_document_without_words_is_in_no_prompt() -> None:
    assert evidence.reached([Document(""), Document("...")], ["Any text."]) == ()
    assert evidence.reached([Document("Any text.")], []) == ()


def test_looking_ends_where_documents_times_characters_pass_the_limit() -> None:
    found = [Document(f"text {number}") for number in range(1_000)]
    text = "text 7 " + "x" * (100_000 - len("text 7 "))
    assert evidence.reached(found, [text]) == (found[7],)
    assert evidence.reached(found, [text + "x"]) == ()


def test_the_beginning_of_a_document_is_enough_only_where_it_is_long() -> None:
    short, long = "a" * 80, "a" * 80 + "b"
    assert evidence.reached([Document(long)], ["a" * 80 + "c"]) == (Document(long),)
    assert evidence.reached([Document(short)], ["a" * 79 + "c"]) == ()
    assert evidence.reached([Document(long)], ["a" * 79 + "c"]) == ()


@pytest.mark.parametrize(("kept", "found"), [(10, True), (4, False)])
def test_half_of_the_pieces_of_a_long_document_are_enough(kept: int, found: bool) -> None:
    pieces = [f"{number:02}" * 20 for number in range(10, 20)]  # of 40 characters, as they are looked for
    text, sent = "".join(pieces), " ".join(["lead", *pieces[10 - kept :]])
    assert bool(evidence.reached([Document(text)], [sent])) is found


def test_a_document_found_by_its_pieces_stands_where_the_first_of_them_does() -> None:
    pieces = [f"{number:02}" * 20 for number in range(10, 20)]
    long, other = Document("".join(pieces)), Document("another text")
    sent = " ".join([*reversed(pieces[1:]), "another text"])
    assert evidence.reached([other, long], [sent]) == (long, other)


# -- what says more


def test_a_part_of_another_text_says_no_more_unless_it_is_short() -> None:
    known = [Document("The warranty of a bike is two years.")]
    assert evidence.beyond([Document("warranty of a bike is")], known) == ()  # 20 characters and more
    assert evidence.beyond([Document("of a bike is two yea")], known) == ()
    short = Document("of a bike is two ye")
    assert evidence.beyond([short], known) == (short,)


def test_a_text_of_which_half_is_known_says_no_more() -> None:
    known = Document("k" * 20)
    for size, more in ((20, False), (21, True)):
        one = Document("k" * 20 + "n" * size)
        assert bool(evidence.beyond([one], [known])) is more


def test_pieces_that_are_short_are_no_part_of_what_is_known() -> None:
    one = Document("k" * 19 + "n")
    assert evidence.beyond([one], [Document("k" * 19)]) == (one,)


def test_what_comes_twice_is_kept_once_and_what_has_no_words_never() -> None:
    one, again = Document("It is 21 degrees."), Document("it is 21 DEGREES")
    assert evidence.beyond([one, Document("..."), again], [Document("")]) == (one,)


def test_texts_that_are_too_many_to_compare_are_only_told_from_the_same() -> None:
    known = [Document(f"{number:04} " + "k" * 4_000) for number in range(400)]
    part = Document("k" * 4_000)
    assert evidence.beyond([part], known[:1]) == ()
    others = [Document(f"{number:05}") for number in range(100)]
    assert part in evidence.beyond([part, *others], known)
    assert evidence.beyond([known[3], *others], known) == tuple(others)


@pytest.mark.parametrize(
    ("text", "said", "agrees"),
    [
        ("So it is.", ["so it is"], True),
        ("Well, so it is!", ["so it is"], True),
        ("a" * 20, ["b" + "a" * 20 + "b"], True),
        ("a" * 19, ["b" + "a" * 19 + "b"], False),
        ("Not so.", ["so it is"], False),
        ("So.", [], False),
    ],
)
def test_a_text_agrees_with_what_it_holds_and_a_long_one_with_what_holds_it(
    text: str, said: list[str], agrees: bool
) -> None:
    assert evidence.agree(text, said) is agrees


@pytest.mark.parametrize(
    ("part", "held"),
    [
        ("bike price", True),
        ("one", True),
        ("price other", True),
        ("price other more", False),
        ("none", False),
        ("price price", False),  # one word, and not as written
    ],
)
def test_a_prompt_holds_a_text_or_at_least_half_of_its_words(part: str, held: bool) -> None:
    assert evidence.holding("What is the bike, price of one?")(part) is held


@given(st.lists(LETTERS, min_size=1, max_size=6))
def test_documents_that_were_sent_as_they_are_are_all_found(texts: list[str]) -> None:
    found = evidence.reached([Document(text) for text in texts], [f"Context: {' / '.join(texts)}"])
    assert sorted(one.content for one in found) == sorted(texts)


@given(st.lists(LETTERS, max_size=5), st.lists(LETTERS, max_size=5))
def test_nothing_that_is_kept_was_known(new: list[str], known: list[str]) -> None:
    kept = [one.content for one in evidence.beyond([Document(text) for text in new], [Document(one) for one in known])]
    assert len(set(kept)) == len(kept)
    assert set(kept) == set(new) - set(known)
