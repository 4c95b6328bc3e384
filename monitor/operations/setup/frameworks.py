"""Finds the frameworks and instrumentations of a virtual environment, without importing any of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final, NamedTuple

from monitor.extraction import coverage


class _KnownFramework(NamedTuple):
    """A framework: its display name, its best dialect, and its instrumentor class if that dialect is OpenInference.

    `own`: rag-monitor itself needs the package, so finding it in a shared environment means nothing.
    """

    title: str
    dialect: str
    instrumentor: str = ""
    own: bool = False


_KNOWN: Final[Mapping[str, _KnownFramework]] = {
    "langfuse": _KnownFramework("Langfuse", "langfuse"),
    "traceloop-sdk": _KnownFramework("Traceloop SDK", "openllmetry"),
    "openlit": _KnownFramework("OpenLIT", "openlit"),
    "mlflow": _KnownFramework("MLflow", "mlflow"),
    "mlflow-tracing": _KnownFramework("MLflow", "mlflow"),
    "pydantic-ai": _KnownFramework("pydantic-ai", "pydantic_ai"),
    "pydantic-ai-slim": _KnownFramework("pydantic-ai", "pydantic_ai"),
    "langchain-core": _KnownFramework("LangChain", "openinference", "langchain LangChainInstrumentor"),
    "llama-index-core": _KnownFramework("LlamaIndex", "openinference", "llama-index LlamaIndexInstrumentor"),
    "dspy": _KnownFramework("DSPy", "openinference", "dspy DSPyInstrumentor"),
    "haystack-ai": _KnownFramework("Haystack", "haystack"),
    "openai": _KnownFramework("the OpenAI client", "openinference", "openai OpenAIInstrumentor", own=True),
}
"""By package name; packages that instrument others come first, because then these are already set up."""

_CLIENTS: Final = frozenset({"openai"})


@dataclass(frozen=True, slots=True)
class FrameworkFound:
    """A package of the environment, with Markdown that explains how its traces reach the monitor."""

    title: str
    package: str
    version: str
    advice: str

    @property
    def why(self) -> str:
        """How it was found."""
        return f"the package {self.package} {self.version} is installed"


def environment_of(variables: Mapping[str, str]) -> Path:
    """Return the active virtual environment, otherwise the one that this program runs in."""
    active = variables.get("VIRTUAL_ENV", "")
    return Path(active) if active and Path(active).is_dir() else Path(sys.prefix)


def frameworks(environment: Path) -> list[FrameworkFound]:
    """Return the frameworks installed in a virtual environment, those that instrument others first.

    The client of a model is named only if no framework is found. Broken packages are skipped.
    """
    shared = environment.resolve() == Path(sys.prefix).resolve()
    versions: dict[str, str] = {}
    for one in _installed(environment, shared=shared):
        try:
            name = re.sub(r"[-_.]+", "-", str(one.metadata["Name"])).lower()
            if name in _KNOWN:
                versions.setdefault(name, _word(one.version))
        except Exception:  # noqa: BLE001, S112 - an environment may contain anything
            continue
    found: dict[str, FrameworkFound] = {}
    for name, known in _KNOWN.items():
        if name in versions and not (known.own and shared):
            found.setdefault(known.title, FrameworkFound(known.title, name, versions[name], _advice(known)))
    others = [one for one in found.values() if one.package not in _CLIENTS]
    return others or list(found.values())


def _installed(environment: Path, *, shared: bool) -> Iterator[Distribution]:
    if shared:
        yield from distributions()
        return
    folders = [*environment.glob("lib*/python3*/site-packages"), environment / "Lib" / "site-packages"]
    yield from distributions(path=[str(one) for one in folders if one.is_dir()])


def _word(version: object) -> str:
    return text if re.fullmatch(r"[\w.+!-]{1,40}", text := str(version)) else "of an unknown version"


def _advice(known: _KnownFramework) -> str:
    """Return how to turn it on, from the page of its dialect; OpenInference has a package for each framework."""
    text = coverage.set_up(known.dialect)
    if known.instrumentor:
        package, name = known.instrumentor.split()
        text = re.sub(r" \(or `-llama-index`.*?so on\)", "", text, flags=re.DOTALL)
        text = text.replace("openinference-instrumentation-langchain", f"openinference-instrumentation-{package}")
        text = text.replace(
            "openinference.instrumentation.langchain", f"openinference.instrumentation.{package}".replace("-", "_")
        )
        text = text.replace("LangChainInstrumentor", name)
    return text
