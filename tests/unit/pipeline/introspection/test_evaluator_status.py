"""Which state an evaluator is in, and that its sentences say why and what to do."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judge.pause import Paused
from monitor.judge.setup import REDIRECTED, PauseCause
from monitor.model.outcome import UnscoredReason
from monitor.pipeline.introspection.evaluator_status import PRECEDENCE, State, StatusFacts, status_of
from monitor.web.rate_views import EvaluatorState
from tests.support.paths import DOCS

NOW = 1_700_000_000.0
PAUSE = Paused(PauseCause.REFUSED, NOW - 300, "the provider rejects the key", "write a valid key", 7)
TIMEOUT, FULL, BUDGET = UnscoredReason.TIMEOUT, UnscoredReason.OVERLOADED, UnscoredReason.BUDGET


def facts(**known: Any) -> StatusFacts:
    return StatusFacts(**{"name": "relevance", "now": NOW, "started_at": NOW - 3600, "finished": 100, **known})


@pytest.mark.parametrize(
    ("known", "state", "why", "remedy"),
    [
        ({"finished": 0}, State.NEVER_RUN, "1 h ago", "rag-monitor why --evaluator relevance"),
        ({"finished": 0, "waiting": 3}, State.OK, "3 answers being evaluated", ""),
        ({"finished": 0, "off": "judge.model is not set"}, State.NEVER_RUN, "judge.model is not set", "remove"),
        ({"scored": 40}, State.OK, "It scored 40 answers in the last 15 minutes.", ""),
        ({"scored": 1}, State.OK, "It scored 1 answer in the last 15 minutes.", ""),
        ({"last": NOW - 1800}, State.OK, "the latest finished 30 min ago", ""),
        ({"skipped": 9}, State.OK, "skipped all 9 answers", ""),
        (
            {"paused": PAUSE},
            State.PAUSED,
            "5 min: the provider rejects the key. Missed so far: 7",
            "Write a valid key.",
        ),
        ({"broken": "litellm cannot be loaded"}, State.ERROR, "litellm cannot be loaded", "restart"),
        ({"held_back": True}, State.ERROR, "probed every 15 seconds", "provider's status"),
        (
            {"held_back": True, "held_back_by": "HTTP 429", "asked_to_wait": "it asked for no calls until 14:05 UTC"},
            State.ERROR,
            "Its judge is not called: it asked for no calls until 14:05 UTC. The error: HTTP 429.",
            "provider's status and limits",
        ),
        ({"scored": 5, "unscored": {TIMEOUT: 5}}, State.ERROR, "5 of 10", "judge.timeout"),
        (
            {"unscored": {UnscoredReason.PROVIDER_ERROR: 9}, "latest": f"{REDIRECTED} (HTTP 307)"},
            State.ERROR,
            "redirects elsewhere, which is not followed (HTTP 307)",
            "Set judge.api_base to the final address.",
        ),
        ({"scored": 0, "unscored": {TIMEOUT: 4}}, State.OK, "Nothing was due", ""),
        ({"scored": 6, "unscored": {TIMEOUT: 5}}, State.OK, "scored 6 answers in the last 15 minutes; 5", ""),
        ({"scored": 18, "unscored": {TIMEOUT: 2}}, State.DEGRADED, "2 of 20", "judge.timeout"),
        ({"scored": 19, "unscored": {TIMEOUT: 2}}, State.OK, "; 2 produced no score", ""),
        ({"scored": 17, "unscored": {TIMEOUT: 2}}, State.OK, "; 2 produced no score", ""),
        ({"scored": 90, "unscored": {FULL: 1}}, State.OVERLOADED, "gave up 1 evaluation in", "judge.max_concurrency"),
        ({"scored": 90, "unscored": {BUDGET: 4}}, State.OVERLOADED, "left out 4 evaluations", "judge.budget"),
        (
            {"scored": 30, "unscored": {UnscoredReason.PAUSED: 90}},
            State.OK,
            "90 evaluations missed",
            "backfill --missed",
        ),
        (
            {"scored": 30, "unscored": {UnscoredReason.MALFORMED: 6, UnscoredReason.CONTENT_FILTER: 5}},
            State.DEGRADED,
            "11 of 41 evaluations in the last 15 minutes produced no score: 6 malformed, 5 content filter.",
            "JSON schema",
        ),
    ],
)
def test_each_state_begins_at_its_number_and_says_why_and_what_to_do(known, state, why, remedy):
    found = status_of(facts(**known))
    assert found.state is state
    assert why in found.why
    assert remedy in found.remedy


@pytest.mark.parametrize("reason", UnscoredReason)
def test_every_reason_without_a_verdict_has_something_to_do_where_it_is_trouble(reason):
    found = status_of(facts(unscored={reason: 50}))
    assert found.remedy or found.state is State.OK


GIVES: dict[State, dict[str, Any]] = {
    State.PAUSED: {"paused": PAUSE},
    State.ERROR: {"unscored": {TIMEOUT: 30, FULL: 1}},
    State.OVERLOADED: {"unscored": {TIMEOUT: 10, FULL: 1}},
    State.DEGRADED: {"unscored": {TIMEOUT: 10}},
    State.NEVER_RUN: {"finished": 0, "scored": 0, "unscored": {}},
    State.OK: {},
}


@pytest.mark.parametrize("state", State)
def test_of_several_states_that_apply_the_first_in_the_order_is_told(state):
    """Each is reached with all that comes before it taken away."""
    later: dict[str, Any] = {"scored": 20}
    for one in reversed(PRECEDENCE[PRECEDENCE.index(state) :]):
        later |= GIVES[one]
    if state is not State.NEVER_RUN:
        later |= {"finished": 100, "scored": 20}
    assert status_of(facts(**later)).state is state


@given(
    st.fixed_dictionaries(
        {
            "finished": st.integers(0, 3),
            "waiting": st.integers(0, 3),
            "scored": st.integers(0, 100),
            "skipped": st.integers(0, 3),
            "unscored": st.dictionaries(st.sampled_from(list(UnscoredReason)), st.integers(0, 100)),
            "off": st.sampled_from(["", "judge.model is not set"]),
            "broken": st.sampled_from(["", "torch is missing"]),
            "held_back": st.booleans(),
            "paused": st.sampled_from([None, PAUSE]),
            "last": st.one_of(st.none(), st.floats(0, NOW)),
        }
    )
)
def test_whatever_is_known_there_is_a_state_and_a_sentence_and_for_trouble_something_to_do(known):
    found = status_of(facts(**known))
    assert found.why.endswith(".")
    assert found.why[0].isupper() or found.why[0].isdigit()
    if found.state is not State.OK:
        assert found.remedy.endswith((".", "?", "!"))


def test_the_order_holds_every_state_once_and_the_page_knows_the_same_set():
    assert sorted(PRECEDENCE) == sorted(State)
    assert get_args(EvaluatorState) == tuple(PRECEDENCE)


def test_the_document_defines_every_state_in_the_order_of_precedence():
    text = (DOCS / "states.md").read_text(encoding="utf-8")
    places = [text.index(f"| `{state}` |") for state in PRECEDENCE]
    assert places == sorted(places)
