"""Stuffed prompts are taken apart at clear marks, and only there."""

from __future__ import annotations

import pytest

from monitor.extraction import prompt

SPLIT: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "numbered": ("Context:\n[1] One.\n\n[2] Two\nlines.\n\nQuestion: Why?", "Why?", ("One.", "Two\nlines.")),
    "empty context": ("Context:\n\n\nQuestion: Why?", "Why?", ()),
    "says none": ("Context:\nNo relevant documents found.\n\nQuestion: Why?", "Why?", ()),
    "question first": (
        "Use the following pieces of retrieved context.\nQuestion: Why? \nContext: One. \nAnswer:",
        "Why?",
        ("One.",),
    ),
    "fenced": (
        "Context information is below.\n-----\nOne.\n-----\nGiven it, answer the query.\nQuery: Why?\nAnswer: ",
        "Why?",
        ("One.",),
    ),
    "fence alone": ("Answer from the documents below.\n-----\nOne.\n-----\nWhy?", "Why?", ("One.",)),
    "no label of the context": (
        "Use the following pieces of context to answer the question.\n\nOne.\n\nQuestion: Why?\nHelpful Answer:",
        "Why?",
        ("One.",),
    ),
    "tags": (
        "<context><document id='1'>One.</document>\n<document>Two.</document></context>\n\nWhy?",
        "Why?",
        ("One.", "Two."),
    ),
    "markdown": ("## Context\nOne.\n\n## Question\nWhy?", "Why?", ("One.",)),
    "bold": ("**Context:**\nOne.\n\n**Question:** Why?", "Why?", ("One.",)),
    "named documents": (
        "Context:\nDocument 1: One.\nDocument 2: Two.\n\nUser question: Why?",
        "Why?",
        ("One.", "Two."),
    ),
    "dspy": ("[[ ## context ## ]]\n[1] One.\n[2] Two.\n\n[[ ## question ## ]]\nWhy?", "Why?", ("One.", "Two.")),
    "dspy, listed": ('[[ ## context ## ]]\n["One.", "Two."]\n\n[[ ## question ## ]]\nWhy?', "Why?", ("One.", "Two.")),
    "dspy, none": ("[[ ## context ## ]]\n[]\n\n[[ ## question ## ]]\nWhy?", "Why?", ()),
    "history between": ("Context:\nOne.\n\nChat history:\nuser: x\n\nQuestion: Why?", "Why?", ("One.",)),
    "chinese": ("已知信息：\n一。\n\n问题：为什么？", "为什么？", ("一。",)),  # noqa: RUF001
    "an faq as document": (
        "Context:\nQuestion: A?\nAnswer: B.\n\nQuestion: Why?\nAnswer:",
        "Why?",
        ("Question: A?\nAnswer: B.",),
    ),
}


@pytest.mark.parametrize("layout", SPLIT)
def test_usual_layouts_give_question_and_context(layout: str) -> None:
    text, question, blocks = SPLIT[layout]
    found = prompt.split(text)
    assert found is not None
    assert (found.question, found.blocks) == (question, blocks)


@pytest.mark.parametrize(
    "text",
    [
        "What is the refund window?",
        "You are a support assistant. Answer only from the context.",
        "Please explain this context: foo",
        "Question: Why?",
        "Documents: you may ask for any of them.",
        "[1] is what the paper calls it.",
        "",
    ],
)
def test_a_text_without_clear_marks_is_not_split(text: str) -> None:
    assert prompt.split(text) is None


def test_a_system_prompt_holds_a_context_up_to_its_end() -> None:
    found = prompt.split("Answer from the context.\n\nContext:\nQuestion: A?\nAnswer: B.", asks=False)
    assert found is not None
    assert found.blocks == ("Question: A?\nAnswer: B.",)


def test_a_template_that_was_not_filled_in_holds_no_documents() -> None:
    assert prompt.split("Context:\n{context}\n\nQuestion:\n{question}", asks=False) is None


def test_a_note_inside_of_a_document_does_not_end_the_context() -> None:
    found = prompt.split("Context:\nRefunds take a week.\nNote: not for gift cards.\n\nQuestion: Why?")
    assert found is not None
    assert found.blocks == ("Refunds take a week.\nNote: not for gift cards.",)


def test_a_question_with_choices_stays_whole() -> None:
    found = prompt.split("Context:\nOne.\n\nQuestion: Which?\nA: this\nB: that\nAnswer:")
    assert found is not None
    assert found.question == "Which?\nA: this\nB: that"


def test_numbers_that_do_not_count_up_do_not_split() -> None:
    found = prompt.split("Context:\n[1] See also\n[7] of the list.\n\nQuestion: Why?")
    assert found is not None
    assert found.blocks == ("See also\n[7] of the list.",)
