"""The local evaluator: scores that order answers rightly, evidence that points at what is absent, bounded cost."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.evaluators._text import common_subsequence, sentences_of_keys, words
from monitor.evaluators.overlap_groundedness import RESPONSE_CHARACTERS, STRETCHES, OverlapGroundedness
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason
from monitor.statistics.defect_model import INPUTS, are_inputs, inputs
from tests.support.examples import examples
from tests.support.local_evaluators import finish
from tests.support.paths import DATA
from tests.support.work import assert_linear

pytestmark = pytest.mark.anyio

SAMPLE = DATA / "labelled_sample.jsonl"
LIBRARY = "The town library opens at 9:00 from Tuesday to Saturday. Books may be kept for three weeks."


async def outcome(response: str, *contexts: str) -> Outcome:
    case = Case(
        request_id="1", request=Request("?"), retrieved_context=tuple(map(Document, contexts)), response=response
    )
    return await OverlapGroundedness().evaluate(case, None)


async def score(response: str, *contexts: str) -> Score:
    found = await outcome(response, *contexts)
    assert isinstance(found, Score)
    return found


async def claims(response: str, *contexts: str) -> list[str]:
    found = await score(response, *contexts)
    for one in found.evidence:
        assert one.verdict == "absent"
        assert response[one.start : one.end] == one.claim
    return [one.claim for one in found.evidence]


def seen(response: str, *contexts: str, question: str = "") -> Outcome:
    return finish(OverlapGroundedness().evaluate(Case.from_texts(question, response, contexts), None))


def measured(response: str, *contexts: str, question: str = "") -> dict[str, float]:
    found = seen(response, *contexts, question=question)
    assert isinstance(found, Score)
    return dict(found.measures)


class TestMeasures:
    def test_they_are_the_inputs_of_what_learns(self) -> None:
        found = seen("Books may be kept for nine months in Paris.", LIBRARY)
        assert isinstance(found, Score)
        assert tuple(sorted(found.measures)) == tuple(sorted(INPUTS))
        assert found.measures["value_absent"] == pytest.approx(1 - found.value)

    def test_counts_are_of_what_is_absent_and_of_sentences_with_content(self) -> None:
        found = measured("Books may be kept for 12 months in Paris. It is so. The library opens.", LIBRARY)
        assert (found["marked_absent_n"], found["novel_words"], found["n_sentences"]) == (2, 3, 2)

    def test_three_words_in_a_row_count_as_held_only_within_a_sentence_of_the_context(self) -> None:
        assert measured("books may be kept", LIBRARY)["trigrams_absent"] == 0
        assert measured("kept books may be", LIBRARY)["trigrams_absent"] == 0.5
        assert measured("to Saturday books", "open to Saturday. Books are kept.")["trigrams_absent"] == 1
        assert measured("library books", LIBRARY)["trigrams_absent"] == 0, "no three words"

    def test_drift_is_how_much_more_of_the_end_than_of_the_beginning_is_absent(self) -> None:
        assert measured("library books kept elephants", LIBRARY)["drift"] == 1
        assert measured("elephants library books kept", LIBRARY)["drift"] == -1
        assert measured("library elephants", LIBRARY)["drift"] == 0

    def test_an_answer_put_together_from_several_documents_has_less_of_each(self) -> None:
        assert measured("library books", "a library", "some books")["doc_share"] == 0.5
        assert measured("library books", "some books", "library of books")["doc_share"] == 0
        assert measured("library books", "nothing here")["doc_share"] == 1

    def test_repeated_words_and_words_of_the_question_that_the_context_lacks(self) -> None:
        found = measured("library library library books", LIBRARY, question="Where is the library in Paris?")
        assert (found["type_token"], found["question_absent"]) == (0.5, 0.5)
        assert measured("library", LIBRARY)["question_absent"] == 0

    @given(response=st.text(max_size=200), contexts=st.lists(st.text(max_size=200), max_size=4), question=st.text())
    def test_of_any_text_they_are_finite_and_shares_are_shares(self, response, contexts, question) -> None:
        found = seen(response, *contexts, question=question)
        if isinstance(found, Score):
            assert all(map(math.isfinite, found.measures.values()))
            shares = ("value_absent", "trigrams_absent", "doc_share", "type_token", "question_absent")
            assert all(0 <= found.measures[name] <= 1 for name in shares)
            assert -1 <= found.measures["drift"] <= 1
            assert are_inputs(inputs({"overlap_groundedness": found}, "overlap_groundedness") or ())

    @pytest.mark.parametrize("text", ["word " * 40_000, "a. " * 40_000, "\u6f22" * 40_000, "?" * 40_000, "x" * 40_000])
    def test_a_huge_question_is_read_in_part(self, text) -> None:
        assert 0 <= measured("The library opens.", LIBRARY, question=text)["question_absent"] <= 1


class TestScore:
    async def test_it_separates_supported_from_unsupported_answers_in_six_languages(self) -> None:
        rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
        good = [(await score(r["response"], *r["contexts"])).value for r in rows if r["label"] == 0]
        bad = [(await score(r["response"], *r["contexts"])).value for r in rows if r["label"] == 1]
        pairs = [(g > b) + (g == b) / 2 for g in good for b in bad]
        assert sum(pairs) / len(pairs) > 0.97
        rule = OverlapGroundedness.default_defect
        assert sum(g < rule.threshold for g in good) == 0
        assert sum(b < rule.threshold for b in bad) >= len(bad) - 1

    async def test_an_answer_copied_from_the_context_is_fully_supported(self) -> None:
        found = await score("Books may be kept for three weeks.", LIBRARY)
        assert (found.value, found.label, found.evidence) == (1.0, "supported", ())

    async def test_an_answer_without_a_word_of_the_context_is_unsupported(self) -> None:
        found = await score("Parrots prefer mangoes during winter storms.", LIBRARY)
        assert (found.value, found.label) == (0.0, "unsupported")

    async def test_a_false_number_lowers_the_score(self) -> None:
        true = await score("A card costs 12 euros.", "A card costs 12 euros a year.")
        false = await score("A card costs 95 euros.", "A card costs 12 euros a year.")
        assert false.value < true.value - 0.2

    async def test_words_scattered_over_the_context_support_less_than_a_sentence_of_it(self) -> None:
        together = await score("Green lamps blink.", "Green lamps blink. Red doors close.")
        scattered = await score("Green doors blink.", "Green lamps blink. Red doors close.")
        assert scattered.value < together.value

    async def test_inflection_case_and_thousands_separators_do_not_matter(self) -> None:
        found = await score("LIBRARIES charged 1,200 readers", "Reader numbers: the library charges 1200 of them.")
        assert not found.evidence

    @pytest.mark.parametrize("response", ["", "   ", "\u2026", "Yes.", "No!", "\U0001f44d", "It is."])
    async def test_an_answer_without_content_is_skipped_not_scored(self, response: str) -> None:
        reason = SkippedReason.NO_CLAIMS if response.strip() else SkippedReason.NO_RESPONSE
        assert await outcome(response, LIBRARY) == Skipped(reason)

    @pytest.mark.parametrize("contexts", [(), (LIBRARY,)])
    async def test_a_response_that_only_refuses_is_skipped(self, contexts: tuple[str, ...]) -> None:
        for response in (
            "I do not know.",
            "Das steht leider nicht in den Dokumenten.",
            "Sorry, I can't help with that.",
        ):
            assert await outcome(response, *contexts) == Skipped(SkippedReason.REFUSAL)

    async def test_a_refusal_that_claims_something_is_scored_by_the_claim(self) -> None:
        found = await score("I don't know exactly, but Parrots prefer mangoes during winter storms.", LIBRARY)
        assert (found.value, found.label) == (0.0, "unsupported")

    @pytest.mark.parametrize(
        "response",
        [
            "Bücher können Sie drei Wochen lang behalten.",
            "Les livres sont prêtés pour trois semaines.",
            "Книги выдаются на три недели.",
            "图书可以借三个星期。",
        ],
    )
    async def test_an_answer_in_another_language_than_the_documents_is_skipped(self, response: str) -> None:
        assert await outcome(response, LIBRARY) == Skipped(SkippedReason.LANGUAGE_MISMATCH)
        assert isinstance(await outcome(response, LIBRARY, response), Score), "one document is in its language"

    @pytest.mark.parametrize("contexts", [(), ("",), (" \n", "...")])
    async def test_an_empty_context_supports_nothing(self, contexts: tuple[str, ...]) -> None:
        found = await score("Books may be kept for 7 weeks.", *contexts)
        assert (found.value, found.label) == (0.0, "unsupported")
        assert [one.claim for one in found.evidence] == ["Books may be kept for 7 weeks"]

    async def test_the_explanation_counts_what_was_found(self) -> None:
        found = await score("Books may be kept for nine weeks in Oslo.", LIBRARY)
        assert found.explanation == (
            "3 of 5 content words are in the context, and 0 of 1 numbers and names; 1 unsupported passage."
        )


class TestEvidence:
    async def test_it_names_the_unsupported_stretch_by_offset(self) -> None:
        found = await claims("Books may be kept for three weeks, and Mr Halloran sends a courier.", LIBRARY)
        assert found == ["Mr Halloran sends a courier"]

    async def test_a_single_absent_number_or_name_is_evidence_a_single_absent_word_is_not(self) -> None:
        assert await claims("Books may be kept for 7 weeks.", LIBRARY) == ["7"]
        assert await claims("Gladly, books may be kept for three weeks.", LIBRARY) == []

    async def test_a_stretch_ends_with_its_sentence(self) -> None:
        found = await claims("Parrots eat mangoes. Zebras drink lemonade.", LIBRARY)
        assert found == ["Parrots eat mangoes", "Zebras drink lemonade"]

    async def test_the_numbers_of_a_list_are_no_claims(self) -> None:
        assert await claims("1. Books may be kept.\n2) Three weeks.", LIBRARY) == []

    async def test_in_a_script_without_spaces_it_points_at_characters(self) -> None:
        assert await claims("返品は一年以内です。", "返品は三十日以内に可能です。") == ["は一年以内で"]

    async def test_it_is_limited_to_the_largest_stretches(self) -> None:
        found = await score("\n".join(f"Parrots eat {n} mangoes" for n in range(100)), LIBRARY)
        assert len(found.evidence) == STRETCHES
        assert f"{STRETCHES} or more" in found.explanation


class TestBounds:
    @examples(150)
    @given(st.text(), st.lists(st.text(), max_size=3))
    def test_no_text_raises_and_every_score_is_on_the_scale(self, response: str, contexts: list[str]) -> None:
        case = Case(request_id="1", retrieved_context=tuple(map(Document, contexts)), response=response)
        running = OverlapGroundedness().evaluate(case, None)
        with pytest.raises(StopIteration) as ended:  # it never waits, so it ends at the first step
            running.send(None)
        found = ended.value.value
        if isinstance(found, Score):
            assert OverlapGroundedness.scale.holds(found.value)
            assert all(response[one.start : one.end] == one.claim != "" for one in found.evidence)
        else:
            assert isinstance(found, Skipped)

    @examples(100)
    @given(st.text(max_size=60) | st.text(alphabet="ab .,\n1A\u8fd4\u54c1\u0301'\u2019\u00bd_\uff21", max_size=60))
    def test_a_text_supports_itself(self, text: str) -> None:
        known = {key for sentence in sentences_of_keys(text) for key in sentence}
        assert {word.key for word in words(text)} <= known

    @pytest.mark.parametrize(
        "response",
        [
            "word " * 20_000,
            "." * 100_000 + "x",
            "a1. " * 25_000,
            "\u8fd4\u54c1\u306f\u4e09\u5341\u65e5" * 15_000,
            "1." * 50_000,
            "\u0301" * 100_000,
            "a'" * 50_000,
        ],
    )
    def test_the_cost_of_a_huge_answer_is_bounded(self, response: str) -> None:
        """50 ms for prose on an idle machine."""
        assert_linear(lambda part: finish(outcome(part, part)), response)

    async def test_of_a_huge_answer_the_beginning_and_the_end_are_read_with_true_offsets(self) -> None:
        middle = "books may be kept. " * (2 * RESPONSE_CHARACTERS // 19)
        response = f"Parrots eat mangoes. {middle} Zebras drink lemonade."
        assert await claims(response, LIBRARY) == ["Parrots eat mangoes", "Zebras drink lemonade"]
        assert f"of {len(response)} characters" in (await score(response, LIBRARY)).explanation


class TestWords:
    def test_offsets_are_those_of_the_text(self) -> None:
        text = "Die Bücher kosten 1.200,50 €, Öffnungszeit: 9:00."
        assert [text[w.start : w.end] for w in words(text) if w.marked] == [
            "Bücher",
            "1.200,50",
            "Öffnungszeit",
            "9",
            "00",
        ]

    def test_vowel_signs_belong_to_their_word(self) -> None:
        assert len(words("पुस्तकालय खुलता")) == 2

    @settings(deadline=None)
    @given(st.text("abcd", max_size=12), st.text("abcd", max_size=12))
    def test_the_common_subsequence_is_as_long_as_the_textbook_says(self, one: str, other: str) -> None:
        table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
        for i, a in enumerate(one):
            for j, b in enumerate(other):
                table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
        assert common_subsequence(list(one), list(other)) == table[-1][-1]
