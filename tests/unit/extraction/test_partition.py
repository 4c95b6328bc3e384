"""Every question of a trace is a case of its own, with its own context, history and tokens."""

from __future__ import annotations

import json

import pytest

from monitor.extraction import partition
from monitor.model.case import Message, Reading, ReadingStatus
from monitor.model.span import Value
from tests.support.exchanges import BOTH, PRICE, TEN_EUROS, TWO_YEARS, WARRANTY, chat, exchange, flat, pairs
from tests.support.traces import TRACE_ID, Builder, documents


def contents(reading: Reading) -> list[str]:
    return [document.content for document in reading.case.retrieved_context]


# -- two requests


@pytest.mark.parametrize("add", [exchange, flat])
def test_two_questions_below_one_root_are_two_cases_each_with_its_own_context(add: object) -> None:
    build = Builder()
    root = build.span("POST /chat", {"http.route": "/chat", "session.id": "s1"}, kind=2)
    for question, answer in BOTH:
        add(build, question, answer, root)  # type: ignore[operator]
    first, second = build.read_all().readings
    assert pairs(build) == BOTH
    assert (contents(first), contents(second)) == ([f"Handbook: {TWO_YEARS}"], [f"Handbook: {TEN_EUROS}"])
    assert first.case.request_id != second.case.request_id
    for one in (first, second):
        assert one.status is ReadingStatus.READY
        assert one.case.request_id.startswith(f"{TRACE_ID}/")
        assert one.case.trace_id == TRACE_ID
        assert one.case.session_id == "s1"
        assert one.case.attributes["http.route"] == "/chat"


def test_a_request_of_several_is_named_after_the_span_that_states_it() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    tops = [exchange(build, *one, root) for one in BOTH]
    assert [one.case.request_id for one in build.read_all().readings] == [f"{TRACE_ID}/{top}" for top in tops]


def test_the_only_request_of_a_trace_has_the_id_of_the_trace() -> None:
    build = Builder()
    exchange(build, WARRANTY, TWO_YEARS, build.span("POST /chat", kind=2))
    assert build.read().case.request_id == TRACE_ID


def test_several_roots_are_several_requests() -> None:
    build = Builder()
    for one in BOTH:
        exchange(build, *one)
    assert pairs(build) == BOTH


def test_the_second_turn_of_a_conversation_has_the_first_as_its_history_and_is_no_repetition() -> None:
    build = Builder()
    root = build.span("conversation")
    chat(build, [("user", "Hello there, who are you?")], "I am the assistant of the bike shop.", root)
    turns = [("user", "Hello there, who are you?"), ("assistant", "I am the assistant of the bike shop.")]
    chat(build, [*turns, ("user", PRICE)], TEN_EUROS, root)
    first, second = build.read_all().readings
    assert first.case.request.history == ()
    assert second.case.request.history == tuple(Message(*turn) for turn in turns)
    assert pairs(build)[1] == (PRICE, TEN_EUROS)


def test_a_user_who_says_the_same_twice_in_a_conversation_has_asked_twice() -> None:
    build = Builder()
    root = build.span("conversation")
    chat(build, [("user", "Go on.")], "The first part is about bikes.", root)
    turns = [("user", "Go on."), ("assistant", "The first part is about bikes."), ("user", "Go on.")]
    chat(build, turns, "The second part is about prices.", root)
    assert len(pairs(build)) == 2


def test_a_conversation_below_a_request_that_stays_open_is_several_requests() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": WARRANTY})  # its first question is all that it states
    exchange(build, *BOTH[0], root)
    top = build.oi("CHAIN", {"input.value": PRICE, "output.value": TEN_EUROS}, root)
    chat(build, [("user", WARRANTY), ("assistant", TWO_YEARS), ("user", PRICE)], TEN_EUROS, top)
    assert pairs(build) == BOTH


def test_questions_answered_side_by_side_keep_their_own_documents() -> None:
    build = Builder()
    root = build.span("batch")
    for question, answer in BOTH:
        build.oi(
            "RETRIEVER", {"input.value": question, **documents("retrieval.documents", [f"Handbook: {answer}"])}, root
        )
    for question, answer in BOTH:
        build.llm(f"Context: Handbook: {answer}\nQuestion: {question}", answer, root)
    first, second = build.read_all().readings
    assert (contents(first), contents(second)) == ([f"Handbook: {TWO_YEARS}"], [f"Handbook: {TEN_EUROS}"])


