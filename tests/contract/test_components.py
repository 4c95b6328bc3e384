"""What every component keeps, whatever its stage. A new one is tested as soon as its file exists."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monitor import registry
from monitor.alerts import notify
from monitor.errors import ConfigError, InvalidData, MonitorError
from monitor.model.outcome import EvaluationResult, Score
from monitor.model.span import LogRecord, Span
from monitor.operations.reference import docstrings
from monitor.stages import Component, Convention, Evaluator, Observation, Sampler, Sampling, Sink, Source
from tests.support.components import options
from tests.support.evaluators import case
from tests.support.http_api import HttpApi
from tests.support.kafka import Broker
from tests.support.kafka_fleet import read_all
from tests.support.rubrics import shipped
from tests.support.runtime import runtime

CONTRACTS = {"sources": Source, "samplers": Sampler, "evaluators": Evaluator, "sinks": Sink}
COMPONENTS = [
    pytest.param(registry.component(folder, name, contract), id=f"{folder}-{name}")
    for folder, contract in CONTRACTS.items()
    for name in registry.types(folder)
] + [pytest.param(chosen, id=f"notify-{name}") for name, chosen in notify.TYPES.items()]


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_option_is_documented_where_it_is_declared(component: type[Component]) -> None:
    known = docstrings(component)
    described = {name for name, field in component.model_fields.items() if field.description or known.get(name)}
    assert described == component.model_fields.keys()


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_says_in_a_sentence_what_it_is_for(component: type[Component]) -> None:
    assert (inspect.getdoc(component) or "").strip()


@pytest.mark.parametrize("component", COMPONENTS)
def test_options_never_change_after_start_and_unknown_ones_are_refused(component: type[Component]) -> None:
    assert component.model_config["frozen"]
    assert component.model_config["extra"] == "forbid"
    with pytest.raises((ValidationError, ConfigError)):
        component.model_validate({"no_such_option": 1})


@pytest.mark.parametrize("component", COMPONENTS)
def test_options_that_are_required_give_an_example_and_the_examples_make_a_component(
    component: type[Component], tmp_path: Path
) -> None:
    fields = component.model_fields.items()
    assert not [name for name, field in fields if field.is_required() and not field.examples]
    assert isinstance(component.model_validate(options(component, tmp_path)), component)


@pytest.mark.parametrize("folder", CONTRACTS)
def test_a_type_that_is_not_there_is_an_error_that_names_those_that_are(folder: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.read(folder, {"type": "nonesuch"}, CONTRACTS[folder], f"{folder}[0]")
    assert str(caught.value).startswith(f"{folder}[0]: ")
    assert all(name in str(caught.value) for name in registry.types(folder))


@pytest.fixture
def api() -> Iterator[HttpApi]:
    """Whatever a sink writes to over HTTP: takes all."""
    with HttpApi() as taking:
        yield taking


def written_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


@pytest.mark.anyio
@pytest.mark.parametrize("name", registry.types("sinks"))
async def test_a_sink_takes_a_result_and_the_same_result_again(
    name: str, tmp_path: Path, api: HttpApi, request: pytest.FixtureRequest
) -> None:
    component = registry.component("sinks", name, Sink)
    broker: Broker | None = request.getfixturevalue("kafka") if "brokers" in component.model_fields else None
    chosen = options(component, tmp_path, api.url, broker.address if broker else "")
    if broker:
        broker.create_topics(chosen["topic"])
    sink = component.model_validate(chosen)
    result = EvaluationResult(
        case=case(1, span_id="1" * 16),
        evaluator="any",
        version="1",
        outcome=Score(1, "because"),
        weight=2.0,
        level="1",
        defect=True,
    )
    async with sink.open(runtime()) as deliver:
        for _ in range(2):
            try:
                await deliver([result])
            except InvalidData:
                raise
            except MonitorError:  # not now: the follower of the history delivers again, too
                await deliver([result])
    sent = read_all(broker, chosen["topic"]) if broker else api.asked
    assert sent or written_in(tmp_path) or "port" in chosen, "nothing came to the place that its options name"


def sampling(name: str, tmp_path: Path) -> Sampling:
    component = registry.component("samplers", name, Sampler)
    return component.model_validate(options(component, tmp_path)).open(shipped("groundedness"), runtime())


@pytest.mark.parametrize("name", registry.types("samplers"))
def test_a_sampler_gives_a_probability_the_same_for_the_same_case_unless_it_adapts(name: str, tmp_path: Path) -> None:
    opened = sampling(name, tmp_path)
    found = [opened.draw(case(number), {}).probability for number in (1, 1, 2)]
    assert all(0 <= one <= 1 for one in found)
    assert opened.adaptive or found[0] == found[1]


@pytest.mark.parametrize("name", registry.types("samplers"))
def test_a_sampler_hears_what_came_of_a_case_or_that_nothing_did_and_goes_on(name: str, tmp_path: Path) -> None:
    opened = sampling(name, tmp_path)
    for defect in (True, False, None):
        opened.learn(case(1), opened.draw(case(1), {}), defect=defect, dollars=0.001)
        assert 0 <= opened.draw(case(2), {}).probability <= 1


def _written_in(convention: Convention) -> list[str]:
    """The texts in the file of a dialect: the keys that it looks for and the words that it knows are among them."""
    tree = ast.parse(Path(inspect.getfile(type(convention))).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(text for text in texts if 0 < len(text) <= 60 and "\n" not in text)


def _values(words: Sequence[str]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=10)
    leaves |= st.sampled_from(words) | st.sampled_from(words).map(lambda word: json.dumps({word: [word]}))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=6,
    )


@pytest.mark.parametrize("convention", registry.conventions(), ids=lambda one: one.name)
@given(data=st.data())
def test_a_dialect_reads_any_span_or_leaves_it_and_never_raises(convention: Convention, data: st.DataObject) -> None:
    words = _written_in(convention)
    held = st.dictionaries(st.sampled_from(words) | st.text(max_size=20), _values(words), max_size=6)
    span = Span(trace_id="1" * 32, span_id="1" * 16, name=data.draw(st.sampled_from(words)), attributes=data.draw(held))
    record = LogRecord(
        trace_id="1" * 32,
        span_id="1" * 16,
        event_name=data.draw(st.sampled_from(words)),
        body=data.draw(_values(words)),
        attributes=data.draw(held),
    )
    observed = convention.observe(span, (record,))
    assert observed is None or (isinstance(observed, Observation) and observed.convention and observed.span is span)


def test_dialects_are_asked_in_one_order_and_have_names_of_their_own() -> None:
    found = registry.conventions()
    assert [one.name for one in found] == [
        one.name for one in sorted(found, key=lambda one: (one.precedence, one.name))
    ]
    assert len({one.name for one in found}) == len(found)
