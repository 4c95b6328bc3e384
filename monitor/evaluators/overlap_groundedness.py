"""Measures how much of a response is in the retrieved context, by word overlap. No model; about a millisecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    subsequence with it (.25); the content words of each sentence that occur in a single sentence of the context,
    averaged over sentences (.25); numbers and names that occur in it (.15; left out if the response has none).

    It sees words, not meaning: a contradiction in the same words scores high; a free paraphrase scores low. An answer
    in a different language from its documents is skipped (`language_mismatch`). A response that only refuses ("I do not
    know") claims nothing and is skipped (`refusal`). It knows only English function words and compares scripts without
    spaces by pairs of characters. Of a response over 24,576 characters it reads that many: three quarters from the
    start, one quarter from the end. If the documents have more than 131,072 characters together, it reads the same
    share of each, from its start.
    """

    name: ClassVar[str] = "overlap_groundedness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(
        unsupported=0.0, mostly_unsupported=0.2, partly_supported=0.4, mostly_supported=0.6, supported=0.8
    )
    needs: ClassVar[frozenset[Needs]] = frozenset({"context", "response"})
    measures: ClassVar[Measures | None] = "grounding"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.45)
    """Of 446 human-labelled answers of the mtRAG benchmark (17 % defective), 4 % of the good answers and 51 % of the
    defective ones are below it. A starting point: labels from your own service give a better threshold."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. An empty context supports nothing.

        Skipped if the response has no content word, only refuses, or is in a different language from the context.
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
        question = words(case.request.query[:_QUESTION_CHARACTERS])
        said = _said(found)
        context = _context(map(keys_of_document, _read(case.retrieved_context)), said, question)
        measured = _measure(said, context)
        value = measured.value()
        absent = _stretches(content, measured.known)
        evidence = tuple(Evidence(case.response[start:end], "absent", start, end) for start, end in absent)
        explanation = measured.sentence(len(evidence))
        if len(case.response) > RESPONSE_CHARACTERS:
            explanation += f" Read: {RESPONSE_CHARACTERS} of {len(case.response)} characters."
        measures = measured.measures(value) | _shape(said, context, measured.known, question)
        used = _used_sources({word.key for word in question}, said, context)
        return Score(value, explanation, self.scale.level(value), evidence, measures, used_sources=used)


class _Said(NamedTuple):
    """The words of the response: the keys of all words, of content words, and of numbers and names."""

    sentences: Sequence[Sequence[str]]
    content_of_sentences: Sequence[Sequence[str]]
    content: Sequence[str]
    distinct: set[str]  # the keys in `content`, each once
    marked: Sequence[str]


def _said(found: Sequence[Word]) -> _Said:
    sentences: list[list[str]] = []
    content_of_sentences: list[list[str]] = []
    marked: list[str] = []
    number = None
    for key, _, _, has_content, is_marked, sentence in found:
        if sentence != number:
            number = sentence
            sentences.append(words_here := [])
            content_of_sentences.append(content_here := [])
        words_here.append(key)
        if has_content:
            content_here.append(key)
        if is_marked:
            marked.append(key)
    content = list(chain.from_iterable(content_of_sentences))
    return _Said(sentences, list(filter(None, content_of_sentences)), content, set(content), marked)


class _Context(NamedTuple):
    """The keys of each document in order, and those that it has in common with the response.

    `documents` has all keys; `shared` has, in order, the keys of content words of the response or the question; both
    with `SENTENCE_END`. `held` has the keys of content words of the response, each once.
    """

    documents: Sequence[Sequence[str]]
    shared: Sequence[Sequence[str]]
    held: Sequence[set[str]]


def _context(documents: Iterable[Sequence[str]], said: _Said, question: Sequence[Word]) -> _Context:
    read = list(documents)
    compared = {SENTENCE_END, *(word.key for word in question if word.content)} | said.distinct
    shared = [list(filter(compared.__contains__, document)) for document in read]
    return _Context(read, shared, [said.distinct.intersection(one) for one in shared])


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

    def measures(self, value: float) -> dict[str, float]:
        """Return the measures to learn from that follow from the counts: what is absent, and how much text there is."""
        return {
            "value_absent": 1 - value,
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


def _measure(said: _Said, context: _Context) -> _Measured:
    """Count what the context supports."""
    # A word in very many sentences says little about any one of them. Without a limit, the cost would grow with the
    # product of the lengths of both texts.
    places = _places(context.shared, at_most=max(8, _COVERAGE_STEPS // len(said.content)))
    known = frozenset(places)
    shares = [_best_share(one, places) for one in said.content_of_sentences]
    in_order = filter(said.distinct.__contains__, chain.from_iterable(context.shared))
    # A word that is not in the context is in no common subsequence. Without such words the bit sets are shorter.
    ours = list(filter(known.__contains__, said.content[:_SUBSEQUENCE_WORDS]))
    return _Measured(
        known=known,
        supported=sum(map(known.__contains__, said.content)),
        content=len(said.content),
        in_order=common_subsequence(ours, islice(in_order, _SUBSEQUENCE_MATCHES)),
        coverage=sum(shares) / len(shares),
        sentences=len(shares),
        marked_supported=sum(map(known.__contains__, said.marked)),
        marked=len(said.marked),
    )


def _places(documents: Sequence[Sequence[str]], at_most: int) -> dict[str, list[int]]:
    """Return, for each key, the numbers of the first `at_most` sentences that it is in."""
    found: dict[str, list[int]] = {}
    number = 0
    for document in documents:
        for key in document:
            if key == SENTENCE_END:
                number += 1
            elif key not in found:
                found[key] = [number]
            else:
                places = found[key]
                if places[-1] != number and len(places) < at_most:
                    places.append(number)
        number += 1
    return found


def _used_sources(asked: set[str], said: _Said, context: _Context) -> str:
    """Return a digit for each source: 1 if the response uses it, else 0.

    The response uses a source if it shares at least two things with it that are not in the question. A thing is two
    content words in a row, a number or a name. If the response has only one such thing, one is enough. It also uses a
    source that has half of its new content words. A free paraphrase is not detected. `asked` are the keys of the
    question.
    """
    new = said.distinct - asked
    if not new:
        return ""
    names = new.intersection(said.marked)
    pairs = {pair for pair in chain.from_iterable(map(pairwise, said.content_of_sentences)) if not new.isdisjoint(pair)}
    things = _Things(new, names, pairs, new.union((SENTENCE_END,), chain.from_iterable(pairs)))
    return "".join("1" if _uses(*one, things) else "0" for one in zip(context.shared, context.held, strict=True))


class _Things(NamedTuple):
    """Content of the response that is not in the question: the keys of words, of names, and of pairs of words in a row.

    `all_keys` has the keys of the words and of the pairs, and `SENTENCE_END`.
    """

    new: set[str]
    names: set[str]
    pairs: set[tuple[str, str]]
    all_keys: set[str]


def _uses(source: Sequence[str], held: set[str], things: _Things) -> bool:
    enough = min(_THINGS, len(things.names) + len(things.pairs)) or _THINGS
    names = len(things.names & held)
    if names >= enough or 2 * len(things.new & held) >= len(things.new):
        return True
    return names + len(things.pairs.intersection(pairwise(filter(things.all_keys.__contains__, source)))) >= enough


def _shape(said: _Said, context: _Context, known: frozenset[str], question: Sequence[Word]) -> dict[str, float]:
    """Return the other measures to learn from: how the response is composed from the context and the question.

    `known` are the keys of content words of the response and the question that occur in the context.

    - `trigrams_absent`: the share of runs of three words in a sentence that occur in no sentence of the context.
    - `drift`: the absent share of the last third of the content words, minus that of the first third.
    - `doc_share`: 1 - the largest share of the content words that occurs in one document.
    - `type_token`: different content words per content word.
    - `question_absent`: the share of the question's different content words that are not in the context.
    """
    triples = list(chain.from_iterable(zip(one, one[1:], one[2:], strict=False) for one in said.sentences))
    absent = set(triples)
    for keys in context.documents:
        absent.difference_update(zip(keys, keys[1:], keys[2:], strict=False))
    often = Counter(said.content)
    most = max((sum(map(often.__getitem__, one)) for one in context.held), default=0)
    third = len(said.content) // 3
    first, last = (sum(map(known.__contains__, part)) for part in (said.content[:third], said.content[-third:]))
    asked = {word.key for word in question if word.content}
    return {
        "trigrams_absent": sum(map(absent.__contains__, triples)) / len(triples) if triples else 0.0,
        "drift": (first - last) / third if third else 0.0,
        "doc_share": 1 - most / len(said.content),
        "type_token": len(said.distinct) / len(said.content),
        "question_absent": len(asked - known) / len(asked) if asked else 0.0,
    }


def _best_share(keys: Sequence[str], places: Mapping[str, Sequence[int]]) -> float:
    """Return the largest share of `keys` that is in one sentence of the context."""
    held = Counter(chain.from_iterable(filter(None, map(places.get, keys))))
    return max(held.values(), default=0) / len(keys)


def _stretches(content: Sequence[Word], known: frozenset[str]) -> list[tuple[int, int]]:
    """Return the largest unsupported stretches of words with content, at most `STRETCHES`, in order of offset.

    A stretch extends from one absent content word to the next if at most one supported content word is between them,
    within a sentence. A single absent word counts only if it is a number or a name: otherwise it is mostly word choice.
    """
    stretches: list[tuple[int, int, int, bool]] = []  # words absent, start, end, has a number or name
    open_since = gap = 0
    sentence = -1
    for word in content:
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
    """Return the texts of the documents, all cut to the same share if they are too long together."""
    total = sum(len(document.content) for document in documents)
    share = min(1.0, CONTEXT_CHARACTERS / total) if total else 1.0
    return [document.content[: int(len(document.content) * share) + 1] for document in documents]
