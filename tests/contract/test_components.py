"""What every component keeps, whatever its stage. A new one is tested as soon as its file exists."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monitor import registry
from monitor.alerts import notify
from monitor.errors import ConfigError
from monitor.model.outcome import EvaluationResult, Score
from monitor.model.span import LogRecord, Span
from monitor.stages import Component, Evaluator, Observation, Sampler, Sink, Source
from tests.support.evaluators import case
from tests.support.http_api import HttpApi
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
    undocumented = [name for name, field in component.model_fields.items() if not field.description]
    assert not undocumented


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_says_in_a_sentence_what_it_is_for(component: type[Component]) -> None:
    assert (inspect.getdoc(component) or "").strip()


@pytest.mark.parametrize("component", COMPONENTS)
def test_options_never_change_after_start_and_unknown_ones_are_refused(component: type[Component]) -> None:
    assert component.model_config["frozen"]
    assert component.model_config["extra"] == "forbid"
    with pytest.raises((ValidationError, ConfigError)):
        component.model_validate({"no_such_option": 1})


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


@pytest.mark.anyio
@pytest.mark.parametrize("name", registry.types("sinks"))
async def test_a_sink_takes_a_result_and_the_same_result_again(
    name: str, tmp_path: Path, api: HttpApi, request: pytest.FixtureRequest
) -> None:
    options = {
        "otel_events": {"endpoint": api.url, "protocol": "http"},
        "phoenix": {"url": api.url},
        "langfuse": {"url": api.url, "public_key": "pk", "secret_key": "sk"},
        "mlflow": {"url": api.url},
        "prometheus": {"port": 0},
        "history": {"path": tmp_path / "h.db"},
        "jsonl": {"path": tmp_path / "r.jsonl"},
    }
    if name == "kafka":
        broker = request.getfixturevalue("kafka")
        broker.create_topics("contract")
        options["kafka"] = {"brokers": broker.address, "topic": "contract"}
    sink = registry.component("sinks", name, Sink).model_validate(options.get(name, {}))
    result = EvaluationResult(
        case=case(), evaluator="any", version="1", outcome=Score(1, "because"), weight=2.0, level="1", defect=True
    )
    async with sink.open(runtime()) as deliver:
        await deliver(result)
        await deliver(result)


SAMPLERS = {
    "uniform": {"rate": 0.3},
    "by_attribute": {"attribute": "tenant", "rates": {"gold": 0.5}, "default": 0.1},
    "budget": {"per_day": 1000},
    "boosted": {"per_day": 1000},
}


@pytest.mark.parametrize("name", registry.types("samplers"))
def test_a_sampler_gives_a_probability_the_same_for_the_same_case_unless_it_adapts(name: str) -> None:
    sampling = (
        registry.component("samplers", name, Sampler)
        .model_validate(SAMPLERS[name])
        .open(shipped("groundedness"), runtime())
    )
    found = [sampling.draw(case(number), {}).probability for number in (1, 1, 2)]
    assert all(0 <= one <= 1 for one in found)
    assert sampling.adaptive or found[0] == found[1]


@pytest.mark.parametrize("name", registry.types("samplers"))
def test_a_sampler_hears_what_came_of_a_case_or_that_nothing_did(name: str) -> None:
    sampling = (
        registry.component("samplers", name, Sampler)
        .model_validate(SAMPLERS[name])
        .open(shipped("groundedness"), runtime())
    )
    for defect in (True, False, None):
        sampling.learn(case(1), sampling.draw(case(1), {}), defect=defect, dollars=0.001)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "openinference.span.kind",
    "input.value",
    "output.value",
    "retrieval.documents.0.document.content",
    "llm.input_messages",
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.retrieval.documents",
]


@pytest.mark.parametrize("convention", registry.conventions(), ids=lambda one: one.name)
@given(attributes=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=20), values, max_size=6), body=values)
def test_a_dialect_reads_any_span_or_leaves_it_and_never_raises(convention, attributes, body) -> None:
    span = Span(trace_id="1" * 32, span_id="1" * 16, attributes=attributes)
    record = LogRecord(
        trace_id="1" * 32, span_id="1" * 16, event_name="gen_ai.choice", body=body, attributes=attributes
    )
    observed = convention.observe(span, (record,))
    assert observed is None or isinstance(observed, Observation)


def test_dialects_are_asked_in_one_order_and_have_names_of_their_own() -> None:
    found = registry.conventions()
    assert [one.name for one in found] == [
        one.name for one in sorted(found, key=lambda one: (one.precedence, one.name))
    ]
    assert len({one.name for one in found}) == len(found)
