"""Renders the reference pages under docs/ from the code that they describe."""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from monitor import config, registry
from monitor.alerts import notify
from monitor.alerts.policy import AlertPolicy
from monitor.errors.deprecation import Deprecated
from monitor.extraction.feedback import ExternalEvaluatorSettings
from monitor.quantities import format_duration, format_size, parse_duration, parse_rate, parse_size
from monitor.stages import Evaluator, Sampler, Sink, Source
from monitor.telemetry.metrics import Metrics


class Page(enum.StrEnum):
    """The reference pages."""

    CONFIG = "config"
    METRICS = "metrics"
    EVALUATORS = "evaluators"


def render(page: Page) -> str:
    """Return the whole page in Markdown, ending in one line break."""
    lines = {Page.CONFIG: _configuration, Page.METRICS: _metrics, Page.EVALUATORS: _evaluators}[page]()
    return "\n".join(lines).rstrip() + "\n"


def _configuration() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "Written by `rag-monitor reference config`; do not edit."
    yield ""
    yield from _paragraph(config.__doc__)
    yield ""
    docs = docstrings(config.Config)
    yield "| section | what it is | default |"
    yield "| --- | --- | --- |"
    for name, field in config.Config.model_fields.items():
        yield f"| `{name}` | {_oneline(field.description or docs.get(name))} | {_default_of_section(field)} |"
    for name, field in config.Config.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield ""
            yield f"## {name}"
            yield ""
            yield from _options(field.annotation, name)
    yield ""
    yield "## feedback.evaluators (entries)"
    yield ""
    yield from _options(ExternalEvaluatorSettings, "feedback.evaluators[]")
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


def _rows(model: Any, prefix: str, given: Any = None) -> Iterator[str]:
    """Yield the options of `model`, with the defaults from `given` if that is the default of the whole section."""
    docs = docstrings(model)
    for name, field in model.model_fields.items():
        nested = field.annotation if hasattr(field.annotation, "model_fields") else None
        value = field.default if given is None else getattr(given, name)
        default = "" if nested else _default(field, value)
        end = "".join(f" *Option {one}.*" for one in field.metadata if isinstance(one, Deprecated))
        yield f"| `{prefix}{name}` | {_oneline(field.description or docs.get(name))}{end} | {default} |"
        if nested is not None:
            yield from _rows(nested, f"{prefix}{name}.", value if isinstance(value, nested) else None)


def docstrings(model: type) -> dict[str, str]:
    """Return the docstrings under the options of a model and of its bases.

    pydantic could keep them as descriptions, but would read the source of every model at each start for that.
    """
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not hasattr(base, "model_fields") or base.__module__.startswith("pydantic."):
            continue
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except OSError:
            continue  # made at run time: its options have descriptions
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, text in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = inspect.cleandoc(str(text.value.value))
    return found


def _default(field: Any, value: Any) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "see text"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "; ".join(f"`{one}`" for one in value) or "none"
    return f"`{_as_written(field, value)}`"


