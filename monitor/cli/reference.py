"""`rag-monitor reference`: the reference pages, written from the code they describe."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer


class Page(enum.StrEnum):
    """The pages there are."""

    CONFIG = "config"
    METRICS = "metrics"


def reference(page: Annotated[Page, typer.Argument(help="Which page to print.")]) -> None:
    """Print a reference page in Markdown: docs/configuration.md or docs/metrics.md."""
    typer.echo(render(page), nl=False)


def render(page: Page) -> str:
    """The whole page, ending in one line break."""
    lines = _configuration() if page is Page.CONFIG else _metrics()
    return "\n".join(lines).rstrip() + "\n"


def _configuration() -> Iterator[str]:
    from monitor import config, registry  # noqa: PLC0415
    from monitor.alerts import notify  # noqa: PLC0415
    from monitor.alerts.policy import AlertPolicy  # noqa: PLC0415
    from monitor.stages import Evaluator, Sampler, Sink, Source  # noqa: PLC0415

    yield "# Configuration"
    yield ""
    yield "Written by `rag-monitor reference config`; do not edit."
    yield ""
    yield from _paragraph(config.__doc__)
    yield ""
    yield "| section | what it is | default |"
    yield "| --- | --- | --- |"
    for name, field in config.Config.model_fields.items():
        yield f"| `{name}` | {_oneline(field.description)} | {_default_of_section(field)} |"
    for name in ("sampling", "assembly", "judge", "storage", "log"):
        yield ""
        yield f"## {name}"
        yield ""
        yield from _options(config.Config.model_fields[name].annotation, name)
    yield ""
    yield "## alerts (entries)"
    yield ""
    yield from _options(AlertPolicy, "alerts[]")
    contracts: dict[str, Any] = {"sources": Source, "evaluators": Evaluator, "samplers": Sampler, "sinks": Sink}
    for folder, contract in contracts.items():
        for type_name in registry.types(folder):
            component = registry.component(folder, type_name, contract)
            yield ""
            yield f"## {folder}: `{type_name}`"
            yield ""
            yield from _about(component)
            yield from _options(component, folder)
    for type_name, component in notify.TYPES.items():
        yield ""
        yield f"## notify: `{type_name}`"
        yield ""
        yield from _about(component)
        yield from _options(component, "notify")


def _about(component: Any) -> Iterator[str]:
    yield from _paragraph(component.__doc__)
    scale = getattr(component, "scale", None)
    if scale is not None and not isinstance(scale, property):
        yield ""
        yield (
            f"Scale {scale.lowest:g} to {scale.highest:g}, {scale.better} is better; cost: {component.cost}; "
            f"a defect is {component.default_defect}. Definition: {component.definition}"
        )
    yield ""


def _options(model: Any, place: str) -> Iterator[str]:
    fields = getattr(model, "model_fields", {})
    if not fields:
        yield f"`{place}` has no options of its own."
        return
    yield "| option | what it is | default |"
    yield "| --- | --- | --- |"
    yield from _rows(model, "")


def _rows(model: Any, prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        nested = field.annotation if hasattr(field.annotation, "model_fields") else None
        default = "" if nested else _default(field)
        yield f"| `{prefix}{name}` | {_oneline(field.description)} | {default} |"
        if nested is not None:
            yield from _rows(nested, f"{prefix}{name}.")


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "see text"
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "; ".join(f"`{one}`" for one in value) or "none"
    return f"`{value:.15g}`" if isinstance(value, float) else f"`{value}`"


def _default_of_section(field: Any) -> str:
    value = field.default
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        return ", ".join(f"`{one.get('type') or one.get('evaluator')}`" for one in value)
    return "none" if value == () else "below"


def _metrics() -> Iterator[str]:
    from monitor.telemetry.metrics import Metrics  # noqa: PLC0415

    yield "# Metrics"
    yield ""
    yield "Written by `rag-monitor reference metrics`; do not edit."
    yield ""
    yield from _paragraph(inspect.getmodule(Metrics).__doc__)
    yield ""
    yield "| series | type | labels | what it is |"
    yield "| --- | --- | --- | --- |"
    metrics = Metrics()
    metrics.score("example", (1.0,))
    for name, kind, labels, text in sorted(metrics.catalogue()):
        shown = ", ".join(f"`{label}`" for label in labels) or "none"
        yield f"| `{name}` | {kind} | {shown} | {_oneline(text)} |"


def _paragraph(text: str | None) -> Iterator[str]:
    yield from (line.rstrip() for line in inspect.cleandoc(text or "").splitlines())


def _oneline(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").strip()
