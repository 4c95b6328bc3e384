"""What makes two steps of a trace one request, and what does not: texts that are handed on, and how long they are."""

from __future__ import annotations

import json

import pytest

from tests.support.exchanges import BOTH, PRICE, TEN_EUROS, TWO_YEARS, WARRANTY, exchange, flat, pairs
from tests.support.traces import TRACE_ID, Builder, documents


def calls(*sent: tuple[str, str | None]) -> list[tuple[str, str]]:
    """Read a trace in which models are called side by side with these prompts."""
    build = Builder()
    root = build.span("POST /chat", kind=2)
    for prompt, answer in sent:
        build.llm(prompt, answer, root)
    return pairs(build)


# -- texts that are handed on


@pytest.mark.parametrize(("length", "requests"), [(20, 1), (19, 2)])
def test_an_answer_of_twenty_characters_in_a_later_prompt_was_handed_on(length: int, requests: int) -> None:
    said = "a" * length
    assert len(calls(("Name a thing.", said), (f"Say more of {said} please", "It is a thing indeed."))) == requests


@pytest.mark.parametrize(("question", "requests"), [("Why is it so?", 1), ("Why is it?", 2)])
def test_a_question_of_twelve_characters_in_a_later_one_is_that_question(question: str, requests: int) -> None:
    found = calls((question, "It is so by the law."), (f"Write a title for this: {question}", "A law"))
    assert len(found) == requests
    assert found[0] == (question, "It is so by the law.")


@pytest.mark.parametrize(("question", "requests"), [("Why is it so?", 1), ("Why is it?", 2)])
def test_a_question_that_was_in_an_earlier_prompt_is_part_of_it(question: str, requests: int) -> None:
    found = calls((f"Does the text help with: {question} Text: none", "yes"), (question, "It is so by the law."))
    assert len(found) == requests


@pytest.mark.parametrize(("step", "requests"), [("a" * 20, 1), ("a" * 19, 2)])
def test_a_question_of_twenty_characters_in_an_earlier_answer_was_planned_there(step: str, requests: int) -> None:
    assert len(calls(("Make a plan.", f"First {step} then stop"), (step, "Done with that."))) == requests


def test_an_answer_that_is_the_next_question_whatever_its_length_was_a_rewriting() -> None:
    assert calls(("Shorter: which price?", "price"), ("price", TEN_EUROS)) == [("price", TEN_EUROS)]


def test_parts_of_words_are_no_texts_that_were_handed_on() -> None:
    assert len(calls(("Why is it so?", "So."), ("NWhy is it sof what?", "Not so."))) == 2
    assert len(calls(("Name it.", "a" * 20), (f"Say more of b{'a' * 20}b please", "It is."))) == 2


def test_an_answer_that_both_have_from_the_same_document_is_not_handed_on() -> None:
    document = f"Handbook: {TWO_YEARS} {TEN_EUROS}"
    build = Builder()
    root = build.span("POST /chat", kind=2)
    flat(build, WARRANTY, TWO_YEARS, root, document=document)
    flat(build, PRICE, TEN_EUROS, root, document=document)
    assert pairs(build) == BOTH


def test_two_stated_questions_of_which_one_prompt_quotes_both_question_and_answer_are_a_conversation() -> None:
    build = Builder()
    root = build.span("conversation")
    exchange(build, WARRANTY, TWO_YEARS, root)
    top = build.oi("CHAIN", {"input.value": PRICE, "output.value": TEN_EUROS}, root)
    build.llm(f"So far: {WARRANTY} {TWO_YEARS} Now: {PRICE}", TEN_EUROS, top)
    assert pairs(build) == BOTH


def test_a_stated_step_whose_answer_alone_the_next_was_sent_serves_it() -> None:
    build = Builder()
    root = build.span("POST /chat", kind=2)
    exchange(build, WARRANTY, TWO_YEARS, root, document="The handbook of the shop.")
    top = build.oi("CHAIN", {"input.value": PRICE, "output.value": TEN_EUROS}, root)
    build.llm(f"Known: {TWO_YEARS} Now: {PRICE}", TEN_EUROS, top)
    assert pairs(build) == [(PRICE, TEN_EUROS)]


@pytest.mark.parametrize(("between", "requests"), [(19, 20), (20, 22)])
def test_the_same_question_is_one_request_as_long_as_it_is_not_too_far_apart(between: int, requests: int) -> None:
    others = [(f"What is the price of number {number}?", f"Number {number} is priced.") for number in range(between)]
    assert len(calls((PRICE, TEN_EUROS), *others, (PRICE, TEN_EUROS))) == requests


# -- calls that say nothing


def test_a_call_that_has_said_nothing_goes_on_with_the_next_one() -> None:
    assert len(calls((PRICE, None), ("Go.", TEN_EUROS), (WARRANTY, TWO_YEARS))) == 2


def test_the_last_call_that_has_said_nothing_belongs_to_the_one_before() -> None:
    found = calls((WARRANTY, TWO_YEARS), (PRICE, TEN_EUROS), ("Go on.", None))
    assert len(found) == 2
    assert found[0] == BOTH[0]


# -- checks and titles after the answer

ASKED = f"Question: {PRICE}\nAnswer: {TEN_EUROS}\nIs it grounded?"


@pytest.mark.parametrize(
    "reply",
    [
        "fully supported",
        "not fully supported",
        "7 10",
        '{"supported": true}',
        '{"score": 0.5, "Reason": "It stands in the handbook."}',
        '{"verdict": "no", "confidence": 1, "evidence": []}',
    ],
)
def test_a_verdict_on_the_answer_is_not_the_answer(reply: str) -> None:
    assert calls((PRICE, TEN_EUROS), (ASKED, reply)) == [(PRICE, TEN_EUROS)]


