"""Fill a service's own prompt template, and invert it: recover context and question from a prompt made with it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.model.case import Case, ContextStatus, Message

CONTEXT: Final = "context"
QUESTION: Final = "question"
HISTORY: Final = "history"

_PLACEHOLDER: Final = re.compile(r"\{\{[ \t]*(\w+)[ \t]*\}\}|\{(\w+)\}")


_CANDIDATES: Final = 16
"""Maximum number of places tried for the question if the text before it occurs often in the prompt."""


class Filled(NamedTuple):
    """The values filled into a template; `question` is None if the template has no placeholder for it."""

    context: str
    question: str | None


class _QuestionPlace(NamedTuple):
    """The question from `start` to `stop`; the text before it begins at `before`, the text after it ends at `after`."""

    before: int
    start: int
    stop: int
    after: int


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt template with `{context}`, optionally `{question}`, and other placeholders, which are ignored.

    `literals` are the texts around the placeholders `names`, so there is one more of them.
    """

    literals: tuple[re.Pattern[str], ...]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> PromptTemplate:
        """Read a template. Placeholders are written `{name}` or `{{ name }}`. Raises `ValueError`.

        Any white space in it matches any white space in a prompt: frameworks indent, trim and fold their templates.
        """
        pieces, names, at = [], [], 0
        for found in _PLACEHOLDER.finditer(text):
            pieces.append(text[at : found.start()])
            names.append(found[1] or found[2])
            at = found.end()
        pieces.append(text[at:])
        if names.count(CONTEXT) != 1 or names.count(QUESTION) > 1:
            raise ValueError("a prompt template needs {context} once, and {question} once or not at all")
        for name, following, piece in zip(names, names[1:], pieces[1:-1], strict=False):
            if not piece.strip() and {name, following} & {CONTEXT, QUESTION}:
                raise ValueError(f"{{{name}}} and {{{following}}} need text between them, not only white space")
        if len(names) == 1 and not (pieces[0].strip() or pieces[1].strip()):
            raise ValueError("a prompt template needs some text besides {context}")
        return cls(tuple(map(_literal, pieces)), tuple(names))

    def invert(self, prompt: str) -> Filled | None:
        """Recover the values filled in; None if the prompt was not made with this template.

        If the text between two placeholders occurs more than once in the prompt, the question is the shorter part:
        documents contain such texts more often than questions do.
        """
        prompt = prompt.strip()
        head = self.literals[0].match(prompt)
        tail = _at_end(self.literals[-1], prompt)
        if head is None or tail is None or head.end() > tail:
            return None
        start, stop = head.end(), tail
        if QUESTION not in self.names:
            parts = self._between(prompt, 0, len(self.names), start, stop)
            return Filled(parts[CONTEXT], None) if parts is not None else None
        asked = self.names.index(QUESTION)
        for place in self._questions(prompt, asked, start, stop):
            before = self._between(prompt, 0, asked, start, place.before)
            after = self._between(prompt, asked + 1, len(self.names), place.after, stop)
            if before is not None and after is not None:
                return Filled({**before, **after}[CONTEXT], prompt[place.start : place.stop].strip())
        return None

    def _questions(self, prompt: str, asked: int, first: int, last: int) -> Iterator[_QuestionPlace]:
        """Yield the possible places of the question, the likeliest first."""
        starts = [(first, first)]
        if asked > 0:
            found = self.literals[asked].finditer(prompt, first, last)
            starts = [(one.start(), one.end()) for one in deque(found, maxlen=_CANDIDATES)][::-1]
        for before, start in starts:
            if asked == len(self.names) - 1:
                yield _QuestionPlace(before, start, last, last)
            elif (following := self.literals[asked + 1].search(prompt, start, last)) is not None:
                yield _QuestionPlace(before, start, following.start(), following.end())

    def _between(self, prompt: str, first: int, last: int, start: int, stop: int) -> dict[str, str] | None:
        """Match the parts from `first` up to `last` to the prompt from `start` to `stop`; None if they do not fit.

        The context takes as much as it can: other parts end at the first text that can follow them.
        """
        parts: dict[str, str] = {}
        if first == last:
            return parts
        while first < last - 1 and self.names[first] != CONTEXT:
            found = self.literals[first + 1].search(prompt, start, stop)
            if found is None:
                return None
            parts[self.names[first]] = prompt[start : found.start()].strip()
            start, first = found.end(), first + 1
        while last - 1 > first:
            last -= 1
            found = _last(self.literals[last], prompt, start, stop)
            if found is None:
                return None
            parts[self.names[last]] = prompt[found.end() : stop].strip()
            stop = found.start()
        parts[self.names[first]] = prompt[start:stop].strip()
        return parts


@dataclass(frozen=True, slots=True)
class RowPrompt:
    """The prompt that a service builds from a question and its context, for rows that do not contain it.

    `pieces` are the texts around the placeholders `names`, so there is one more of them.
    """

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> RowPrompt:
        """Read a template with `{question}` and, if the service sends them, `{context}` and `{history}`.

        Raises `ValueError` for any other placeholder, or if the question is missing.
        """
        pieces, names, at = [], [], 0
        for found in _PLACEHOLDER.finditer(text):
            pieces.append(text[at : found.start()])
            names.append(found[1] or found[2])
            at = found.end()
        allowed = (CONTEXT, QUESTION, HISTORY)
        unknown = next((name for name in names if name not in allowed), None)
        if unknown is not None:
            raise ValueError(f"{{{unknown}}} is not a placeholder; there are {{context}}, {{question}} and {{history}}")
        if QUESTION not in names:
            raise ValueError("a prompt for rows needs {question}")
        return cls((*pieces, text[at:]), tuple(names))

    def fill(self, case: Case) -> tuple[Message, ...]:
        """Return the prompt as one message of the user; empty if a text for it is missing.

        Documents are separated by blank lines; a turn of the history is one line, `User: ...` or `Assistant: ...`.
        """
        known = case.context_status in (ContextStatus.RETRIEVED, ContextStatus.RETRIEVED_NOTHING)
        if not case.request.query or (CONTEXT in self.names and not known):
            return ()
        texts = {
            QUESTION: case.request.query,
            CONTEXT: "\n\n".join(one.content.strip() for one in case.retrieved_context),
            HISTORY: "\n".join(f"{one.role.capitalize()}: {one.content}" for one in case.request.history),
        }
        filled = [part for name, piece in zip(self.names, self.pieces, strict=False) for part in (piece, texts[name])]
        return (Message("user", "".join((*filled, self.pieces[-1]))),)


def invert(templates: Sequence[PromptTemplate], prompt: str) -> Filled | None:
    """Recover the values filled into the first of `templates` that fits the prompt; None if none fits."""
    return next((filled for one in templates if (filled := one.invert(prompt)) is not None), None)


def _literal(piece: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, piece.split())))


def _last(literal: re.Pattern[str], prompt: str, start: int, stop: int) -> re.Match[str] | None:
    latest = deque(literal.finditer(prompt, start, stop), maxlen=1)
    return latest[0] if latest else None


def _at_end(literal: re.Pattern[str], prompt: str) -> int | None:
    """Return the position where the literal at the end of the prompt begins."""
    if not literal.pattern:
        return len(prompt)
    found = _last(literal, prompt, 0, len(prompt))
    return found.start() if found is not None and found.end() == len(prompt) else None
