"""No dialect is thrown by what a span holds: every reading has a status, and a row that any JSON writer takes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.extraction import compose
from monitor.extraction.forest import ask
from monitor.model.case import ReadingStatus
from monitor.model.span import LogRecord, Origin, Part, Span, SpanEvent, Value
from monitor.model.trace import Trace
from monitor.stages import Convention, Observation
from tests.support.examples import TIMES, examples
from tests.support.hostile_traces import KEYS, TRACES, VALUES, WORDS, assert_sound, decoded, read_parts
from tests.support.traces import SETUPS, TRACE_ID, Builder, captured_parts

pytestmark = pytest.mark.timeout(1200)

CONVENTIONS = registry.conventions()
EVENTS = sorted({record.event_name for _, i, parts in TRACES for record in decoded(i, parts).records})
SCOPES = sorted({span.origin.scope_name for _, i, parts in TRACES for span in decoded(i, parts).spans})

_BY_DIALECT: dict[str, dict[str, list[Value]]] = {}


def _sort_keys() -> None:
    """Which keys each dialect's spans carry, with values that came: those that make it recognise a span above all."""
    for _, trace_id, parts in TRACES:
        trace = decoded(trace_id, parts)
        for span in trace.spans:
            records = tuple(one for one in trace.records if one.span_id == span.span_id)
            for convention in CONVENTIONS:
                if convention.observe(span, records) is not None:
                    keys = _BY_DIALECT.setdefault(convention.name, {})
                    for key, value in span.attributes.items():
                        several = keys.setdefault(key, [])
                        if len(several) < 20 and value not in several:
                            several.append(value)


_sort_keys()


@st.composite
def attributes(draw: st.DrawFn, dialect: str) -> dict[str, Value]:
    """Keys of the dialect's recorded spans, of others and of nobody, with values that came and any others."""
    known = _BY_DIALECT.get(dialect, {})
    found: dict[str, Value] = {}
    for key in draw(st.lists(st.sampled_from(sorted(known) or KEYS), min_size=1, max_size=8)):
        recorded = st.sampled_from(known[key]) if key in known else st.nothing()
        found[key] = draw(recorded | VALUES)
    return found | draw(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), VALUES, max_size=3))


@st.composite
def log_records(draw: st.DrawFn) -> LogRecord:
    name = draw(st.sampled_from([*EVENTS, "gen_ai.choice", "gen_ai.user.message", ""]))
    held = draw(st.dictionaries(st.sampled_from(KEYS) | st.sampled_from(WORDS), VALUES, max_size=3))
    return LogRecord(TRACE_ID, f"{1:016x}", name, 1, draw(VALUES), held)


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda one: one.name)
def test_no_span_of_any_attributes_throws_a_dialect(convention: Convention) -> None:
    @examples(60)
    @given(
        attributes(convention.name),
        st.lists(log_records(), max_size=2),
        st.dictionaries(st.sampled_from(["exception.message", "gen_ai.prompt", "gen_ai.event.content"]), VALUES),
        st.sampled_from(SCOPES),
        st.sampled_from(["unset", "error"]),
    )
    def observed(
        held: dict[str, Value], records: list[LogRecord], of_event: dict[str, Value], scope: str, status: Any
    ) -> None:
        event = SpanEvent("exception", 1, of_event)
        origin = Origin("s", scope_name=scope)
        span = Span(TRACE_ID, f"{1:016x}", attributes=held, events=(event,), status=status, origin=origin, is_root=True)
        seen = convention.observe(span, tuple(records))
        assert seen is None or _is_as_declared(seen)
        assert_sound(compose.read(Trace(TRACE_ID, (span,), tuple(records)), CONVENTIONS))

    observed()


def _is_as_declared(seen: Observation) -> bool:
    """Whether each field holds what its type says: a wrong one breaks only later, and elsewhere."""
    texts = (seen.model, seen.session_id, seen.user_id, seen.error, seen.query or "", seen.response or "")
    said = [
        text for message in (*(seen.history or ()), *(seen.messages or ())) for text in (message.role, message.content)
    ]
    given_back = [text for one in seen.documents or () for text in (one.content, one.doc_id, one.doc_uri)]
    facts = [text for pair in seen.attributes.items() for text in pair]
    return all(isinstance(text, str) for text in (*texts, *said, *given_back, *facts))


@examples(60)
@given(
    st.lists(
        st.tuples(st.sampled_from([one.name for one in CONVENTIONS]).flatmap(attributes), st.integers(0, 6)), max_size=7
    ),
    st.lists(log_records(), max_size=3),
)
def test_no_tree_of_any_spans_throws_the_reader(
    spans: list[tuple[dict[str, Value], int]], records: list[LogRecord]
) -> None:
    build = Builder()
    for held, parent in spans:
        build.span("s", held, f"{parent:016x}" if parent else "", root=not parent)
    build.records += records
    assert_sound(build.read_all())


