"""What has content is decided by one rule: by the response, and by what the case asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction.content import why_trivial
from monitor.model.case import Case, Document, Message, Request
from tests.support.work import assert_linear


def case(
    response: str, query: str = "", *documents: str, expected: str | None = None, before: tuple[Message, ...] = ()
) -> Case:
    return Case(
        request_id="1",
        request=Request(query, before),
        retrieved_context=tuple(map(Document, documents)),
        response=response,
        expected_response=expected,
    )


@pytest.mark.parametrize(
    "response",
    [
        *("", "  \n\t", ":", ".", "...", "?!", "\u200b", "👍", "**", "a", "B", "(C)", "**D**"),
        *("Thought process:", "Thought process", "**Solution:**", "Let's solve this problem step by step."),
        *("解", "かいせつ", "Respuesta", "Réponse :", "The final answer is:", "# Answer\n", "Let\u2019s think:"),
        *("答案\uff1a", "<think></think>", "<think>\n</think>\n:", "N/A", "n/a.", "null", "So\u00adlution"),
        *("Let me think about it step by step:", "Let me think step by step"),
    ],
)
def test_what_says_nothing_has_no_content(response: str) -> None:
    assert why_trivial(case(response))


@pytest.mark.parametrize(
    "response",
    [
        *("Paris", "42", "5", "No.", "Yes", "是", "é", "Mars", "I don't know.", "Answer: Paris", "A+", "C#", "C++"),
        *("The answer is 7:30 tonight", "<think>easy</think>Paris", "None", "nullable", "0"),
    ],
)
def test_a_short_answer_is_an_answer(response: str) -> None:
    assert why_trivial(case(response)) == ""


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("B", "B"),
        ("b.", "(B)"),
        ("C", "B"),
        ("B", "B) Rome"),
        ("A", "A. Paris"),
        ("Y", "Yes"),
        ("n", "yes, it is"),
        ("J", "Nein"),
        ("Solution", "solution"),
        ("The answer", "The answer."),
    ],
)
def test_the_reference_makes_a_letter_or_a_word_an_answer(response: str, expected: str) -> None:
    assert why_trivial(case(response, expected=expected)) == ""


@pytest.mark.parametrize(
    ("response", "expected"), [("B", ""), ("B", "Rome"), ("A", "A warranty of two years"), ("Solution", "Paris")]
)
def test_a_reference_of_another_kind_does_not(response: str, expected: str) -> None:
    assert why_trivial(case(response, expected=expected))


@pytest.mark.parametrize(
    ("response", "query"),
    [
        ("B", "Which city is it?\nA) Paris\nB) Rome\nC) Oslo"),
        ("(c)", "Which city is it? (a) Paris (b) Rome (c) Oslo"),
        ("A.", "Which city is it?\nA. Paris\nB. Rome"),
        ("B", "Is the right option A or B?"),
        ("I", "Which numeral? I) one II) two, or V) five"),
        ("D", "Do I lack vitamin C or D?"),
        ("Y", "Can I return the book?"),
        ("N", "I lost my card. Is it free to replace?"),
        ("N", "Isn't it open on Sundays?"),
        ("y", "Open on Sundays? (y/n)"),
        ("T", "True or false: the library is open."),
        ("J", "Ist die Bücherei offen?"),
        ("O", "Est-ce que la bibliothèque est ouverte ?"),
        ("S", "¿Hay libros en inglés?"),
        ("Solution", "Is salt water a mixture or a solution?"),
        ("An explanation", "Is this an explanation or an excuse?"),
    ],
)
def test_the_question_makes_a_letter_or_a_word_an_answer(response: str, query: str) -> None:
    assert why_trivial(case(response, query)) == ""


@pytest.mark.parametrize(
    ("response", "query"),
    [
        ("B", "How long is the warranty?"),
        ("A", "A friend asked: how long is the warranty?"),
        ("I", "Where can I read, and what do I need?"),
        ("E", "What does it cost, e.g. for students?"),
        ("S", "What's new?"),
        ("Y", "How long is the warranty?"),
        ("T", "Is it open?"),
        ("Solution", "What is the solution?"),
        ("Answer", "What is the answer to life?"),
    ],
)
def test_a_question_for_something_else_does_not(response: str, query: str) -> None:
    assert why_trivial(case(response, query))


def test_options_in_an_earlier_turn_count() -> None:
    before = (Message("user", "A) Paris B) Rome"), Message("assistant", "Which one?"))
    assert why_trivial(case("B", "The second.", before=before)) == ""


def test_a_document_that_names_the_letter_makes_it_an_answer() -> None:
    assert why_trivial(case("C", "Which vitamin prevents scurvy?", "Vitamin C prevents scurvy.")) == ""
    assert why_trivial(case("A", "Which vitamin is in carrots?", "Carrots hold vitamin A.")) == ""


@pytest.mark.parametrize(("response", "document"), [("C", "It costs 5 c."), ("A", "A book."), ("I", "So I think.")])
def test_an_article_a_pronoun_and_a_lower_case_letter_name_nothing(response: str, document: str) -> None:
    assert why_trivial(case(response, "Which vitamin?", document))


def test_a_document_does_not_make_an_opening_an_answer() -> None:
    """Documents of a help desk are full of such words, and a judge would fall for it."""
    assert why_trivial(case("Solution", "How do I log in?", "The solution is to reset the password."))


@given(st.text(), st.text(), st.text(), st.none() | st.text())
def test_the_rule_takes_any_text(response: str, query: str, document: str, expected: str | None) -> None:
    assert isinstance(why_trivial(case(response, query, document, expected=expected)), str)


@pytest.mark.parametrize("piece", ["A) ", "or ", "a b ", "(", "is ", "e.g. ", "A\n", "['"])
def test_a_long_case_is_decided_in_linear_time(piece: str) -> None:
    assert_linear(lambda text: why_trivial(case("Q", text, text)), piece * 50_000)
