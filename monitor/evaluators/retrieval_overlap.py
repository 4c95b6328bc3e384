"""Measures whether the retrieved documents match the question, by word overlap. No model; well below a millisecond."""

from __future__ import annotations

from typing import ClassVar

from monitor.evaluators._language import in_another_language
from monitor.evaluators._text import keys_of_document, words
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Evidence, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

QUESTION_CHARACTERS = 8_192
CONTEXT_CHARACTERS = 131_072
_LISTED = 20
# Question words and function words, in languages that `_text` does not know.
_ASKING = frozenset(
    """
    tell explain describe give show know want need like does mean
    aber auch auf aus bei bitte das dass dem den der die diese ein eine einem einen einer für gibt habe haben hat
    ich ist kann können mein mit muss nach nicht oder sich sind und von wann warum was welche welcher welches wer wie
    wird wo zum zur über
    avec comment dans des est est-ce les mais mon pour pourquoi quand que quel quelle quelles quels qui quoi sont sur
    une vous
    comó cómo con cuál cuáles cuándo cuánto del dónde está hay las los para por qué quién son una
    che chi come con cosa dei del della delle dove gli nel per perché quale quali quando quanto sono
    como das dos está mais não onde para por porque qual quais quando quanto quem são tem uma
    для где если или как какие какой когда кто можно на почему при сколько что это
    """.split()  # noqa: SIM905 - quoted words would be harder to check
)


class RetrievalOverlap(Evaluator):
    """The share of the question's content words that occur in the best document, 0 (none) to 1 (all), higher is better.

    All words weigh the same: weighting by rarity over the few documents of one request was measured to be no better.
    Only the best document counts, so more documents do not mean a better score.

    It sees words, not meaning: documents that answer in other words score low; documents on the subject that do not
    answer score high. A question in a different language from the documents is skipped (`language_mismatch`). A
    follow-up question ("And how much is it?") is read without the turns before it. Scripts without spaces are compared
    by pairs of characters. It reads the first 8,192 characters of a question. If the documents have more than 131,072
    characters together, it reads the same share of each, from its start.
    """

    name: ClassVar[str] = "retrieval_overlap"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(unrelated=0.0, loose=0.2, partial=0.5, close=0.8)
    needs: ClassVar[frozenset[Needs]] = frozenset({"context"})
    measures: ClassVar[Measures | None] = "retrieval"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.2)
    """A starting point, chosen without labels of retrieval. Of the 150 questions of the mtRAG benchmark, 8 % are below
    it with their own documents and 72 % with those of another conversation."""
    definition: ClassVar[str] = "our own: the largest share of the question's distinct content words in one document"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. A search that found nothing scores 0.

        Skipped if the question has no content word or is in a different language from the documents.
        """
        documents = [document.content for document in case.retrieved_context]
        total = sum(map(len, documents))
        asked = _asked(case.request.query[:QUESTION_CHARACTERS])
        if not asked:
            return Skipped(SkippedReason.NO_REQUEST)
        if in_another_language(case.request.query, documents):
            return Skipped(SkippedReason.LANGUAGE_MISMATCH)
        share = min(1.0, CONTEXT_CHARACTERS / max(total, 1))
        best: set[str] = set()
        for text in documents:
            best = max(best, asked.keys() & keys_of_document(text[: int(len(text) * share) + 1]), key=len)
        value = len(best) / len(asked)
        absent = [Evidence(shown, "absent") for key, shown in asked.items() if key not in best]
        explanation = f"{len(best)} of {len(asked)} content words of the question are in the best document."
        return Score(value, explanation, self.scale.level(value), tuple(absent[:_LISTED]))


def _asked(question: str) -> dict[str, str]:
    """Return the question's distinct content words: the key of each, and its first spelling."""
    asked: dict[str, str] = {}
    for word in words(question):
        shown = question[word.start : word.end]
        if word.content and shown.casefold() not in _ASKING:
            asked.setdefault(word.key, shown)
    return asked