def test_answers_that_quote_the_document_that_others_are_sent_as_well_are_handed_to_nobody() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    handbook = f"{TWO_YEARS} {TEN_EUROS}"
    for question, answer in BOTH:
        flat(build, question, answer, root, document=handbook)
    assert pairs(build) == BOTH


def test_a_list_of_questions_on_the_span_around_a_batch_is_no_question() -> None:
    build = Builder()
    inputs, outputs = json.dumps([WARRANTY, PRICE]), json.dumps([TWO_YEARS, TEN_EUROS])
    root = build.oi("CHAIN", {"input.value": inputs, "output.value": outputs})
    for one in BOTH:
        exchange(build, *one, root)
    assert pairs(build) == BOTH


@pytest.mark.parametrize("add", [exchange, flat])
def test_a_list_of_objects_on_the_span_around_a_batch_is_not_its_first_exchange(add: object) -> None:
    build = Builder()
    inputs = json.dumps([{"question": question} for question, _ in BOTH])
    outputs = json.dumps([{"answer": answer} for _, answer in BOTH])
    root = build.oi("CHAIN", {"input.value": inputs, "output.value": outputs})
    for one in BOTH:
        add(build, *one, root)  # type: ignore[operator]
    assert pairs(build) == BOTH


def test_a_list_of_messages_around_several_calls_is_one_request() -> None:
    build = Builder()
    turns = [{"role": "user", "content": PRICE}]
    root = build.oi("AGENT", {"input.value": json.dumps(turns), "output.value": TEN_EUROS})
    build.llm(f"Which words to search for? {PRICE}", "cargo bike price", root)
    flat(build, PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_an_enclosing_span_that_tells_of_the_transport_does_not_make_two_questions_one() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "POST /chat", "output.value": "200 OK"})
    for one in BOTH:
        exchange(build, *one, root)
    assert pairs(build) == BOTH


def test_a_failed_question_beside_an_answered_one_is_a_failed_request_of_its_own() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    exchange(build, *BOTH[0], root)
    top = build.oi("CHAIN", {"input.value": PRICE}, root, status="error", message="429")
    build.llm(PRICE, None, top, status="error", message="429")
    first, second = build.read_all().readings
    assert (first.status, second.status, second.error) == (ReadingStatus.READY, ReadingStatus.FAILED_REQUEST, "429")


def test_an_error_of_the_enclosing_span_fails_no_request_that_was_answered() -> None:
    build = Builder()
    root = build.span("conversation", status="error", message="the client went away")
    for one in BOTH:
        exchange(build, *one, root)
    assert {one.status for one in build.read_all().readings} == {ReadingStatus.READY}


