"""A service's prompt template, inverted."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from monitor.extraction.template import Filled, PromptTemplate, RowPrompt, invert
from monitor.model.case import Case, ContextStatus, Document, Message, Request

HISTORY = (Message("user", "Hi {question}"), Message("assistant", "Hello."))
RAG = "Use only what is below.\n\n{context}\n\nUser asks: {question}\nReply:"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda t: " ".join(t.split())).filter(bool)


def test_what_was_put_in_comes_out() -> None:
    prompt = RAG.format(context="[1] One.\n[2] Two.", question="Which?")
    assert PromptTemplate.parse(RAG).invert(prompt) == Filled("[1] One.\n[2] Two.", "Which?")


@given(context=TEXT, question=TEXT)
def test_any_texts_come_out_exactly_unless_they_hold_the_template(context: str, question: str) -> None:
    assume(not any(mark in text for mark in ("User asks:", "Reply:", "below.") for text in (context, question)))
    assert PromptTemplate.parse(RAG).invert(RAG.format(context=context, question=question)) == Filled(context, question)


@pytest.mark.parametrize(
    "template",
    [
        "{question}\n---\n{context}",
        "Q: {question}\nHistory: {history}\nDocs: {context} END",
        "Docs: {context}\nHistory: {history}\nQ: {question}\nLanguage: {language}",
        "{{ context }} // {{question}}",
        "You are {name}.\nHistory: {history}\nDocs: {context}\nQ: {question}",
    ],
)
@given(parts=st.fixed_dictionaries({name: st.from_regex(r"[a-z ]{0,30}[a-z]", fullmatch=True) for name in (
    "context", "question", "history", "language", "name")}))  # fmt: skip
def test_placeholders_may_stand_in_any_order(template: str, parts: dict[str, str]) -> None:
    prompt = template.replace("{{ context }}", "{context}").replace("{{question}}", "{question}").format(**parts)
    filled = PromptTemplate.parse(template).invert(prompt)
    assert filled == Filled(parts["context"].strip(), parts["question"].strip())


def test_documents_that_quote_the_template_stay_documents() -> None:
    template = PromptTemplate.parse("Docs:\n{context}\nQuestion: {question}")
    prompt = "Docs:\nFAQ\nQuestion: Old?\nAnswer: Yes.\nQuestion: New?"
    assert template.invert(prompt) == Filled("FAQ\nQuestion: Old?\nAnswer: Yes.", "New?")


def test_white_space_may_differ() -> None:
    template = PromptTemplate.parse("  Docs   below:\n\n{context}\n\n  Question:\t{question}\n")
    assert template.invert("Docs below: A b. Question: Why?") == Filled("A b.", "Why?")


def test_an_empty_context_comes_out_empty() -> None:
    assert PromptTemplate.parse(RAG).invert(RAG.format(context="", question="Why?")) == Filled("", "Why?")


def test_a_template_without_a_question_gives_the_context() -> None:
    assert PromptTemplate.parse("Pages:\n{context}\nBe brief.").invert("Pages:\nOne.\nBe brief.") == Filled(
        "One.", None
    )


@pytest.mark.parametrize("prompt", ["", "Why?", "Use only what is below. User asks: Why?", "Reply:", RAG[:40]])
def test_another_prompt_is_not_taken_apart(prompt: str) -> None:
    assert PromptTemplate.parse(RAG).invert(prompt) is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Question: {question}", "needs {context} once"),
        ("{context} {context} {question}", "needs {context} once"),
        ("{context}\n{question}", "not only white space"),
        ("{context}", "some text besides"),
    ],
)
def test_a_template_that_cannot_be_inverted_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        PromptTemplate.parse(template)


def test_the_first_template_that_fits_is_taken() -> None:
    templates = [PromptTemplate.parse(RAG), PromptTemplate.parse("D: {context} Q: {question}")]
    assert invert(templates, "D: x Q: y") == Filled("x", "y")
    assert invert(templates, "something else") is None


def test_long_prompts_take_linear_time() -> None:
    template = PromptTemplate.parse("A {context} B {question} C {history} D")
    assert template.invert("A " + "B " * 100_000 + " D") is None
    assert template.invert("A " + " " * 300_000 + "D") is None


# -- the prompt of a row


def case(*documents: str, status: ContextStatus = ContextStatus.RETRIEVED) -> Case:
    found = tuple(map(Document, documents))
    return Case(
        request_id="1",
        request=Request("Why {x}?", HISTORY),
        retrieved_context=found,
        context_status=status,
        response="So.",
    )


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{question}", "Why {x}?"),
        ("By the context. {context} {question}", "By the context. One {question}.\n\nTwo. Why {x}?"),
        ("{{ history }}\nUser: {{question}}", "User: Hi {question}\nAssistant: Hello.\nUser: Why {x}?"),
        ('{"a": 1} {question} {} { question }', '{"a": 1} Why {x}? {} { question }'),
        ("{question} {question}", "Why {x}? Why {x}?"),
    ],
)
def test_the_prompt_of_a_row_holds_its_texts_and_no_text_is_a_template(template: str, filled: str) -> None:
    assert RowPrompt.parse(template).fill(case("One {question}.", " Two. ")) == (Message("user", filled),)


@pytest.mark.parametrize("template", ["", "{context}", "By {name}: {question}", "{0} {question}", "{{Question}}"])
def test_a_prompt_without_a_question_or_with_another_placeholder_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"\{question\}"):
        RowPrompt.parse(template)


def test_a_prompt_with_an_unknown_context_is_none() -> None:
    template = RowPrompt.parse("{context} {question}")
    assert template.fill(case(status=ContextStatus.RETRIEVED_NOTHING)) == (Message("user", " Why {x}?"),)
    for status in (ContextStatus.NO_RETRIEVAL, ContextStatus.NOT_RECORDED):
        assert template.fill(case(status=status)) == ()
        assert RowPrompt.parse("{question}").fill(case(status=status))


@given(st.text(), st.text(), st.text())
def test_any_template_is_refused_or_filled(template: str, query: str, document: str) -> None:
    for text in (template, "{question}" + template):
        try:
            made = RowPrompt.parse(text)
        except ValueError:
            continue
        one = Case(request_id="1", request=Request(query), retrieved_context=(Document(document),))
        assert len(made.fill(one)) == bool(query)
