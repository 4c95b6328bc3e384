from __future__ import annotations

from monitor.model.case import Case, Document, Message, Request


def test_the_length_of_a_case_counts_each_of_its_texts_once():
    case = Case(
        request_id="f" * 32,
        request=Request("q", (Message("user", "hh"),)),
        prompt=(Message("system", "ppp"),),
        retrieved_context=(Document("dddd", "https://example.com"), Document("")),
        response="r" * 10,
        expected_response="e" * 20,
        expected_retrieved_context=(Document("x" * 40),),
        attributes={"name": "v" * 80},
    )
    assert case.text_length == 1 + 2 + 3 + 4 + 10 + 20 + 40 + 80
    assert Case(request_id="f" * 32).text_length == 0