def test_tokens_are_divided_and_none_is_counted_twice() -> None:
    build = Builder()
    counts: dict[str, Value] = {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    root = build.oi("CHAIN", {"llm.token_count.prompt": 20, "llm.token_count.completion": 4})
    for question, answer in BOTH:
        top = build.oi("CHAIN", {"input.value": question, "output.value": answer}, root)
        build.oi("LLM", {"llm.input_messages.0.message.content": question, "output.value": answer, **counts}, top)
    assert [one.case.usage.total_tokens for one in build.read_all().readings] == [12, 12]


def agent(input_tokens: int, output_tokens: int) -> dict[str, Value]:
    counts = {"gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens}
    return {"gen_ai.operation.name": "invoke_agent", **counts}


@pytest.mark.parametrize(("counted", "parts"), [((21, 5), [(11, 3), (10, 2)]), ((1, 0), [(1, 0), (0, 0)])])
def test_tokens_that_only_the_span_around_counts_are_divided_in_equal_parts(
    counted: tuple[int, int], parts: list[tuple[int, int]]
) -> None:
    build = Builder()
    root = build.span("invoke_agent desk", agent(*counted))
    for one in BOTH:
        exchange(build, *one, root)
    found = [one.case.usage for one in build.read_all().readings]
    assert [(one.input_tokens, one.output_tokens) for one in found] == parts
    assert [one.total_tokens for one in found] == [sum(part) for part in parts]


def test_tokens_of_the_span_around_are_left_where_one_of_its_requests_counts_its_own() -> None:
    build = Builder()
    root = build.span("invoke_agent desk", agent(100, 10))
    exchange(build, *BOTH[0], root)
    exchange(build, *BOTH[1], build.span("invoke_agent clerk", agent(30, 3), root))
    assert [one.case.usage.input_tokens for one in build.read_all().readings] == [None, 30]


# -- one request


def one_request(build: Builder, question: str, answer: str) -> None:
    assert pairs(build) == [(question, answer)]


def test_an_agent_that_states_question_and_answer_is_one_request_however_many_agents_it_asks() -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": f"{WARRANTY} {PRICE}", "output.value": f"{TWO_YEARS} {TEN_EUROS}"})
    for one in BOTH:
        exchange(build, *one, root)
    build.llm(f"Say both: {TWO_YEARS} {TEN_EUROS}", f"{TWO_YEARS} {TEN_EUROS}", root)
    one_request(build, f"{WARRANTY} {PRICE}", f"{TWO_YEARS} {TEN_EUROS}")


def test_an_answer_that_only_the_agent_has_edited_is_one_request() -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": PRICE, "output.value": "Zehn Euro am Tag."})
    exchange(build, "cargo bike price", "Ten euros.", root)
    exchange(build, "Is ten euros right for a cargo bike, or is it more?", "It is right.", root)
    build.llm(f"Answer in German. {PRICE}", "10 Euro", root)
    one_request(build, PRICE, "Zehn Euro am Tag.")


def test_a_rewritten_question_is_the_same_request() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    build.oi("CHAIN", {"input.value": "And that one?", "output.value": PRICE}, root)
    rewriting = build.oi("CHAIN", {"input.value": "And that one?", "output.value": PRICE}, root)
    build.llm("Rewrite: And that one?", PRICE, rewriting)
    exchange(build, PRICE, TEN_EUROS, root)
    assert len(pairs(build)) == 1
    assert build.read().case.response == TEN_EUROS


@pytest.mark.parametrize(
    "helper",
    [
        (f"Is this harmful? {PRICE}", "no"),
        (f"Which department? {PRICE}", "sales"),
        (f"Give three search queries for: {PRICE}", "cargo bike; day; price"),
        (f"Does the text help to answer '{PRICE}'? Text: Handbook", "yes"),
    ],
)
def test_a_call_about_the_question_is_part_of_the_request(helper: tuple[str, str]) -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    build.llm(*helper, root)
    exchange(build, PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


@pytest.mark.parametrize("stated", [False, True])
def test_the_title_of_a_conversation_is_not_the_answer(stated: bool) -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    exchange(build, PRICE, TEN_EUROS, root)
    asked = f"Write a title for a conversation that begins so: {PRICE}"
    top = build.oi("CHAIN", {"input.value": asked, "output.value": "Bike prices"}, root) if stated else root
    build.llm(asked, "Bike prices", top)
    one_request(build, PRICE, TEN_EUROS)


@pytest.mark.parametrize(
    "reply",
    ["yes", "Not supported.", "3", '{"score": 1, "explanation": "It is in the handbook."}', '{"grounded": "no"}'],
)
def test_a_check_of_the_answer_is_not_the_answer(reply: str) -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    flat(build, PRICE, TEN_EUROS, root)
    build.llm(f"Question: {PRICE}\nAnswer: {TEN_EUROS}\nIs the answer grounded?", reply, root)
    one_request(build, PRICE, TEN_EUROS)


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (PRICE, "Ten euros a day."),
        (PRICE, '{"answer": "Ten euros a day.", "sources": ["handbook"]}'),
        ("Is a cargo bike ten euros a day?", "Yes"),
    ],
)
def test_a_call_that_goes_on_from_the_draft_gives_the_answer(asked: str, reply: str) -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    flat(build, asked, TEN_EUROS, root)
    build.llm(f"Draft: {TEN_EUROS}\nQuestion: {asked}", reply, root)
    assert [response for _, response in pairs(build)] == [reply]


def test_a_rewritten_question_within_a_prompt_is_the_same_request() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    asked = "Rewrite this for a search: And that one?"
    rewriting = build.oi("CHAIN", {"input.value": asked, "output.value": "Cargo price?"}, root)
    build.llm(asked, "Cargo price?", rewriting)
    prompt = "Context:\nHandbook\n\nQuestion: Cargo price?"
    top = build.oi("CHAIN", {"input.value": prompt, "output.value": TEN_EUROS}, root)
    build.llm(prompt, TEN_EUROS, top)
    assert [answer for _, answer in pairs(build)] == [TEN_EUROS]


def test_partial_answers_that_are_handed_on_are_part_of_the_request() -> None:
    build = Builder()
    root = build.span("summarise")
    for part in ("one", "two", "three"):
        build.llm(f"Summarise part {part} of the book.", f"Part {part} tells of the sea and the wind.", root)
    told = " ".join(f"Part {part} tells of the sea and the wind." for part in ("one", "two", "three"))
    build.llm(f"Summarise the whole: {told}", "It is all about the sea.", root)
    assert len(pairs(build)) == 1


def test_an_agent_without_any_text_of_its_own_that_calls_a_tool_is_one_request() -> None:
    build = Builder()
    root = build.oi("AGENT")
    chat(build, [("user", PRICE)], None, root)
    tool = build.oi("TOOL", {"input.value": "price", "output.value": "Ten euros a day."}, root)
    exchange(build, "price of a cargo bike in the winter", "It is ten euros in the winter.", tool)
    chat(build, [("user", PRICE), ("assistant", ""), ("tool", "Ten euros a day.")], TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_an_agent_that_thinks_aloud_before_it_calls_a_tool_has_answered_once() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    chat(build, [("user", PRICE)], "Let me look that up in the price list for you.", root)
    build.oi("TOOL", {"input.value": "price", "output.value": "Ten euros a day."}, root)
    turns = [
        ("user", PRICE),
        ("assistant", "Let me look that up in the price list for you."),
        ("tool", "Ten euros a day."),
    ]
    chat(build, turns, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_nodes_of_a_graph_that_repeat_the_question_are_one_request() -> None:
    build = Builder()
    root = build.oi("CHAIN")
    for _ in range(3):
        exchange(build, PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_a_plan_and_its_steps_are_one_request() -> None:
    build = Builder()
    root = build.span("plan and execute")
    steps = ["Look up the price of a day.", "Look up the cost of an insurance."]
    plan = build.oi("CHAIN", {"input.value": PRICE, "output.value": " ".join(steps)}, root)
    build.llm(f"Make a plan: {PRICE}", " ".join(steps), plan)
    for step in steps:
        exchange(build, step, f"Done: {step}", root)
    exchange(build, PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_a_call_that_was_repeated_after_an_error_is_one_request() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    build.llm(PRICE, None, root, status="error", message="429")
    build.llm(PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_steps_that_no_model_takes_part_in_are_no_requests() -> None:
    build = Builder()
    root = build.oi("CHAIN")
    build.oi("CHAIN", {"input.value": "Some text that is formatted", "output.value": "SOME TEXT"}, root)
    exchange(build, PRICE, TEN_EUROS, root)
    one_request(build, PRICE, TEN_EUROS)


def test_a_trace_that_lacks_a_part_is_incomplete_as_a_whole() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    for one in BOTH:
        exchange(build, *one, root)
    build.llm("Why?", "Because.", "f" * 16)
    assert build.read().status is ReadingStatus.INCOMPLETE


# -- bounds


def test_requests_beyond_the_limit_are_counted_and_not_read() -> None:
    build = Builder()
    root = build.span("load")
    for number in range(partition.MAX_REQUESTS + 5):
        question, answer = (
            f"What is the price of bike number {number}?",
            f"Bike number {number} has a price of its own.",
        )
        exchange(build, question, answer, root)
    found = build.read_all()
    assert (len(found.readings), found.left_out) == (partition.MAX_REQUESTS, 5)
