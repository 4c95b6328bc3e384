"""Topics of questions: the words that distinguish them. No model, no random numbers, and stable names.

A topic is a word, with its other forms, that many questions have and most do not. It is named once, when it appears,
and stays while it is still asked about half as often as a new topic must be: ten more questions rename nothing.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

OTHER: Final = "other"
"""The name for questions without a topic."""

TOPICS_AT_MOST: Final = 40
"""The most topics of one app."""

LEAST_STORIES: Final = 5
"""The sessions, or different questions, that a word needs to become a topic."""

LEAST_SHARE: Final = 0.01
"""The share that a word also needs of the questions without another topic."""

_KEPT: Final = 0.5  # of both minimums, for an existing topic
_MOST_SHARE: Final = 0.5  # a word in more than half of the questions says little about any of them
_HASH: Final = re.compile(r"[0-9a-f]{16}")
_SHORT_HASH: Final = 6
_FORM: Final = 6  # letters after which inflection mostly follows
_MOVED: Final = 2.0  # factor by which a share may move before it is updated


class QuestionWords(NamedTuple):
    """The words of a question, and its `unit`: its session, or otherwise the question itself."""

    unit: str
    words: tuple[str, ...]


class QuestionTopic(NamedTuple):
    """A topic: what its words have in common, its name, and the share of the questions that have such a word."""

    key: str
    name: str
    share: float


def key_of(word: str) -> str:
    """Return the common key of a word's forms; a word with a digit, such as a hash, has only one form."""
    return word if any(map(str.isdigit, word)) else word[:_FORM]


def topic_of(topics: Sequence[QuestionTopic], words: Iterable[str]) -> str:
    """Return the name of a question's topic: the rarest one that any of its words belongs to; otherwise `OTHER`."""
    keys = {key_of(word) for word in words}
    found = min((one for one in topics if one.key in keys), key=lambda one: (one.share, one.key), default=None)
    return found.name if found is not None else OTHER


def is_word(name: str) -> bool:
    """Return whether the name of a topic is readable: if texts are not stored, it is a hash."""
    return _HASH.fullmatch(name) is None


def topic_words(name: str) -> str:
    """Return the name of a topic for people: for a hashed word, its first digits."""
    return name if is_word(name) else f"topic {name[:_SHORT_HASH]}"


def renewed(kept: Iterable[QuestionTopic], questions: Iterable[QuestionWords]) -> tuple[QuestionTopic, ...]:
    """Return the topics of an app, updated with its latest questions: old ones still asked about, and new ones.

    New topics come from questions without one: first the words that say most about most of them, by number times the
    logarithm of rarity. The order of the questions does not matter.

    Args:
        kept: the topics until now.
        questions: the questions of the last days.
    """
    stories = _stories(questions)
    having: dict[str, list[int]] = defaultdict(list)
    forms: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number, words in enumerate(stories):
        for key in {key_of(word) for word in words}:
            having[key].append(number)
        for word in words:
            forms[key_of(word)][word] += 1
    number = len(stories)
    least = max(LEAST_STORIES, math.ceil(LEAST_SHARE * number))
    topics = {
        one.key: one._replace(share=_noted(one.share, len(having[one.key]) / number))
        for one in kept
        if one.key in having and _KEPT * least <= len(having[one.key]) <= number * (1 + _MOST_SHARE) / 2
    }
    open_ones = set(range(number)).difference(*(having[key] for key in topics))
    wanted = {
        key: len(open_ones.intersection(having[key]))
        for key in having
        if key not in topics and least <= len(having[key]) <= _MOST_SHARE * number
    }
    while len(topics) < TOPICS_AT_MOST:
        wanted = {key: count for key, count in wanted.items() if count >= least}
        if not wanted:
            break
        best = max(wanted, key=lambda key: (_tells(wanted[key], number / len(having[key])), wanted[key], len(key), key))
        topics[best] = QuestionTopic(best, _name(best, forms[best], topics), len(having[best]) / number)
        for covered in open_ones.intersection(having[best]):
            for key in {key_of(word) for word in stories[covered]}:
                if key in wanted:
                    wanted[key] -= 1
        open_ones.difference_update(having[best])
        del wanted[best]
    return tuple(sorted(topics.values(), key=lambda one: (one.share, one.key)))


def _tells(count: int, rarity: float) -> float:
    """Return how much a word says about this many questions; rounded, so that nearly equal values are equal."""
    return round(count * math.log(rarity), 6)


def _stories(questions: Iterable[QuestionWords]) -> list[tuple[str, ...]]:
    """Return the words of each unit, so that one person who keeps asking does not create a topic."""
    by_unit: dict[str, dict[str, None]] = {}
    for one in questions:
        if one.words:
            by_unit.setdefault(one.unit, {}).update(dict.fromkeys(one.words))
    return [tuple(words) for _, words in sorted(by_unit.items())]


def _noted(before: float, now: float) -> float:
    """Return the share to keep: a changed one could move a question with two topics from one to the other."""
    return before if now / _MOVED <= before <= now * _MOVED else now


def _name(key: str, forms: Mapping[str, int], topics: Mapping[str, QuestionTopic]) -> str:
    """Return the most common form of a word."""
    taken = {one.name for one in topics.values()}
    ordered = sorted(forms, key=lambda word: (-forms[word], len(word), word))
    return next((word for word in ordered if word not in taken and word != OTHER), key)