# -- recorded traces with something wrong


def mutated(value: Value, rng: random.Random, others: list[Value]) -> Value:
    """Another type, a part, another attribute's value, or the value inside of itself."""
    text = value if isinstance(value, str) else repr(value)
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        [
            None,
            [value],
            {"value": value},
            text[:at],
            text[at:],
            text[:at] + rng.choice("\"'\\{}[],: \n\ud7ff") + text[at + 1 :],
            text.encode(),
            len(text),
            float(at),
            bool(at),
            rng.choice(others),
            text * 2,
            [[text, at]],
            rng.choice(WORDS),
        ]
    )


def harmed(trace: Trace, rng: random.Random) -> Trace:
    """One to five harms: attributes mutated or gone, spans gone, parents rewired, statuses flipped, bodies changed."""
    spans, records = list(trace.spans), list(trace.records)
    others = [value for span in spans for value in span.attributes.values()] or [None]
    for _ in range(rng.randint(1, 5)):
        harm = rng.randrange(7)
        if harm == 0 and records:
            at = rng.randrange(len(records))
            body, held = records[at].body, _mutated_in(records[at].attributes, rng, others)
            records[at] = dataclasses.replace(records[at], body=_body(body, rng, others), attributes=held)
        if not spans:
            break
        at = rng.randrange(len(spans))
        span = spans[at]
        if harm == 1:
            del spans[at]
        elif harm == 2:
            parent = rng.choice([span.span_id, rng.choice(spans).span_id, "f" * 16, ""])
            spans[at] = dataclasses.replace(span, parent_id=parent, is_root=rng.random() < 0.2)
        elif harm == 3:
            spans[at] = dataclasses.replace(span, status=rng.choice(["ok", "error", "unset"]), kind=rng.randrange(7))
        else:
            spans[at] = dataclasses.replace(span, attributes=_mutated_in(span.attributes, rng, others))
    return dataclasses.replace(trace, spans=tuple(spans), records=tuple(records))


def _mutated_in(held: Mapping[str, Value], rng: random.Random, others: list[Value]) -> dict[str, Value]:
    found = dict(held)
    for key in rng.sample(sorted(found), min(len(found), rng.randint(1, 2))):
        if rng.random() < 0.2:
            del found[key]
        else:
            found[key] = mutated(found[key], rng, others)
    return found


def _body(body: Value, rng: random.Random, others: list[Value]) -> Value:
    return _mutated_in(body, rng, others) if isinstance(body, Mapping) and body else mutated(body, rng, others)


@pytest.mark.parametrize("setup", SETUPS)
def test_a_recorded_trace_with_anything_wrong_is_still_read(setup: str) -> None:
    rng = random.Random(None if TIMES else setup)
    traces = [decoded(trace_id, parts) for trace_id, parts in captured_parts(setup).items()]
    for _ in range(30 * max(TIMES, 1)):
        trace = harmed(rng.choice(traces), rng)
        try:
            assert_sound(compose.read(trace, CONVENTIONS))
        except Exception as error:
            error.add_note(f"read of {setup}: {trace!r}"[:20_000])
            raise


@examples(60)
@given(st.sampled_from(TRACES), st.randoms(use_true_random=False), st.data())
def test_any_order_and_repetition_of_the_same_parts_gives_the_same_reading(
    trace: tuple[str, bytes, list[Part]], shuffler: random.Random, data: st.DataObject
) -> None:
    _, trace_id, parts = trace
    again = data.draw(st.lists(st.integers(0, len(parts) - 1), max_size=5))
    mixed = [*parts, *(parts[at] for at in again)]
    shuffler.shuffle(mixed)
    assert read_parts(trace_id, mixed) == read_parts(trace_id, parts)


@examples(40)
@given(st.sampled_from(TRACES), st.data())
def test_a_trace_with_parts_missing_still_gets_a_status(
    trace: tuple[str, bytes, list[Part]], data: st.DataObject
) -> None:
    _, trace_id, parts = trace
    kept = data.draw(st.lists(st.sampled_from(range(len(parts))), unique=True))
    found = read_parts(trace_id, [parts[at] for at in kept])
    assert_sound(found)
    ready = any(reading.status is ReadingStatus.READY for reading in found.readings)
    if ready and not any(parts[at].is_root for at in kept):
        spans = decoded(trace_id, [parts[at] for at in kept]).spans
        seen = [one for span in spans if (one := ask(span, (), CONVENTIONS)) is not None]
        assert any(one.query and (one.response or one.error) for one in seen), "what was asked and answered is a guess"
