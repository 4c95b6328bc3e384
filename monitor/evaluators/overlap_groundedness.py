"""Measures how much of a response is in the retrieved context, by word overlap. No model; about a millisecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice, pairwise
from typing import ClassVar, NamedTuple

from monitor.evaluators._text import SENTENCE_END, Word, common_subsequence, keys_of_document, windows, words
from monitor.model.case import Case, Document
from monitor.model.outcome import DefectRule, Evidence, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

RESPONSE_CHARACTERS = 24_576
CONTEXT_CHARACTERS = 131_072
STRETCHES = 20
_STRETCH_WORDS = 40
_SUBSEQUENCE_WORDS = 2_000
_SUBSEQUENCE_MATCHES = 10_000
_COVERAGE_STEPS = 200_000
_QUESTION_CHARACTERS = 8_192
_THINGS = 2
_WEIGHTS = {"words": 0.35, "order": 0.25, "sentences": 0.25, "marked": 0.15}


class OverlapGroundedness(Evaluator):
    """The share of the response that the retrieved context supports, 0 (none) to 1 (all), higher is better.

    An untrained blend of four shares: content words that occur in the context (.35); content words in a longest common
    subsequence with it (.25); the content words of each sentence that occur in one sentence of the context, averaged
    over sentences (.25); numbers and names that occur in it (.15; left out if the response has none).

    It sees words, not meaning: a contradiction in the same words scores high; a free paraphrase scores low. An answer
    in another language than its documents is skipped (`language_mismatch`). A response that only refuses ("I do not
    know") claims nothing and is skipped (`refusal`). It knows only English function words and compares scripts without
    spaces by pairs of characters. Of a response over 24,576 characters it reads that many: three quarters from the
    start, one quarter from the end. Of a context over 131,072 characters it reads the same share of every document,
    from its start.
    """

    name: ClassVar[str] = "overlap_groundedness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(
        unsupported=0.0, mostly_unsupported=0.2, partly_supported=0.4, mostly_supported=0.6, supported=0.8
    )
    needs: ClassVar[frozenset[Needs]] = frozenset({"context", "response"})
    measures: ClassVar[Measures | None] = "grounding"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.45)
    """Of 446 human-labelled answers of the mtRAG benchmark (17 % defective), 4 % of the good ones and 51 % of the
    defective ones are below it. A starting point: labels from your own service give a better threshold."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. An empty context supports nothing.

        Skipped if the response has no content word, only refuses, or is in another language than the context.
        """
        from monitor.evaluators._language import in_another_language  # noqa: PLC0415 - as below
        from monitor.evaluators._refusals import is_pure_refusal  # noqa: PLC0415 - its patterns are slow to compile

        found = [
            word
            for offset, text in windows(case.response, RESPONSE_CHARACTERS)
            for word in _shifted(words(text), offset)
        ]
        content = [word for word in found if word.content]
        if not content:
            return Skipped(SkippedReason.NO_CLAIMS if case.response.strip() else SkippedReason.NO_RESPONSE)
        if is_pure_refusal(case):
            return Skipped(SkippedReason.REFUSAL)
        if in_another_language(case.response, [document.content for document in case.retrieved_context]):
            return Skipped(SkippedReason.LANGUAGE_MISMATCH)
        context = [keys_of_document(text) for text in _read(case.retrieved_context)]
        said = {word.key for word in content} | {SENTENCE_END}
        shared = [list(filter(said.__contains__, document)) for document in context]
        question = words(case.request.query[:_QUESTION_CHARACTERS])
        measured = _measure(content, shared)
        value = measured.value()
        absent = _stretches(found, measured.known)
        evidence = tuple(Evidence(case.response[start:end], "absent", start, end) for start, end in absent)
        explanation = measured.sentence(len(evidence))
        if len(case.response) > RESPONSE_CHARACTERS:
            explanation += f" Read: {RESPONSE_CHARACTERS} of {len(case.response)} characters."
        measures = measured.measures() | _shape(
            found, content, measured.known, question, documents=context, shared=shared
        )
        used = _used_sources({word.key for word in question}, content, shared)
        return Score(value, explanation, self.scale.level(value), evidence, measures, used_sources=used)


class _Measured(NamedTuple):
    """Counts behind a score."""

    known: frozenset[str]
    supported: int
    content: int
    in_order: int
    coverage: float
    sentences: int
    marked_supported: int
    marked: int

    def value(self) -> float:
        shares = {
            "words": self.supported / self.content,
            "order": self.in_order / min(self.content, _SUBSEQUENCE_WORDS),
            "sentences": self.coverage,
        }
        if self.marked:
            shares["marked"] = self.marked_supported / self.marked
        blend = sum(_WEIGHTS[part] * share for part, share in shares.items())
        return min(max(blend / sum(_WEIGHTS[part] for part in shares), 0.0), 1.0)

    def measures(self) -> dict[str, float]:
        """Return what is learned from, as far as it follows from the counts: what is absent, and how much there is."""
        return {
            "value_absent": 1 - self.value(),
            "marked_absent_n": float(self.marked - self.marked_supported),
            "n_sentences": float(self.sentences),
            "novel_words": float(self.content - self.supported),
        }

    def sentence(self, stretches: int) -> str:
        said = f"{self.supported} of {self.content} content words are in the context"
        if self.marked:
            said += f", and {self.marked_supported} of {self.marked} numbers and names"
        if not stretches:
            return said + "."
        many = f"{stretches}{' or more' if stretches == STRETCHES else ''} unsupported passages"
        return f"{said}; {'1 unsupported passage' if stretches == 1 else many}."


def _measure(content: Sequence[Word], context: Sequence[Sequence[str]]) -> _Measured:
    """Count what the context supports; `context` has by document those keys that content words of the response have."""
    keys = [word.key for word in content]
    # A word in very many sentences says little about any one of them. Without a bound, the cost would grow with the
    # product of both texts.
    at_most = max(8, _COVERAGE_STEPS // len(content))
    postings: dict[str, list[int]] = {}
    number = 0
    for document in context:
        for key in document:
            if key == SENTENCE_END:
                number += 1
                continue
            places = postings.get(key)
            if places is None:
                postings[key] = [number]
            elif places[-1] != number and len(places) < at_most:
                places.append(number)
        number += 1
    in_order = filter(SENTENCE_END.__ne__, chain.from_iterable(context))
    known = frozenset(postings)
    of_sentence: dict[int, list[str]] = defaultdict(list)
    for word in content:
        of_sentence[word.sentence].append(word.key)
    shares = [_best_share(said, postings) for said in of_sentence.values()]
    marked = [word.key for word in content if word.marked]
    return _Measured(
        known=known,
        supported=sum(map(known.__contains__, keys)),
        content=len(content),
        in_order=common_subsequence(keys[:_SUBSEQUENCE_WORDS], islice(in_order, _SUBSEQUENCE_MATCHES)),
        coverage=sum(shares) / len(shares),
        sentences=len(shares),
        marked_supported=sum(map(known.__contains__, marked)),
        marked=len(marked),
    )


def _used_sources(asked: set[str], content: Sequence[Word], sources: Sequence[Sequence[str]]) -> str:
    """Return a digit for each source: 1 where the response uses it.

    It does if it says at least two things that the question does not and the source does, where a thing is two content
    words in a row, a number or a name; or if half of its new content words are in the source. Of a response with only
    one thing to say, one is enough. A free paraphrase is not noticed.

    Args:
        asked: the keys of the question.
        content: the content words of the response.
        sources: the keys of each source that content words of the response have, with `SENTENCE_END`.
    """
    new = {word.key for word in content} - asked
    if not new:
        return ""
    names = {word.key for word in content if word.marked} & new
    pairs = {pair for pair in pairwise(_with_ends(content)) if not new.isdisjoint(pair)}
    pairs = {pair for pair in pairs if SENTENCE_END not in pair}
    wanted = new.union((SENTENCE_END,), *pairs)
    return "".join("1" if _uses(source, new, names, pairs, wanted) else "0" for source in sources)


def _uses(source: Sequence[str], new: set[str], names: set[str], pairs: set[tuple[str, str]], wanted: set[str]) -> bool:
    enough = min(_THINGS, len(names) + len(pairs)) or _THINGS
    held = list(filter(wanted.__contains__, source))
    said = pairs.intersection(pairwise(held))
    return len(said) + len(names.intersection(held)) >= enough or 2 * len(new.intersection(held)) >= len(new)


def _with_ends(found: Iterable[Word]) -> list[str]:
    """Return the keys of words, with `SENTENCE_END` between two sentences."""
    keys: list[str] = []
    last: int | None = None
    for key, _, _, _, _, sentence in found:
        if sentence != last and last is not None:
            keys.append(SENTENCE_END)
        last = sentence
        keys.append(key)
    return keys


def _shape(
    found: Sequence[Word],
    content: Sequence[Word],
    known: frozenset[str],
    question: Sequence[Word],
    *,
    documents: Sequence[Sequence[str]],
    shared: Sequence[Sequence[str]],
) -> dict[str, float]:
    """Return what is learned from besides the counts: how the response is made of the context and of the question.

    `found` are all words of the response and `content` those with content, `known` the keys of the latter that the
    context has. `documents` are the keys of each document, `shared` those among them that content words of the response
    have; both with `SENTENCE_END`.

    - `trigrams_absent`: the share of three consecutive words of a sentence that no sentence of the context has so.
    - `drift`: the share absent of the last third of the content words, minus that of the first third.
    - `doc_share`: 1 - the largest share of the content words that one document has.
    - `type_token`: different content words, per content word.
    - `question_absent`: the share of the question's different content words that the context does not have.
    """
    said = _with_ends(found)
    triples = [one for one in zip(said, said[1:], said[2:], strict=False) if SENTENCE_END not in one]
    new = set(triples)
    asked = {word.key for word in question if word.content}
    absent_asked = asked - known
    for keys in documents:
        new.difference_update(zip(keys, keys[1:], keys[2:], strict=False))
        absent_asked.difference_update(keys)
    often = Counter([word.key for word in content])
    most = max((sum(map(often.__getitem__, set(one).intersection(often))) for one in shared), default=0)
    third = len(content) // 3
    absent = [word.key not in known for word in content]
    return {
        "trigrams_absent": sum(map(new.__contains__, triples)) / len(triples) if triples else 0.0,
        "drift": (sum(absent[-third:]) - sum(absent[:third])) / third if third else 0.0,
        "doc_share": 1 - most / len(content),
        "type_token": len(often) / len(content),
        "question_absent": len(absent_asked) / len(asked) if asked else 0.0,
    }


def _best_share(keys: Sequence[str], postings: dict[str, list[int]]) -> float:
    """Return the largest share of `keys` that is in one sentence of the context."""
    held = Counter(chain.from_iterable(map(postings.__getitem__, filter(postings.__contains__, keys))))
    return max(held.values(), default=0) / len(keys)


def _stretches(found: Sequence[Word], known: frozenset[str]) -> list[tuple[int, int]]:
    """Return the largest unsupported stretches, at most `STRETCHES`, in order of offset.

    A stretch extends from one absent content word to the next if at most one supported content word is between them,
    within a sentence. A single absent word counts only if it is a number or a name: others are mostly word choice.
    """
    stretches: list[tuple[int, int, int, bool]] = []  # words absent, start, end, has a number or name
    open_since = gap = 0
    sentence = -1
    for word in found:
        if not word.content:
            continue
        if word.key in known:
            gap += 1
            continue
        if stretches and word.sentence == sentence and gap <= 1 and open_since < _STRETCH_WORDS:
            absent, start, _, marked = stretches[-1]
            stretches[-1] = (absent + 1, start, word.end, marked or word.marked)
            open_since += 1
        else:
            stretches.append((1, word.start, word.end, word.marked))
            open_since = 1
        sentence, gap = word.sentence, 0
    telling = [one for one in stretches if one[0] > 1 or one[3]]
    kept = sorted(telling, key=lambda one: -one[0])[:STRETCHES]
    return sorted((start, end) for _, start, end, _ in kept)


def _shifted(found: list[Word], offset: int) -> list[Word]:
    if not offset:
        return found
    # Number the sentences of the second window higher than those of the first.
    return [
        word._replace(start=word.start + offset, end=word.end + offset, sentence=word.sentence + offset)
        for word in found
    ]


def _read(documents: Sequence[Document]) -> list[str]:
    """Return the texts of the documents, each cut to the same share if together they are too long."""
    total = sum(len(document.content) for document in documents)
    share = min(1.0, CONTEXT_CHARACTERS / total) if total else 1.0
    return [document.content[: int(len(document.content) * share) + 1] for document in documents]
