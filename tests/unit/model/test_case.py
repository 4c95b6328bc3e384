from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.case import Case, ContextStatus, Document, Message, Request, app_name, changed


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


def test_a_case_from_texts_says_what_they_say():
    case = Case.from_texts(
        "q",
        "r",
        ["one", Document("two", "https://example.com")],
        history=[Message("user", "before")],
        expected_response="e",
        expected_retrieved_context=["three"],
        app="shop",
    )
    assert case == Case(
        request_id=case.request_id,
        request=Request("q", (Message("user", "before"),)),
        retrieved_context=(Document("one"), Document("two", "https://example.com")),
        context_source="row",
        response="r",
        expected_response="e",
        expected_retrieved_context=(Document("three"),),
        app="shop",
    )
    assert Case.from_texts("q", "r").context_source == "none"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (["one"], ContextStatus.RETRIEVED),
        ([], ContextStatus.RETRIEVED_NOTHING),
        (None, ContextStatus.NO_RETRIEVAL),
    ],
)
def test_an_empty_list_of_documents_is_a_retrieval_that_found_nothing_and_none_is_no_retrieval(given, status):
    case = Case.from_texts("q", "r", given)
    assert (case.context_status, case.as_row()["context_status"]) == (status, status.value)


@pytest.mark.parametrize("status", ContextStatus)
def test_the_status_of_a_context_never_contradicts_its_documents(status):
    some = Case(request_id="1", retrieved_context=(Document("d"),), context_status=status).context_status
    none = Case(request_id="1", context_status=status).context_status
    assert some in (ContextStatus.RETRIEVED, ContextStatus.NOT_RECORDED)
    assert none is not ContextStatus.RETRIEVED
    assert (
        (some is ContextStatus.NOT_RECORDED)
        == (none is ContextStatus.NOT_RECORDED)
        == (status is ContextStatus.NOT_RECORDED)
    )


def test_the_same_texts_give_the_same_id_and_others_another():
    same = [Case.from_texts("q", "r", ["d"]).request_id for _ in range(2)]
    others = [
        Case.from_texts("q", "r"),
        Case.from_texts("q", "r", []),
        Case.from_texts("q", "r", ["d", "d"]),
        Case.from_texts("q", "r", [Document("d", "https://example.com")]),
        Case.from_texts("q", "r", ["d"], history=[Message("user", "h")]),
        Case.from_texts("q", "r", ["d"], expected_response="e"),
        Case.from_texts("q", "r", ["d"], expected_retrieved_context=[]),
        Case.from_texts("q", "r", ["\ud800"]),
    ]
    assert len({*same, *(one.request_id for one in others)}) == 1 + len(others)
    assert len(same[0]) == 32
    assert Case.from_texts("q", "r", request_id="mine").request_id == "mine"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"query": None}, "query must be a text, not NoneType"),
        ({"response": 5}, "response must be a text, not int"),
        ({"retrieved_context": "one text"}, "retrieved_context must be a list of texts or of `Document`"),
        ({"retrieved_context": [5]}, "retrieved_context must be"),
        ({"expected_response": float("nan")}, "expected_response must be a text or None, not float"),
        ({"expected_retrieved_context": "text"}, "expected_retrieved_context must be"),
        ({"history": [("user", "hello")]}, "history must be a list of `Message`"),
    ],
)
def test_what_is_no_text_is_refused_by_name(given, said):
    with pytest.raises(TypeError, match=said):
        Case.from_texts(**{"query": "q", "response": "r", **given})


def test_a_changed_case_has_the_new_values_and_all_others() -> None:
    case = Case.from_texts("Is it so?", "Yes.", ["It is so."], app="shop")
    assert changed(case, app="search", attributes={"tenant": "a"}) == replace(
        case, app="search", attributes={"tenant": "a"}
    )
    assert (case.app, case.attributes) == ("shop", {})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("shop", "shop"),
        ("\u5ba2\u670d\u3000\u52a9\u624b", "\u5ba2\u670d \u52a9\u624b"),
        (" padded\u00a0\t bot\n", "padded bot"),
        ("a\u200db\x1b[1m\ud800\ufeff", "a?b?[1m??"),
        (129 * "x", 128 * "x"),
        (127 * "x" + " y", 127 * "x"),
        (" \u3000\x1f", ""),
        ("", ""),
    ],
)
def test_the_name_of_a_service_is_printable_and_its_white_space_single_spaces(given, name):
    assert app_name(given) == name
    assert Case.from_texts("q", "r", app=given).app == name


@given(given=st.text(max_size=300))
def test_a_name_of_a_service_that_was_made_once_is_not_changed_again(given):
    name = app_name(given)
    assert app_name(name) == name
    assert name.isprintable()
    assert len(name) <= 128
    assert name == " ".join(name.split())