def _as_written(field: Any, value: Any) -> str:
    """Write a default as a person would: `30s`, `2GiB`, `10%`."""
    reads = {getattr(one, "func", None) for one in field.metadata}
    if parse_duration in reads:
        return format_duration(value)
    if parse_size in reads:
        return format_size(value)
    if parse_rate in reads:
        return f"{value * 100:g}%"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _default_of_section(field: Any) -> str:
    value = field.default
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        return ", ".join(f"`{one.get('type') or one.get('evaluator')}`" for one in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in ((), "") else "below"


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "Written by `rag-monitor reference metrics`; do not edit."
    yield ""
    yield from _paragraph(_METRICS)
    yield ""
    yield "| series | type | labels | what it is |"
    yield "| --- | --- | --- | --- |"
    metrics = Metrics()
    metrics.score("example", (1.0,))
    for name, kind, labels, text in sorted(metrics.catalogue()):
        shown = ", ".join(f"`{label}`" for label in labels) or "none"
        yield f"| `{name}` | {kind} | {shown} | {_oneline(text)} |"


def _evaluators() -> Iterator[str]:
    yield "# Evaluators"
    yield ""
    yield "Written by `rag-monitor reference evaluators`; do not edit."
    yield ""
    yield from _paragraph(_EVALUATORS)
    known = [registry.component("evaluators", name, Evaluator) for name in registry.types("evaluators")]
    shipped = [one for one in known if isinstance(getattr(one, "name", None), str)]  # `rubric` has no name of its own
    for measures, question in _QUESTIONS.items():
        chosen = [one for one in shipped if one.measures == measures]
        if not chosen:
            continue
        yield ""
        yield f"## {question}"
        yield ""
        yield "| type | runs on | scale | needs | a defect is |"
        yield "| --- | --- | --- | --- | --- |"
        for one in chosen:
            runs = "every kept case" if one.cost == "local" else f"a sample, asks a {one.asks}"
            needs = ", ".join(sorted(one.needs)) or "nothing"
            yield f"| `{one.name}` | {runs} | {_scale(one.scale)} | {needs} | {one.default_defect} |"
        for one in chosen:
            yield ""
            yield f"**`{one.name}`** {_meaning(one)}"


def _scale(scale: Any) -> str:
    """Return both ends of a scale, which of them is better, and the levels."""
    levels = ", ".join(f"`{level.name}` {level.start:g}" for level in scale.levels)
    return f"{scale.lowest:g} to {scale.highest:g}, {scale.better} is better: {levels}"


def _meaning(evaluator: Any) -> str:
    """Return what it measures and its source; for a rubric also how it scores, and the score of an empty response."""
    rubric = getattr(evaluator, "rubric", None)
    if rubric is None:
        summary = _oneline((evaluator.__doc__ or "").split("\n\n")[0])
        return f"{summary} *Source:* {_oneline(evaluator.definition) or 'our own'}."
    said = _oneline(evaluator.definition)
    if rubric.score != "judged":
        said += f" *Score:* counted from the evidence (`{rubric.score}`)."
    if "response" not in rubric.needs:
        return f"{said} *Empty response:* the judge is asked."
    if rubric.trivial_score is None:
        return f"{said} *Empty response:* skipped."
    return f"{said} *Empty response:* `{rubric.scale.level(rubric.trivial_score)}`."


_QUESTIONS = {
    "grounding": "Grounding: does the response rest on the retrieved documents?",
    "answering": "Answering: does the response answer what was asked?",
    "retrieval": "Retrieval: did the search find what is needed?",
    "harm": "Harm and attacks",
    "form": "Form: how the response is written, how long it is, whether it declines",
    None: "Other",
}

_EVALUATORS = """
Every built-in evaluator, by what it measures, with its definition and source. [judged.md](judged.md) describes how the
judged ones work, [local.md](local.md) what the local ones find and miss, and [special.md](special.md) those that need
their own model. Options: [configuration.md](../configuration.md).

*needs* is what a case must have; without it, the result is `skipped`. A reference is the `expected_response` of a row
([rows.md](../rows.md)). *a defect is* lists what counts as a defect unless `defect:` in the configuration says
otherwise.
"""

_METRICS = """
No series is a ratio: counters can be added over replicas, ratios cannot. Label values come from closed sets, or are
capped (200 apps, then `__other__`; apps named by an alert always have their own label, and after a restart the apps
with the most answers come first); `app` is the [name of the service](reading.md#the-name-of-a-service). Series that
rates and rules add up are created at 0 when an app is first seen, as is one for every reason why one of its evaluators
may produce no score; rare outcomes appear once they have happened. Counters of evaluations carry the trace id as an
exemplar (OpenMetrics). A scrape is at most about a second old, and `_created` series are not exposed.

From three families, PromQL computes the defect rate of *all* traffic and its limits, over any window and any number of
replicas, for each `version` of an evaluator: its prompt or code, its options, the judge's model. Different versions are
different instruments: never sum over them. Let `Sw` be the increase of `ragmonitor_evaluation_weight_total`, `Swy` the
part of it with `defect="true"`, and `Sw2y` that part of `ragmonitor_evaluation_weight_squares_total`:

    rate  = Swy / Sw
    k     = Swy^2 / Sw2y                                    (the effective number of defects)
    lower = rate * max(1 - 1/(9k) - z/(3 sqrt k), 0)^3      (z = 3.09 is wrong once in 1000 times, 2.33 once in 100)

`level=~"medium|high"` instead of `defect="true"` gives the rate at a different severity. `rag-monitor rules` writes
these expressions out.

The ledger: `ragmonitor_traces_received_total` = the sum of `ragmonitor_traces_total` over `outcome` +
`ragmonitor_traces_pending`, for every app and source, at every scrape; `ragmonitor_requests_found_total` = the sum of
`ragmonitor_requests_total` over `outcome` + `ragmonitor_requests_pending`; `ragmonitor_evaluations_selected_total` =
`ragmonitor_evaluations_total` + `ragmonitor_ranking_evaluations_total` + `ragmonitor_late_evaluations_total` +
`ragmonitor_non_production_evaluations_total` + `ragmonitor_unscored_total` + `ragmonitor_skipped_total` +
`ragmonitor_evaluations_pending`, for every app and evaluator. Late results and non-production traffic have separate
families: no rate needs a selector to leave them out.

A trace may span several services. It is counted under the service whose part of it arrived first, such as a gateway;
its requests, and everything that follows from them, are counted under the service that answered them.
"""


def _paragraph(text: str | None) -> Iterator[str]:
    yield from (line.rstrip() for line in inspect.cleandoc(text or "").splitlines())


def _oneline(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").strip()
