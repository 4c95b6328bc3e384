"""Which spans are one call of a model, which call gave the answer, who asked what, and what it cost."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.extraction import forest, request
from monitor.extraction.forest import Forest, Node
from monitor.extraction.request import Call, StatedRequest
from monitor.model.case import Message, Request, Usage
from monitor.model.span import Span
from monitor.stages import Observation
from tests.support.traces import TRACE_ID

WHY = (Message("user", "Why is it so?"),)
LONG = "It is said to be so by the law."


def tree(*spans: tuple[str, str, dict[str, Any]]) -> Forest:
    """Spans in order of their start: a name, the name of the parent, and what the span says (nothing where empty)."""
    nodes: dict[str, Node] = {}
    for at, (name, parent, said) in enumerate(spans, 1):
        span = Span(TRACE_ID, f"{at:016x}", nodes[parent].span.span_id if parent else "", name, start_ns=at)
        node = Node(span, Observation(convention="test", span=span, **said) if said else None)
        if parent:
            node.parent = nodes[parent]
            nodes[parent].children.append(node)
        nodes[name] = node
    tops = [node for node in nodes.values() if node.parent is None]
    return Forest(tuple(forest.number(tops)), tuple(tops), ())


def call(**said: Any) -> dict[str, Any]:
    return {"kind": "generation", **said}


def steps(**said: Any) -> dict[str, Any]:
    return {"kind": "request", **said}


def names(found: list[Call]) -> list[tuple[str, str]]:
    return [(one.node.span.name, one.outermost.span.name) for one in found]


# -- calls


def test_layers_around_one_call_are_one_call_with_the_detail_of_each() -> None:
    (one,) = request.calls(
        tree(
            ("router", "", call(model="alias", error="late")),
            ("chain", "router", steps()),
            ("sdk", "chain", call(messages=WHY, error="429")),
            ("http", "sdk", call(response="So.", model="m-1")),
        )
    )
    assert (one.node.span.name, one.outermost.span.name) == ("sdk", "router")
    assert (one.messages, one.response, one.model, one.error) == (WHY, "So.", "m-1", "429")


def test_a_span_around_several_calls_is_none_of_them() -> None:
    found = tree(
        ("agent", "", call(messages=WHY)),
        ("outer", "agent", call()),
        ("inner", "outer", call()),
        ("second", "agent", call()),
    )
    assert names(request.calls(found)) == [("inner", "outer"), ("second", "second")]


def test_calls_stand_in_the_order_of_their_start() -> None:
    found = tree(("a", "", steps()), ("b", "", call()), ("c", "a", call()))
    assert [one.node.span.name for one in request.calls(found)] == ["b", "c"]


def test_of_layers_that_tell_as_much_the_innermost_stands_for_the_call() -> None:
    found = tree(("outer", "", call(messages=WHY, response="So.")), ("inner", "outer", call(messages=WHY)))
    assert names(request.calls(found)) == [("outer", "outer")]
    found = tree(("outer", "", call(messages=WHY)), ("inner", "outer", call(messages=WHY)))
    assert names(request.calls(found)) == [("inner", "outer")]


def test_an_empty_answer_is_not_the_same_as_none_and_any_other_is_better() -> None:
    found = tree(("outer", "", call(response="So.")), ("inner", "outer", call(response="")))
    assert request.calls(found)[0].response == "So."
    found = tree(("outer", "", call()), ("inner", "outer", call(response="")))
    assert request.calls(found)[0].response == ""
    assert request.calls(tree(("only", "", call())))[0].response is None


# -- roles of messages that came without


def unnamed(*texts: str) -> tuple[Message, ...]:
    return tuple(Message("", text) for text in texts)


def roles(outer: tuple[Message, ...] | None, *texts: str, between: int = 0) -> list[str]:
    spans: list[tuple[str, str, dict[str, Any]]] = [("top", "", steps(messages=outer))]
    for number in range(between):
        spans.append((f"{number}", spans[-1][0], {}))
    found = tree(*spans, ("llm", spans[-1][0], call(messages=unnamed(*texts))))
    return [one.role for one in request.calls(found)[0].messages]


SYSTEM = (Message("system", "Be kind."), Message("user", "Why?"))


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["Be kind.", "Why?"], ["system", "user"]),
        (["Why?"], [""]),
        (["Be kind.", "Hi.", "Hello.", "Why?"], ["system", "user", "assistant", "user"]),
        (["Be kind.", "Hi.", "Why?"], ["", "", ""]),
        (["Be kind.", "Be kind.", "Why?"], ["", "", ""]),
    ],
)  # fmt: skip
def test_turns_alternate_from_user_to_user_beside_the_system_prompt_that_the_request_names(
    texts: list[str], wanted: list[str]
) -> None:
    assert roles(SYSTEM, *texts) == wanted


def test_without_a_request_that_names_its_messages_none_gets_a_role() -> None:
    assert roles(None, "Be kind.", "Why?", "So?") == ["", "", ""]
    assert roles((Message("user", "Why?"),), "Why?") == ["user"]


def test_the_request_that_names_the_roles_is_near() -> None:
    assert roles(SYSTEM, "Be kind.", "Why?", between=19) == ["system", "user"]
    assert roles(SYSTEM, "Be kind.", "Why?", between=20) == ["", ""]


# -- the answer


def test_the_call_that_shares_its_words_with_the_answer_gave_it() -> None:
    found = tree(
        ("root", "", steps(response="Well: it is so by LAW.")),
        ("first", "root", call(response="It is so, by law!")),
        ("last", "root", call(response="Anything else?")),
    )
    answered = request.answered(found, request.calls(found))
    assert answered.last is not None
    assert answered.last.node.span.name == "first"
    assert (answered.response, [node.span.name for node in answered.around]) == ("Well: it is so by LAW.", ["root"])


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ([{"response": "One."}, {"messages": WHY}], "0"),
        ([{"messages": WHY}, {}], "0"),
        ([{}, {}], "1"),
        ([{"response": "One."}, {"response": "Two."}], "1"),
        ([{"response": "One."}, {"response": "", "messages": WHY}], "0"),
    ],
)
def test_else_the_last_call_with_an_answer_gave_it_or_the_last_that_was_asked(said: list[Any], wanted: str) -> None:
    found = tree(*((str(number), "", call(**one)) for number, one in enumerate(said)))
    answered = request.answered(found, request.calls(found))
    assert answered.last is not None
    assert answered.last.node.span.name == wanted


def test_the_answer_is_that_of_the_outermost_request_which_agrees_with_a_model() -> None:
    found = tree(
        ("http", "", steps(response="200 OK")),
        ("chain", "http", steps(response="So it is.")),
        ("step", "chain", steps(response="So it is. (1)")),
        ("llm", "step", call(response="So it is.")),
    )
    answered = request.answered(found, request.calls(found))
    assert answered.source is not None
    assert (answered.response, answered.source.node.span.name) == ("So it is.", "chain")


def test_without_a_call_the_requests_are_around_and_nothing_is_the_answer() -> None:
    found = tree(("root", "", steps()), ("search", "root", {"kind": "retrieval"}))
    answered = request.answered(found, [])
    assert [node.span.name for node in answered.around] == ["root"]
    assert (answered.last, answered.response, answered.source) == (None, None, None)


# -- calls that fed the answer


def fed(*calls: tuple[str, str]) -> list[str]:
    """The calls that fed the last of these prompts with answers."""
    found = request.calls(
        tree(*(
            (str(number), "", call(messages=(Message("user", prompt),), response=answer))
            for number, (prompt, answer) in enumerate(calls)
        ))
    )  # fmt: skip
    return [one.node.span.name for one in request.feeding(found, found[-1])]


def test_calls_whose_answers_were_handed_on_fed_the_last_directly_or_not() -> None:
    first, second = "The first part is about bikes.", "The second part is about prices."
    assert fed(
        ("Part 1", first), ("Not used", "An answer of some length."), (f"With {first}", second), (second, "So.")
    ) == [
        "0",
        "2",
        "3",
    ]


def test_a_short_answer_in_a_later_prompt_is_a_coincidence() -> None:
    assert fed(("One", "a" * 19), ("a" * 19, "So.")) == ["1"]
    assert fed(("One", "a" * 20), ("a" * 20, "So.")) == ["0", "1"]


def test_only_so_many_earlier_calls_are_examined() -> None:
    between = [("Else", "Something else entirely.")] * 99
    assert fed(("One", LONG), *between, (LONG, "So.")) == ["0", "100"]
    assert fed(("One", LONG), *between, *between[:1], (LONG, "So.")) == ["101"]


# -- the question


def ask(*spans: tuple[str, str, dict[str, Any]], limit: int = 0) -> StatedRequest:
    found = tree(*spans)
    calls = request.calls(found)
    return request.asked(found, calls, request.answered(found, calls), limit, ())


def source(asked: StatedRequest) -> tuple[str, str] | None:
    return (asked.question.node.span.name, asked.question.field) if asked.question is not None else None


def test_the_question_is_that_of_the_outermost_request_which_a_model_was_sent() -> None:
    asked = ask(
        ("http", "", steps(query="POST /chat")),
        ("chain", "http", steps(query="Why is it so?")),
        ("step", "chain", steps(query="Why so?")),
        ("llm", "step", call(messages=(Message("user", "Answer: Why is it so? Or: why so?"),), response="So.")),
    )
    assert (asked.request.query, source(asked)) == ("Why is it so?", ("chain", "query"))


def test_where_no_request_states_one_it_is_in_the_last_prompt_with_the_turns_before_it() -> None:
    turns = (Message("system", "Be kind."), Message("user", "Hi."), Message("assistant", "Hello."), *WHY)
    asked = ask(("llm", "", call(messages=turns, response="So.")))
    assert asked.request == Request("Why is it so?", turns[1:3])
    assert source(asked) == ("llm", "messages")
    assert asked.history is not None
    assert asked.history.field == "messages"


def test_the_turns_are_those_of_the_span_that_states_the_question() -> None:
    turns = (Message("user", "Hi."), Message("assistant", "Hello."))
    asked = ask(("root", "", steps(query="Why?", history=turns, response="So.")), ("llm", "root", call(messages=WHY)))
    assert asked.request == Request("Why?", turns)
    assert asked.history is not None
    assert asked.history.field == "history"
    assert ask(("root", "", steps(query="Why?", response="So."))).history is None


def test_the_words_of_a_retrieval_are_the_question_only_where_there_is_one_and_the_answer_came() -> None:
    search: dict[str, Any] = {"kind": "retrieval", "query": "Why?"}
    answer = ("llm", "", call(response="So."))
    assert source(ask(("search", "", search), answer)) == ("search", "query")
    assert source(ask(("search", "", search), ("again", "", search), answer)) == ("search", "query")
    assert source(ask(("search", "", search), ("other", "", {**search, "query": "Who?"}), answer)) is None
    assert source(ask(("search", "", search), ("llm", "", call()))) is None


def test_a_prompt_that_was_cut_is_no_question_and_a_search_does_not_stand_in_for_it() -> None:
    search: dict[str, Any] = {"kind": "retrieval", "query": "Why?"}
    cut = ("llm", "", call(messages=(Message("user", "x" * 64),), response="So."))
    assert source(ask(("search", "", search), cut, limit=64)) is None
    assert source(ask(("search", "", search), cut, limit=65)) == ("llm", "messages")
    assert source(ask(("beside", "", steps(query="Why?")), cut, limit=64)) == ("beside", "query")


def test_the_question_of_a_call_is_its_last_user_message_with_text() -> None:
    turns = (Message("user", "Hi."), Message("assistant", "Hello."), *WHY, Message("user", " "), Message("tool", "x"))
    (one,) = request.calls(tree(("llm", "", call(messages=turns))))
    assert (request.last_user(one), request.question(one, ())) == (2, "Why is it so?")
    (none,) = request.calls(tree(("llm", "", call(messages=turns[1:2]))))
    assert (request.last_user(none), request.question(none, ())) == (-1, "")


# -- tokens


@pytest.mark.parametrize(
    ("spans", "counted"),
    [
        ([], Usage()),
        ([("a", "", call(usage=Usage(3, 1)))], Usage(3, 1, 4)),
        ([("a", "", call(usage=Usage(3, 1))), ("b", "", call(usage=Usage(4, 2)))], Usage(7, 3, 10)),
        ([("a", "", call(usage=Usage(3, None))), ("b", "", call(usage=Usage(None, 2)))], Usage(3, 2, 5)),
        ([("a", "", call(usage=Usage(3, 1, 9))), ("b", "", call(usage=Usage(1, 1)))], Usage(4, 2, 11)),
        ([("a", "", steps(usage=Usage(9, 9))), ("b", "a", call(usage=Usage(3, 1)))], Usage(3, 1, 4)),
        ([("a", "", steps(usage=Usage(9, 9))), ("b", "a", steps(usage=Usage(3, 1)))], Usage(9, 9, 18)),
        ([("a", "", steps(usage=Usage(1, 1))), ("b", "a", steps(usage=Usage(3, 1)))], Usage(3, 1, 4)),
        (
            [
                ("a", "", call(usage=Usage(7, 1))),
                ("b", "a", call(usage=Usage(3, 1))),
                ("c", "a", call(usage=Usage(3, 1))),
            ],
            Usage(7, 1, 8),
        ),
        (
            [
                ("a", "", call(usage=Usage(6, 1))),
                ("b", "a", call(usage=Usage(3, 1))),
                ("c", "a", call(usage=Usage(3, 1))),
            ],
            Usage(6, 2, 8),
        ),
        ([("a", "", {"kind": "embedding", "usage": Usage(3, 1)})], Usage()),
        ([("a", "", call(usage=Usage(0, 0)))], Usage(0, 0, 0)),
    ],
)
def test_tokens_are_those_of_the_calls_each_once_else_those_of_the_requests(
    spans: list[tuple[str, str, dict[str, Any]]], counted: Usage
) -> None:
    assert request.usage(tree(*spans, ("other", "", {}))) == counted


def test_tokens_below_spans_whose_parent_never_came_count() -> None:
    found = tree(("a", "", call(usage=Usage(3, 1))), ("b", "", call(usage=Usage(4, 2))))
    assert request.usage(Forest(found.nodes, found.roots[:1], found.roots[1:])) == Usage(7, 3, 10)


def test_the_spans_that_count_tokens_are_named() -> None:
    found = tree(
        ("a", "", steps(usage=Usage(1, 1))),
        ("b", "a", call(usage=Usage(1, 1))),
        ("c", "a", call()),
        ("d", "a", {"kind": "embedding", "usage": Usage(1, 1)}),
    )
    assert [node.span.name for node in request.counted(found)] == ["a", "b"]
