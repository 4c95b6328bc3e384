"""Features of a case at the edges of their lengths and numbers, and the words of a question."""

from __future__ import annotations

import pytest

from monitor.model.case import Case, Document, Request
from monitor.model.service_version import ServiceVersion
from monitor.privacy.pseudonyms import UserKey
from monitor.storage.history.features import (
    MOST_BYTES,
    CaseFeatures,
    dump_features,
    features_of,
    load_features,
    words_of,
)
from monitor.storage.history.languages import language_of

KEY = UserKey(b"k" * 32)


def read(key: UserKey | None = KEY, used: str = "", **fields: object) -> CaseFeatures:
    return features_of(Case(**{"request_id": "r1", **fields}), ServiceVersion(), key, used=used)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("ab abc", ["abc"]),
        ("x" * 32, ["x" * 32]),
        ("x" * 33, []),
        ("Falcon FALCON falcon", ["falcon"]),
        ("the falcon and the eagle", ["falcon", "eagle"]),
        ("보증 은", ["보증"]),
        ("", []),
        ("a1b2 _x_", ["a1b2", "_x_"]),
    ],
)
def test_words_have_three_letters_or_two_of_korean_and_at_most_32(question: str, words: list[str]) -> None:
    assert words_of(question) == words


def test_the_first_24_words_of_2000_characters_are_read() -> None:
    assert words_of(" ".join(f"word{number}" for number in range(30))) == [f"word{number}" for number in range(24)]
    assert words_of("- " * 1000 + "falcon") == []
    assert words_of("- " * 997 + "falcon") == ["falcon"]
    assert words_of("- " * 997 + " falcon") == ["falco"]


def test_pairs_of_a_script_without_spaces_leave_out_endings_and_common_ones() -> None:
    assert words_of("保証のです") == ["保証", "証の"]
    assert words_of("可以") == []
    assert len(words_of("".join(chr(0x4E00 + 7 * number) for number in range(40)))) == 24


@pytest.mark.parametrize(("length", "kept"), [(160, "a" * 160), (161, "a" * 79 + "\u2026" + "a" * 80)])
def test_an_address_keeps_its_beginning_and_its_end(length: int, kept: str) -> None:
    assert read(retrieved_context=(Document("x", "a" * length),)).documents == (kept,)


def test_twelve_documents_are_named_each_once_and_all_are_counted() -> None:
    documents = tuple(Document("x", f"kb/{number % 15}") for number in range(20))
    found = read(retrieved_context=documents)
    assert (found.documents, found.number) == (tuple(f"kb/{number}" for number in range(12)), 20)


def test_documents_are_looked_at_up_to_four_times_as_many_as_are_named() -> None:
    repeated = tuple(Document("x", "kb/0") for _ in range(47))
    assert read(retrieved_context=(*repeated, Document("x", "kb/1"))).documents == ("kb/0", "kb/1")
    assert read(retrieved_context=(*repeated, Document("x", "kb/0"), Document("x", "kb/1"))).documents == ("kb/0",)


def test_a_document_is_known_by_its_uri_or_its_id_or_its_text() -> None:
    documents = (Document("x", "uri", doc_id="id"), Document("y", "", doc_id="id"), Document("same"), Document("same"))
    found = read(retrieved_context=documents).documents
    assert found[:2] == ("uri", "id")
    assert found[2:] == (f"text {KEY.word('same')}",)
    assert read(None, retrieved_context=documents).documents == ("uri", "id")
    long = [Document("x" * 4096 + end) for end in ("a", "b")]
    assert len(read(retrieved_context=tuple(long)).documents) == 1
    assert len(read(retrieved_context=(Document("x" * 4095 + "a"), Document("x" * 4095 + "b"))).documents) == 2


def test_a_document_that_comes_twice_is_used_where_either_is() -> None:
    documents = tuple(Document("x", name) for name in ("a", "b", "a", "c"))
    found = read(used="0011", retrieved_context=documents)
    assert (found.documents, found.used) == (("a", "b", "c"), "101")
    assert read(retrieved_context=documents).used == ""
    assert read(used="01", retrieved_context=documents).used == "01"


def test_the_best_score_of_the_retriever_is_kept_also_zero() -> None:
    assert read(retrieved_context=(Document("x", "a", score=-1.0), Document("x", "b", score=0.0))).score == 0.0
    assert read(retrieved_context=(Document("x", "a"),)).score is None


