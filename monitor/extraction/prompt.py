"""Split a stuffed prompt into question and context at the marks that prompt templates usually have.

A text without clear marks is not split: after a wrong guess the wrong text would be evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from monitor.extraction import documents, template, values
from monitor.extraction.template import PromptTemplate
from monitor.model.case import Document
from monitor.model.span import Value

MAX_PROMPT: Final = 1_000_000
"""Maximum characters of a prompt that is split."""

_NEWLINE: Final = re.compile("\n")
_CONTEXT: Final = (
    r"(?:retrieved |relevant |reference |supporting |given |provided |additional |background )?"
    r"(?:contexts?(?: information| documents?| passages?)?|documents?|docs|sources?|passages?|excerpts?|search results?"
    r"|knowledge(?: base)?|references?|evidence|background(?: information)?)"
    r"|上下文|上下文信息|已知信息|参考资料|参考信息|背景信息|背景知识|检索结果|资料|文档"
    r"|kontext|quellen|dokumente|contexte|sources|contexto|documentos|contesto|コンテキスト|文脈"
)
_STRONG: Final = re.compile(
    r"context|kontext|contesto|上下文|已知信息|コンテキスト|文脈|retrieved|search result", re.IGNORECASE
)
_QUESTION: Final = (
    r"(?:the |my |your |current |new |latest |final |follow[- ]up )?(?:user(?:'s)? |customer(?:'s)? )?"
    r"(?:question|query|request|input|inquiry)|q|问题|用户问题|提问|frage|pregunta|domanda|質問|질문"
)
_ANSWER: Final = (
    r"(?:your |helpful |final |the |standalone )?(?:answer|response|reply)|a(?=[ ]?:\s*\Z)|assistant|ai|回答|答案"
    r"|antwort|réponse|respuesta"
)
_HISTORY: Final = r"(?:chat |conversation |dialog(?:ue)? |previous )(?:history|conversation|messages)|历史对话|对话历史"
_OTHER: Final = r"instructions?|output format|response format|constraints|要求"


def _label(names: str) -> str:
    """Return a pattern for a label at the start of a line.

    It matches `Context:`, `## Context`, `**Context:**`, `[Context]` and `[[ ## context ## ]]`.
    """
    named = rf"(?:{names})(?:[ ]?\([^()\n]{{1,60}}\))?"
    return (
        rf"^[ \t]{{0,8}}(?:#{{1,6}}[ \t]{{0,8}}{named}[ \t]{{0,8}}:?[ \t]{{0,8}}$"
        rf"|#{{0,6}}[ \t]{{0,8}}(?:\*\*|__)?{named}(?:\*\*|__)?[ \t]{{0,8}}[:\uff1a](?:\*\*|__)?[ \t]{{0,8}}"
        rf"|\[{{1,2}}[ #]*{named}[ #]*\]{{1,2}}[ \t]{{0,8}}:?[ \t]{{0,8}}$)"
    )


_LABELS: Final = re.compile(
    f"(?P<context>{_label(_CONTEXT)})|(?P<question>{_label(_QUESTION)})|(?P<answer>{_label(_ANSWER)})"
    f"|(?P<history>{_label(_HISTORY)})|(?P<other>{_label(_OTHER)})",
    re.IGNORECASE | re.MULTILINE,
)
_CONTEXT_TAG: Final = re.compile(
    r"<((?:retrieved_|search_|relevant_)?(?:contexts?|documents?|docs|sources|results|passages|knowledge(?:_base)?))"
    r"(?: [^<>]*)?>",
    re.IGNORECASE,
)
_QUESTION_TAG: Final = re.compile(r"<((?:user_)?(?:question|query|input|request))>", re.IGNORECASE)
_INTRODUCTION: Final = re.compile(
    r"^(?=.*\b(?:below|following|these|provided|given|delimited)\b)"
    r"(?=.*\b(?:context|documents?|passages?|excerpts?|sources?)\b).*$",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED_BEFORE: Final = "below, surrounded by "
"""In an introduction, shows that the question is the text before it (Spring AI's `QuestionAnswerAdvisor`)."""

_PLACEHOLDER: Final = re.compile(r"\s*\{\w+\}")
_FENCE: Final = re.compile(r"^[ \t]{0,8}(-{3,}|={3,}|`{3,}|\*{3,}|_{3,}|\"{3})[ \t]{0,8}$", re.MULTILINE)
_DOCUMENT_TAG: Final = re.compile(r"<(document|doc|source|passage|chunk|result|item)(?: [^<>]*)?>", re.IGNORECASE)
_INNER_TAG: Final = re.compile(r"<(document_content|page_content|content|text)>", re.IGNORECASE)
_NUMBERED: Final = (
    re.compile(r"^[ \t]{0,8}\[(\d{1,3})\][:.]?[ \t]{0,8}", re.MULTILINE),
    re.compile(
        r"^[ \t#*]*(?:document|doc|source|passage|chunk|result|context|excerpt|文档|资料)[ ]?\[?#?(\d{1,3})\]?"
        r"(?:[ ]?\([^()\n]{1,120}\))?[ \t]{0,8}[:\uff1a.\-][ \t*]*",
        re.IGNORECASE | re.MULTILINE,
    ),
)


class Stuffed(NamedTuple):
    """A split prompt: the question and the pieces of the context, in order.

    `question` is the text `marked` as the question, else all text outside the context; None if there is none.
    """

    question: str | None
    blocks: tuple[str, ...]
    marked: bool = False


class _Tagged(NamedTuple):
    """The text between a tag and its end tag, and its position."""

    start: int
    end: int
    body: str


def split(text: str, templates: Sequence[PromptTemplate] = (), *, asks: bool = True) -> Stuffed | None:
    """Split a stuffed prompt; None if it does not clearly mark a context. An empty context gives no blocks.

    A prompt made with one of the service's own `templates` is split by that template. With `asks` false the text is a
    system prompt, which states no question: a label that looks like one belongs to a document.
    """
    if len(text) > MAX_PROMPT:
        return None
    filled = template.invert(templates, text)
    if filled is not None:
        return Stuffed(filled.question or None, blocks(filled.context), marked=bool(filled.question))
    return _by_tags(text) or _by_labels(text, asks=asks) or _by_introduction(text)


def blocks(context: str) -> tuple[str, ...]:
    """Return the listed, tagged, numbered or fenced pieces of a context, else one piece; none if it is empty."""
    context = context.strip()
    if documents.says_none(context):
        return ()
    listed = values.unfold(context)
    if isinstance(listed, list) and (read := documents.read(listed)) is not None:
        return _kept(one.content for one in read)
    tagged = _tagged(_DOCUMENT_TAG, context)
    if tagged:
        inner = [_tagged(_INNER_TAG, one.body) for one in tagged]
        return _kept(inside[0].body if inside else one.body for inside, one in zip(inner, tagged, strict=True))
    for pattern in _NUMBERED:
        marks = _sequence(pattern, context)
        if marks:
            ends = [*(mark.start() for mark in marks[1:]), len(context)]
            return _kept(context[mark.end() : end] for mark, end in zip(marks, ends, strict=True))
    fenced = _FENCE.split(context)[::2]
    return _kept(fenced)


def of_tool(result: Value) -> tuple[Document, ...] | None:
    """Read the result of a tool as `documents.read_result` does, but split a single bare text at its marks.

    A result of any other shape, such as a JSON object, is one document with that JSON. Return None if the result was
    not sent or has no content.
    """
    if result is None:
        return None
    found = documents.read_result(result)
    if found is None:
        return (Document(text),) if (text := values.dump(values.unfold(result))) else None
    if len(found) != 1 or found[0] != Document(found[0].content):
        return found
    return tuple(Document(piece) for piece in blocks(found[0].content)) or found


def _in_lines(pattern: re.Pattern[str], text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Yield the matches from `start` of a pattern that begins with `^` and ends in the same line.

    It is tried once per line. A search would try it at every character, which takes 100 times as long in a prompt.
    """
    following = (newline.end() for newline in _NEWLINE.finditer(text, max(start - 1, 0)))
    for at in following if start else chain((0,), following):
        if (found := pattern.match(text, at)) is not None:
            yield found


def _labels(text: str) -> list[tuple[str, re.Match[str]]]:
    """Return the labels in a text, each with its kind."""
    return [(str(found.lastgroup), found) for found in _in_lines(_LABELS, text)]


def _kept(pieces: Iterable[str]) -> tuple[str, ...]:
    return tuple(stripped for piece in pieces if (stripped := piece.strip()))


def _sequence(pattern: re.Pattern[str], context: str) -> list[re.Match[str]]:
    """Return the marks that count up from 0 or 1, the first at the start of the context; an empty list if none."""
    marks: list[re.Match[str]] = []
    for found in _in_lines(pattern, context):
        number = int(found[1])
        if (not marks and found.start() == 0 and number in (0, 1)) or (marks and number == int(marks[-1][1]) + 1):
            marks.append(found)
    return marks


def _tagged(opening: re.Pattern[str], text: str) -> list[_Tagged]:
    """Find the texts between a tag and its next end tag. Takes linear time, because users can also write tags."""
    found: list[_Tagged] = []
    lowered, unclosed, at = text.lower(), set[str](), 0
    for mark in opening.finditer(text):
        name = mark[1].lower()
        if mark.start() < at or name in unclosed:
            continue
        end = lowered.find(f"</{name}>", mark.end())
        if end < 0:
            unclosed.add(name)
            continue
        found.append(_Tagged(mark.start(), end + len(name) + 3, text[mark.end() : end]))
        at = found[-1].end
    return found


def _by_tags(text: str) -> Stuffed | None:
    contexts = _tagged(_CONTEXT_TAG, text)
    if not contexts:
        return None
    pieces = tuple(piece for found in contexts for piece in blocks(found.body))
    starts, ends = [found.start for found in contexts], [found.end for found in contexts]
    outside = [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]
    rest = "\n\n".join(filter(None, (piece.strip() for piece in outside)))
    tagged = _tagged(_QUESTION_TAG, rest)
    question = tagged[0].body.strip() if tagged else _labelled_question(rest)
    return Stuffed(question or rest or None, pieces, marked=bool(question))


def _by_labels(text: str, *, asks: bool) -> Stuffed | None:
    labels = _labels(text)
    contexts = [found for kind, found in labels if kind == "context"]
    questions = [at for at, (kind, _) in enumerate(labels) if kind == "question"] if asks else []
    if not contexts or not (questions or _STRONG.search(contexts[0][0])):
        return None
    first, end = contexts[0], _end_of_context(text, labels)
    if questions and labels[questions[-1]][1].start() > first.start():
        # Documents may contain such labels (an FAQ does): the last is the question, everything before it is context.
        end = labels[questions[-1]][1].start()
        question = _until(text, labels, questions[-1])
    else:
        start = labels[questions[0]][1].end() if questions else 0
        question = text[start : first.start()].strip()
    end = next(
        (found.start() for kind, found in labels if kind == "history" and first.end() <= found.start() < end), end
    )
    context = text[first.end() : end]
    if _PLACEHOLDER.match(context):
        return None
    fences = list(_in_lines(_FENCE, context))
    if fences and not context[: fences[0].start()].strip():
        context = context[fences[0].end() : fences[-1].start() if len(fences) > 1 else len(context)]
    return Stuffed(question or None, blocks(context), marked=bool(questions))


def _by_introduction(text: str) -> Stuffed | None:
    """Split after `Context information is below.` or `Use the following pieces of context ...`."""
    introduction = next(_in_lines(_INTRODUCTION, text), None)
    if introduction is None:
        return None
    start = introduction.end()
    fences = list(_in_lines(_FENCE, text, start))
    question = _labelled_question(text[start:])
    if fences and "\n\n" not in text[start : fences[0].start()].strip():
        alike = [fence for fence in fences[1:] if fence[1] == fences[0][1]] or fences[1:]  # documents have fences, too
        before, after = text[: introduction.start()].strip(), text[alike[0].end() :].strip() if alike else ""
        rest = before if not alike or _ASKED_BEFORE in introduction[0] else after
        context = text[fences[0].end() : alike[0].start() if alike else len(text)]
        return Stuffed(question or rest or None, blocks(context), marked=bool(question))
    labels = [found for found in _in_lines(_LABELS, text, start) if found.lastgroup == "question"]
    blank = text.find("\n\n", start)
    if labels and 0 <= blank < labels[-1].start():
        return Stuffed(question, blocks(text[blank : labels[-1].start()]), marked=True)
    return None


def _labelled_question(text: str) -> str | None:
    labels = _labels(text)
    questions = [at for at, (kind, _) in enumerate(labels) if kind == "question"]
    return _until(text, labels, questions[-1]) or None if questions else None


def _until(text: str, labels: list[tuple[str, re.Match[str]]], at: int) -> str:
    start = labels[at][1].end()
    end = next((found.start() for kind, found in labels[at + 1 :] if kind in ("answer", "history", "other")), len(text))
    return text[start:end].strip()


def _end_of_context(text: str, labels: list[tuple[str, re.Match[str]]]) -> int:
    """Return the end of the text, or the start of a closing `Answer:` label with nothing after it."""
    kind, last = labels[-1]
    return last.start() if kind == "answer" and not text[last.end() :].strip() else len(text)
