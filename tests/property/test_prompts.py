"""Question and documents come back out of a prompt that marks them as templates usually do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from monitor.extraction import documents, prompt
from monitor.extraction.template import PromptTemplate
from tests.support.examples import examples
from tests.support.readers import is_plain

pytestmark = pytest.mark.timeout(1200)

_MARKS = re.compile(r"[<>\[\]#*:\uff1a{}]|-{3}|={3}|`{3}|_{3}|\"{3}|\n\n|\d", re.IGNORECASE)
LINES = st.lists(
    st.sampled_from(["word", "two words", "'", '"', "\n", ", ", "\u00e9", "\u4e0a\u4e0b", ".", "(x)", "\\", " - "])
    | st.text(max_size=5),
    min_size=1,
    max_size=8,
).map(lambda pieces: "".join(pieces).strip())
UNMARKED = LINES.filter(
    lambda text: bool(text) and not _MARKS.search(text) and prompt.split(text) is None and is_plain(text)
)
LAYOUTS: dict[str, Callable[[Sequence[str], str], str]] = {
    "numbered": lambda texts, q: (
        "Answer from the context.\n\nContext:\n"
        + "\n\n".join(f"[{at}] {text}" for at, text in enumerate(texts, 1))
        + f"\n\nQuestion: {q}\nAnswer:"
    ),
    "named": lambda texts, q: (
        "## Context\n"
        + "\n".join(f"Document {at}: {text}" for at, text in enumerate(texts, 1))
        + f"\n\n## Question\n{q}"
    ),
    "fenced": lambda texts, q: "Context:\n" + "\n---\n".join(texts) + f"\n\nQuestion: {q}",
    "tagged": lambda texts, q: (
        "<context>\n"
        + "\n".join(f"<document>\n{text}\n</document>" for text in texts)
        + f"\n</context>\n\n<question>{q}</question>"
    ),
    "tagged with attributes": lambda texts, q: (
        "Use these.\n<documents>\n"
        + "\n".join(
            f'<document index="{at}"><source>s</source><document_content>{t}</document_content></document>'
            for at, t in enumerate(texts)
        )
        + f"\n</documents>\n{q}"
    ),
    "question first": lambda texts, q: (
        f"Question: {q}\n\nContext:\n" + "\n".join(f"[{at}] {text}" for at, text in enumerate(texts, 1))
    ),
    "bold": lambda texts, q: (
        "**Context:**\n" + "\n".join(f"[{at}] {text}" for at, text in enumerate(texts, 1)) + f"\n\n**Question:** {q}"
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_question_and_documents_come_back_out_of_a_prompt_that_marks_them(layout: str) -> None:
    @examples(40)
    @given(st.lists(UNMARKED, min_size=2, max_size=4), UNMARKED)
    def taken_apart(texts: list[str], question: str) -> None:
        assume(not documents.says_none("\n---\n".join(texts)))
        if layout == "tagged with attributes":
            assume(not question.startswith("Use these."))
        parts = prompt.split(LAYOUTS[layout](texts, question))
        assert parts is not None
        assert parts.blocks == tuple(texts)
        wanted = f"Use these.\n\n{question}" if layout == "tagged with attributes" else question
        assert parts.question == wanted

    taken_apart()


TEMPLATES = [
    "Answer from this.\n{context}\n\nThe user asks: {question}\nBe short.",
    "{{ system }} Material:\n{{ context }}\nEnd of material. Asked is {{ question }}",
    "User: {question}\nHelp pages:\n{context}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_was_put_into_a_template_of_ones_own_comes_back(template: str) -> None:
    @examples(40)
    @given(UNMARKED, UNMARKED)
    def put_in(context: str, question: str) -> None:
        assume(not re.search(r"asks:|short|material|Asked|User|pages", context + question))
        text = template.replace("{{ system }}", "You help.")
        for name, value in (("context", context), ("question", question)):
            text = text.replace(f"{{{{ {name} }}}}", value).replace(f"{{{name}}}", value)
        filled = PromptTemplate.parse(template).invert(text)
        assert filled is not None
        assert (filled.context, filled.question) == (context, question)

    put_in()