def test_slices_are_the_first_24_by_name_and_cut() -> None:
    attributes = {f"n{number:02}": "v" * 200 for number in range(30)} | {"empty": "", "gen_ai.response.id": "x"}
    found = read(attributes=attributes, model="m" * 200)
    assert list(found.slices) == [f"n{number:02}" for number in range(24)]
    assert ({len(value) for value in found.slices.values()}, len(found.model)) == ({128}, 128)
    versions = ServiceVersion(prompt="p" * 200, index="i", judge="j")
    found = features_of(Case(request_id="r"), versions, KEY)
    assert {name: len(value) for name, value in found.versions.items()} == {"prompt": 128, "index": 1}


def test_without_a_question_and_a_session_each_request_is_its_own_story() -> None:
    assert read(request=Request("  ")).unit == "r1"
    assert read(request=Request("Why?")).unit == KEY.word("question why?")
    assert read(request=Request("Why?"), session_id="s").unit == KEY.word("session s")
    assert read(None, request=Request("Why?"), session_id="s").unit == "r1"


def test_of_too_large_features_words_go_first_and_then_documents_and_slices() -> None:
    def kept(**sizes: int) -> set[str]:
        many = {name: tuple("x" * 100 for _ in range(size)) for name, size in sizes.items() if name != "slices"}
        slices = {f"{number:04}": "x" * 100 for number in range(sizes.get("slices", 0))}
        body = dump_features(CaseFeatures(unit="u", slices=slices, model="m", **many))
        assert len(body) <= MOST_BYTES
        found = load_features(body)
        return {name for name in ("words", "documents", "slices", "model") if getattr(found, name)}

    assert kept(words=10, documents=10, slices=10) == {"words", "documents", "slices", "model"}
    assert kept(words=30, documents=10, slices=10) == {"documents", "slices", "model"}
    assert kept(words=30, documents=25, slices=10) == {"documents", "slices", "model"}
    assert kept(words=1, documents=39, slices=10) == {"slices", "model"}
    assert kept(words=1, documents=1, slices=60) == {"model"}


def test_features_of_just_their_size_are_whole() -> None:
    empty = len(dump_features(CaseFeatures(unit="u", words=("",))))
    for more, words in ((0, 1), (1, 0)):
        one = CaseFeatures(unit="u", words=("x" * (MOST_BYTES - empty + more),))
        assert len(load_features(dump_features(one)).words) == words


def test_zeros_are_kept_and_what_is_empty_is_not_written() -> None:
    assert b"number" in dump_features(CaseFeatures(unit="u", number=0))
    assert b"words" not in dump_features(CaseFeatures(unit="u"))
    assert b"score" not in dump_features(CaseFeatures(unit="u"))
    assert load_features(dump_features(CaseFeatures(unit="u", score=0.0))).score == 0.0


# -- the language of a question


def test_a_language_is_known_by_two_words_and_one_is_too_few() -> None:
    assert language_of("garantie mein") == "other"
    assert language_of("garantie mein nicht") == "de"


def test_words_of_two_languages_in_equal_parts_are_of_neither() -> None:
    assert language_of("the what nicht mein") == "other"


def test_a_letter_of_a_denser_script_counts_for_more() -> None:
    assert language_of("\u4fdd\u4fee abcdef") == "zh"
    assert language_of("\u4fdd\u4fee abcdefg") == "other"
    assert language_of("\uc81c abc") == "other"
    assert language_of("\uc81c\uc81c abc") == "ko"


@pytest.mark.parametrize(("before", "found"), [(498, "th"), (500, "")])
def test_five_hundred_characters_are_read(before: int, found: str) -> None:
    assert language_of(" " * before + "\u0e01\u0e02") == found


WORD_OF_ARABIC = "\u0643\u0644\u0645\u0629"


@pytest.mark.parametrize(("more", "code"), [(" \u0679", "ur"), (" \u067e", "fa"), ("", "ar")])
def test_a_letter_that_only_one_language_has_tells_it(more: str, code: str) -> None:
    assert language_of(f"{WORD_OF_ARABIC}{more}") == code


def test_cyrillic_words_are_no_latin_ones() -> None:
    house = "\u0434\u043e\u043c"
    assert language_of("\u044d\u0442\u043e \u0441\u043b\u043e\u0432\u043e") == "ru"
    assert language_of(f"a na do {house} {house}\u0430 {house}\u0443 {house}\u043e\u043c") == "other"