@pytest.mark.parametrize(
    "reply",
    [
        "yes no yes no",
        "supported by law",
        '{"reason": "It stands in the handbook."}',
        '{"verdict": ["no"]}',
        '{"verdict": "no", "text": "Ten euros a day."}',
    ],
)
def test_a_reply_that_says_more_than_a_verdict_is_the_answer(reply: str) -> None:
    assert [answer for _, answer in calls((PRICE, TEN_EUROS), (ASKED, reply))] == [reply]


def test_a_verdict_of_a_model_that_was_not_sent_the_answer_is_no_check_of_it() -> None:
    found = calls((PRICE, TEN_EUROS), (f"Question: {PRICE}\nIs it harmful?\nDraft: none", "no"))
    assert found == [(PRICE, TEN_EUROS)]  # a step about the question
    found = calls((PRICE, TEN_EUROS), (f"Draft: {TEN_EUROS}\nIs it good?", "no"))
    assert [answer for _, answer in found] == ["no"]


def test_several_steps_after_the_answer_are_all_left_aside() -> None:
    found = calls((PRICE, TEN_EUROS), (ASKED, "yes"), (f"Write a title: {PRICE}", "Prices"), (ASKED, "5"))
    assert found == [(PRICE, TEN_EUROS)]


def test_each_of_several_requests_leaves_its_own_title_aside_and_is_named_after_its_answer() -> None:
    build = Builder()
    root = build.span("conversation")
    wanted = []
    for question, answer in BOTH:
        build.llm(question, answer, root)
        wanted.append(f"{TRACE_ID}/{build.spans[-1].span_id}")
        build.llm(f"Write a title for a conversation that begins so: {question}", "A title", root)
    assert pairs(build) == BOTH
    assert [one.case.request_id for one in build.read_all().readings] == wanted


# -- spans around several


def test_a_span_with_the_question_of_the_first_and_the_answer_of_the_last_is_around_a_batch() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": WARRANTY, "output.value": TEN_EUROS})
    for one in BOTH:
        exchange(build, *one, root)
    assert pairs(build) == BOTH


def test_it_is_one_request_where_its_last_step_goes_on_from_the_first() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": WARRANTY, "output.value": TEN_EUROS})
    exchange(build, *BOTH[0], root, document="The handbook of the shop.")
    top = build.oi("CHAIN", {"input.value": PRICE, "output.value": TEN_EUROS}, root)
    build.llm(f"Known: {TWO_YEARS} Now: {PRICE}", TEN_EUROS, top)
    assert pairs(build) == [(WARRANTY, TEN_EUROS)]


def test_it_is_one_request_where_one_step_states_the_same() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": WARRANTY, "output.value": TEN_EUROS})
    for one in (*BOTH, (WARRANTY, TEN_EUROS)):
        exchange(build, *one, root)
    assert pairs(build) == [(WARRANTY, TEN_EUROS)]


def test_two_requests_that_stay_open_are_two_though_their_steps_share_no_text() -> None:
    build = Builder()
    for question, answer in BOTH:
        build.llm(question, answer, build.oi("CHAIN", {"input.value": question}))
    assert pairs(build) == BOTH


def test_steps_within_a_request_that_stays_open_are_one_whatever_they_say() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": PRICE})
    build.llm("Which words?", "cargo, day", root)
    build.llm("Anything else to look up?", "Nothing at all.", root)
    build.llm(f"Answer: {PRICE}", TEN_EUROS, root)
    assert len(pairs(build)) == 1


def test_a_batch_that_states_only_its_first_question_is_taken_apart() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": WARRANTY})
    for one in BOTH:
        exchange(build, *one, root)
    assert pairs(build) == BOTH


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([{"question": WARRANTY}, {"question": PRICE}], [{"answer": TWO_YEARS}]),
        ([{"question": WARRANTY}], [{"answer": TWO_YEARS}]),
        ([{"question": WARRANTY}, {"question": WARRANTY}], [{"answer": TWO_YEARS}, {"answer": TEN_EUROS}]),
        ([{"question": WARRANTY}, PRICE], [{"answer": TWO_YEARS}, {"answer": TEN_EUROS}]),
    ],
)
def test_lists_that_do_not_pair_each_question_with_its_answer_are_one_request(inputs: object, outputs: object) -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": json.dumps(inputs), "output.value": json.dumps(outputs)})
    for one in BOTH:
        flat(build, *one, root)
    assert len(pairs(build)) == 1


def looked_up(build: Builder, question: str, answer: str, parent: str) -> None:
    """A question that is answered by a document, without a model."""
    top = build.oi("CHAIN", {"input.value": question, "output.value": answer}, parent)
    build.oi("RETRIEVER", {"input.value": question, **documents("retrieval.documents", [answer])}, top)


def test_questions_answered_without_a_model_are_requests_below_a_plain_span() -> None:
    build = Builder()
    root = build.span("faq")
    for one in BOTH:
        looked_up(build, *one, root)
    assert pairs(build) == BOTH


@pytest.mark.parametrize(("between", "requests"), [(39, 1), (40, 3)])
def test_below_a_request_they_are_its_steps_unless_they_are_far_away(between: int, requests: int) -> None:
    build = Builder()
    root = inner = build.oi("AGENT")
    for _ in range(between):
        inner = build.span("plain", None, inner)
    for one in BOTH:
        looked_up(build, *one, inner)
    build.llm("Which colours are there?", "They come in red and in blue.", root)
    assert len(pairs(build)) == requests
