"""Frameworks of a virtual environment are found without an import; what to paste is that of the dialects' pages."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from monitor.operations.setup.frameworks import environment_of, frameworks
from tests.support.paths import ROOT


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def install(site: Path, name: str, version: str = "1.2.3", metadata: str | None = None) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" if metadata is None else metadata
    (info / "METADATA").write_text(text)
    module = site / name.replace("-", "_")
    module.mkdir()
    (module / "__init__.py").write_text("raise SystemExit('imported')\n")


@pytest.mark.parametrize(
    ("package", "title", "line"),
    [
        ("langchain-core", "LangChain", "from openinference.instrumentation.langchain import LangChainInstrumentor"),
        (
            "llama-index-core",
            "LlamaIndex",
            "from openinference.instrumentation.llama_index import LlamaIndexInstrumentor",
        ),
        ("dspy", "DSPy", "DSPyInstrumentor().instrument(tracer_provider=provider)"),
        ("haystack-ai", "Haystack", "from haystack import tracing"),
        ("openai", "the OpenAI client", "pip install openinference-instrumentation-openai "),
        ("pydantic-ai-slim", "pydantic-ai", "from pydantic_ai import Agent, InstrumentationSettings"),
        ("langfuse", "Langfuse", "langfuse = get_client()"),
        ("traceloop-sdk", "Traceloop SDK", "from traceloop.sdk import Traceloop"),
        ("openlit", "OpenLIT", "import openlit"),
        ("mlflow", "MLflow", "export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces"),
    ],
)
def test_a_package_is_found_with_its_version_and_what_to_paste(
    tmp_path: Path, site: Path, package: str, title: str, line: str
) -> None:
    install(site, package)
    (found,) = frameworks(tmp_path)
    assert (found.title, found.package, found.version) == (title, package, "1.2.3")
    assert line in found.advice
    assert "127.0.0.1:4318" in found.advice
    for block in re.findall(r"^```python\n(.*?)^```", found.advice, re.DOTALL | re.MULTILINE):
        ast.parse(block)


def test_what_to_paste_stands_in_the_pages_of_the_dialects(tmp_path: Path, site: Path) -> None:
    install(site, "haystack-ai")
    (found,) = frameworks(tmp_path)
    page = (ROOT / "monitor" / "conventions" / "advice" / "haystack.md").read_text()
    assert found.advice in page


def test_names_are_the_same_however_they_are_written(tmp_path: Path, site: Path) -> None:
    install(site, "Haystack_AI")
    assert [one.title for one in frameworks(tmp_path)] == ["Haystack"]


def test_the_client_of_a_model_is_named_only_without_a_framework(tmp_path: Path, site: Path) -> None:
    install(site, "openai")
    install(site, "langchain-core")
    assert [one.title for one in frameworks(tmp_path)] == ["LangChain"]


def test_a_broken_package_is_passed_over(tmp_path: Path, site: Path) -> None:
    install(site, "broken", metadata="")
    install(site, "worse", metadata="\0\xff not metadata")
    install(site, "dspy", "\x1b[2J", "Metadata-Version: 2.1\nName: dspy\nVersion: \x1b[2J\n")
    install(site, "haystack-ai")
    assert {one.title: one.version for one in frameworks(tmp_path)} == {
        "DSPy": "of an unknown version",
        "Haystack": "1.2.3",
    }


def test_what_the_monitor_needs_itself_says_nothing_in_its_own_environment() -> None:
    assert [one.title for one in frameworks(Path(sys.prefix)) if one.package == "openai"] == []


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert frameworks(tmp_path) == []
    assert frameworks(tmp_path / "missing") == []


def test_the_active_environment_is_looked_at_otherwise_the_own_one(tmp_path: Path) -> None:
    assert environment_of({"VIRTUAL_ENV": str(tmp_path)}) == tmp_path
    assert environment_of({"VIRTUAL_ENV": str(tmp_path / "gone")}) == Path(sys.prefix)
    assert environment_of({}) == Path(sys.prefix)
