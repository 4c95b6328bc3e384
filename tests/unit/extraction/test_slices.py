from __future__ import annotations

import pytest

from monitor.extraction import slices
from monitor.model.case import Case


def case(**attributes):
    return Case(request_id="ab", model="gpt-x", attributes={key.replace("__", "."): v for key, v in attributes.items()})


@pytest.mark.parametrize(
    "key", ["prompt.version", "llm.prompt_template.version", "langfuse.observation.prompt.version"]
)
def test_a_prompt_version_is_found_under_the_name_of_every_dialect(key):
    stated = slices.of_attributes({key: "7"})
    assert slices.value(Case(request_id="ab", attributes=stated), "prompt.version") == "7"


def test_the_name_of_a_prompt_is_a_fact_and_its_text_is_not():
    stated = slices.of_attributes(
        {"gen_ai.prompt.name": "answer", "gen_ai.prompt.0.content": "You are", "gen_ai.prompt": "x"}
    )
    assert stated == {"gen_ai.prompt.name": "answer"}


def test_the_id_of_an_answer_is_a_fact_that_may_leave():
    stated = slices.of_attributes({"gen_ai.response.id": "chatcmpl-1", "gen_ai.input.messages": "[]"})
    assert stated == {"gen_ai.response.id": "chatcmpl-1"}
    assert slices.allowed(case(gen_ai__response__id="chatcmpl-1"), [])["gen_ai.response.id"] == "chatcmpl-1"


def test_the_model_of_a_case_is_a_slice_whatever_its_dialect_calls_it():
    assert slices.value(case(), "gen_ai.request.model") == "gpt-x"
    assert slices.value(case(gen_ai__request__model="asked"), "gen_ai.request.model") == "asked"


def test_only_configured_slices_and_harmless_facts_may_leave():
    stated = case(tenant__id="north", customer__email="a@b.c", service__version="2", note="call me at 555")
    assert slices.allowed(stated, ["tenant"]) == {
        "tenant": "north",
        "gen_ai.request.model": "gpt-x",
        "service.version": "2",
    }
    assert "tenant" not in slices.allowed(stated, [])


def test_a_resource_tells_of_the_deployment_and_not_of_the_process():
    stated = slices.of_resource(
        {
            "process.command_args": "--key=s3cret",
            "k8s.namespace.name": "shop",
            "service.version": "2",
            "long": "x" * 500,
        }
    )
    assert stated == {"service.version": "2", "k8s.namespace.name": "shop"}
