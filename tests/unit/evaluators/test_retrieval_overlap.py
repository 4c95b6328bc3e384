"""Retrieval by overlap: the best document counts, empty context and empty questions are no score."""

from __future__ import annotations

import pytest

from monitor.evaluators.retrieval_overlap import RetrievalOverlap
from monitor.model.outcome import Skipped, SkippedReason
from tests.support.local_evaluators import assert_hostile_texts_take_linear_time, outcome, score

pytestmark = pytest.mark.anyio

LIBRARY = "The town library opens at nine. Books may be kept for three weeks."
ZOO = "The zoo feeds its penguins at noon. Tickets are sold at the gate."


async def value(query: str, *contexts: str) -> float:
    return (await score(RetrievalOverlap(), query=query, contexts=contexts)).value


async def test_a_document_with_every_word_of_the_question_scores_one_and_a_foreign_one_nothing() -> None:
    assert await value("How long may library books be kept?", f"Long: {LIBRARY}") == 1
    assert await value("How long may library books be kept?", ZOO) == 0


async def test_the_best_document_counts_not_the_sum_of_all() -> None:
    assert await value("library penguins", LIBRARY, ZOO) == 0.5
    assert await value("library penguins", LIBRARY) == 0.5
    assert await value("library books", ZOO, LIBRARY, ZOO) == 1


@pytest.mark.parametrize(
    ("query", "document", "other"),
    [
        (
            "Wie lange darf ich Bücher behalten?",
            "Bücher dürfen lange behalten werden; man darf sie verlängern.",
            "Der Zoo füttert seine Pinguine am Mittag.",
        ),
        ("¿Cuánto cuesta la tarjeta?", "La tarjeta cuesta doce euros.", "El zoo abre sus puertas por la mañana."),
        ("火星の衛星はいくつですか", "火星の衛星は二つです。いくつですか。", "ペンギンに餌をやるのは正午でした。"),
        ("화성의 위성은 몇 개입니까", "화성의 위성은 두 개입니다.", "동물원 문을 아침에 엽니다."),
    ],
)
async def test_questions_in_other_languages_find_their_documents(query: str, document: str, other: str) -> None:
    assert await value(query, document) >= 0.5
    assert await value(query, other) == 0


@pytest.mark.parametrize(
    "query", ["Wie lange darf ich Bücher behalten?", "火星の衛星はいくつですか", "Сколько стоит билет в зоопарк?"]
)
async def test_a_question_in_another_language_than_the_documents_is_skipped(query: str) -> None:
    assert await outcome(RetrievalOverlap(), query=query, contexts=[ZOO]) == Skipped(SkippedReason.LANGUAGE_MISMATCH)


async def test_the_evidence_is_the_words_that_the_best_document_lacks() -> None:
    found = await score(RetrievalOverlap(), query="Library penguins and Tigers", contexts=[LIBRARY])
    assert [(one.claim, one.verdict) for one in found.evidence] == [("penguins", "absent"), ("Tigers", "absent")]
    assert found.label == "loose"


@pytest.mark.parametrize("contexts", [[], [""], [" ", "\n"]])
async def test_a_search_that_found_nothing_scores_zero(contexts: list[str]) -> None:
    found = await score(RetrievalOverlap(), query="library hours", contexts=contexts)
    assert (found.value, found.label) == (0.0, "unrelated")
    assert [one.claim for one in found.evidence] == ["library", "hours"]


@pytest.mark.parametrize("query", ["", "?", "What is it?", "Why?"])
async def test_a_question_without_a_content_word_is_skipped(query: str) -> None:
    assert isinstance(await outcome(RetrievalOverlap(), query=query, contexts=[LIBRARY]), Skipped)


def test_hostile_texts_cost_no_more_than_others() -> None:
    assert_hostile_texts_take_linear_time(RetrievalOverlap())
