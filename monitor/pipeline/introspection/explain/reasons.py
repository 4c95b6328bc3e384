"""Explains each outcome of a request and each reason of an evaluator in a sentence, with the setting to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from monitor.judge.settings import CLASSIFIER
from monitor.judge.setup import MAY_COST, REDIRECTED, UNREACHABLE, PauseCause, cause_in
from monitor.model.external import USER_FEEDBACK, ScoreSource
from monitor.model.outcome import SkippedReason, UnscoredReason
from monitor.pipeline.introspection.explain import Cause, EvaluatorSetup, MonitorSetup, at_least
from monitor.quantities import human_duration

_LIMIT: Final = re.compile(r"\b(OTEL_\w+_LIMIT)\b")
_SIZE: Final = re.compile(r"\b(max_span_bytes|max_resource_bytes)\b")
_CAP: Final = re.compile(r"\b(dollars_per_day|dollars_per_hour|evaluations_per_day)\b")


class Reason(NamedTuple):
    """A sentence, and the setting that would change the outcome; empty if there is none."""

    text: str
    setting: str = ""


def of_outcome(outcome: str, detail: str, setup: MonitorSetup, *, draw: float = 0.0) -> Reason:
    """Explain why a request with this outcome was not evaluated; `detail` is from the request log."""
    if outcome == "sampled_out":
        rate = f"{detail}: {at_least(draw)}" if detail else ""
        return Reason(f"the sampling rate of its traffic class, {detail}, left it out", rate)
    if outcome == "filtered":
        if detail == "traffic.health_checks":
            text = "left out by the configuration: it looks like a health check"
            return Reason(text, "traffic.health_checks: true")
        return Reason(f"left out by the configuration: {detail} matches it", f"{detail}: remove this rule")
    more = f": {detail}" if detail else ""
    text, setting = _OUTCOMES.get(outcome, (f"it ended as {outcome}", ""))
    if outcome == "incomplete":
        setting = _of_incomplete(detail, setup)
    elif outcome == "content_missing":
        setting = _of_missing_texts(detail) or setting
    return Reason(f"{text}{more}", setting)


def _of_missing_texts(detail: str) -> str:
    """Say what to change in the sender, if it is known what the sender leaves out."""
    limit = _LIMIT.search(detail)
    if limit:
        return f"in the service: raise {limit[1]}, or unset it"
    return "the rows that are sent: add question, answer and documents" if detail.startswith("the row") else ""


def _of_incomplete(detail: str, setup: MonitorSetup) -> str:
    if "the monitor refused" in detail:
        limit = _SIZE.search(detail)
        return f"{limit[1]} of its source: larger" if limit else "in the service: its exporter says why, where it logs"
    if "the parent" in detail:
        return "extraction.orphans_are_roots: true, if that span is only sent to another backend"
    timeout = human_duration(setup.idle_timeout)
    return f"assembly.idle_timeout: longer than {timeout}, if the missing spans arrive later than that"


_OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "no_request": (
        "it is not a request: no dialect finds an answered question in it",
        "extraction.attributes: the span attributes that hold question, documents and answer",
    ),
    "incomplete": ("part of the trace is missing", ""),
    "content_missing": (
        "the service did not send the texts to evaluate",
        (
            "in the service: turn on content capture in its instrumentation, for example"
            " OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
        ),
    ),
    "failed_request": ("the service itself failed to answer, so there is nothing to evaluate", ""),
    "own_telemetry": ("it is the monitor's own telemetry, which is never evaluated", ""),
    "invalid": ("it could not be read: see `extraction_failed` in the log", ""),
    "too_large": (
        "the trace was larger than allowed",
        "assembly.max_trace_bytes: larger; or assembly.max_trace_spans, if it has very many spans",
    ),
    "expired": (
        "it was given up: it waited in the spool for longer than results are kept",
        "storage.retention: longer",
    ),
    "poison": (
        (
            "reading it took too long or ended the process that read it, so it is not read again; it is set aside in"
            " the folder `poison` in `storage.path`, for a bug report"
        ),
        "",
    ),
    "forgotten": ("it was erased on request (`rag-monitor forget`)", ""),
    "too_many": ("its trace contains more requests than are read from one trace, and this one is beyond that", ""),
    "handed_over": ("its partition moved to another replica, which receives and evaluates it: ask that replica", ""),
}
OUTCOMES: Final = ("sampled_out", "filtered", "evaluated", *_OUTCOMES)
"""Every outcome that is explained: all outcomes of traces and of requests in the ledger."""

CAUSE_OF_OUTCOME: Final[Mapping[str, Cause]] = {
    outcome: Cause(outcome) for outcome in OUTCOMES if outcome != "evaluated"
}


def of_skipped(reason: str) -> Reason:
    """Explain why an evaluator does not apply."""
    if reason not in frozenset(SkippedReason):
        return Reason(f"it does not apply: {reason}")
    return Reason(*_SKIPPED[SkippedReason(reason)])


_SKIPPED: Final[Mapping[SkippedReason, tuple[str, str]]] = {
    SkippedReason.HANDED_OVER: (
        "its partition moved to another replica before the judge was asked, and that replica evaluates it",
        "",
    ),
    SkippedReason.REFUSAL: ("it examines what an answer claims, and this one only refuses", ""),
    SkippedReason.LANGUAGE_MISMATCH: (
        "it compares words, and the answer (or the question) is in a different language from the documents",
        "a judged evaluator, such as groundedness, compares what is meant in any language",
    ),
    SkippedReason.NO_CLAIMS: ("it examines what an answer claims, and this one claims nothing", ""),
    SkippedReason.NO_DOCUMENTS: ("it rates the retrieved documents, and the retrieval found none", ""),
    SkippedReason.NO_RETRIEVAL: (
        "it needs a context, and the model answered without any retrieval",
        "extraction.attributes.documents: the attribute that holds the documents, if the service retrieves any",
    ),
    SkippedReason.CONTEXT_NOT_RECORDED: (
        "it needs the texts of the retrieved documents, and they were not sent",
        "in the service: record them; `rag-monitor coverage` says how",
    ),
    SkippedReason.NO_HISTORY: ("it needs earlier turns of the conversation, and there are none", ""),
    SkippedReason.NO_PROMPT: ("it needs the prompt that the service sent, and the trace does not have it", ""),
    SkippedReason.NO_REFERENCE: ("it needs an expected answer or expected documents, which only rows can provide", ""),
    SkippedReason.NO_REQUEST: ("it needs a question, and there is none", ""),
    SkippedReason.NO_RESPONSE: ("it needs an answer, and there is none", ""),
}


def of_unscored(reason: str, detail: str, evaluator: EvaluatorSetup | None) -> Reason:
    """Explain why an evaluation produced no score, and what to set."""
    judge = evaluator.judge_place if evaluator else "judge"
    more = f" ({detail})" if detail else ""
    if reason not in frozenset(UnscoredReason):
        return Reason(f"it produced no score: {reason}{more}")
    cause = cause_in(detail)
    if cause is not None:
        paused = "the judge is paused until someone acts: " if reason == UnscoredReason.PAUSED else ""
        said = detail.removeprefix("the judge is paused: ")
        return Reason(f"{paused}{said}", _OF_A_CAUSE[cause].format(judge=judge))
    if UNREACHABLE in detail:
        return Reason(detail, f"{judge}.api_base: an address at which the provider listens, reachable from here")
    if REDIRECTED in detail:
        return Reason(detail, f"{judge}.api_base: the address that this one redirects to")
    made = _UNSCORED[UnscoredReason(reason)]
    text, setting = made(judge, detail, evaluator) if callable(made) else made
    return Reason(f"{text}{more}", setting.format(judge=judge))


def _budget(judge: str, detail: str, _: EvaluatorSetup | None) -> tuple[str, str]:
    cap = _CAP.search(detail)
    text = "the judge's budget is too small" if MAY_COST in detail else "the judge's budget is spent"
    return text, f"{judge}.budget.{cap[1]}: higher" if cap else f"{judge}.budget: higher"


def _timeout(judge: str, _: str, evaluator: EvaluatorSetup | None) -> tuple[str, str]:
    now = evaluator.judge.get("timeout") if evaluator else None
    than = f" than {human_duration(now)}" if isinstance(now, (int, float)) else ""
    return "the judge did not answer in time", f"{judge}.timeout: longer{than}"


def _overloaded(judge: str, _: str, evaluator: EvaluatorSetup | None) -> tuple[str, str]:
    now = evaluator.judge.get("max_concurrency") if evaluator else None
    than = f" than {now}" if now else ""
    text = "more cases were selected than the judge can handle, and its queue was full"
    return text, f"{judge}.max_concurrency: higher{than}"


def _too_large(judge: str, _: str, evaluator: EvaluatorSetup | None) -> tuple[str, str]:
    now = evaluator.judge.get("max_characters") if evaluator else None
    than = f" than {now:,}" if isinstance(now, int) else ""
    text = "question, context and answer together are longer than the judge accepts"
    return text, f"{judge}.max_characters: higher{than}, if the model's context window has room"


_OF_A_CAUSE: Final[Mapping[PauseCause, str]] = {
    PauseCause.REFUSED: "{judge}.api_key: one that the provider accepts",
    PauseCause.UNPAID: "at the provider: pay, or raise the limit of the account that {judge}.api_key belongs to",
    PauseCause.GONE: "{judge}.model: one that the provider serves; {judge}.api_base: its address",
    PauseCause.NO_KEY: "{judge}.api_key: the provider's key, such as ${{NAME_OF_A_VARIABLE}}",
    PauseCause.NO_ADDRESS: "{judge}.api_base: the address of the provider's API",
    PauseCause.NO_PROVIDER: "{judge}.model: provider/name, such as openai/gpt-4o-mini",
    PauseCause.NO_PACKAGE: "install that package where the monitor runs; or {judge}.model: one of another provider",
}

_Made = tuple[str, str] | Callable[[str, str, EvaluatorSetup | None], tuple[str, str]]
_UNSCORED: Final[Mapping[UnscoredReason, _Made]] = {
    UnscoredReason.TIMEOUT: _timeout,
    UnscoredReason.RATE_LIMITED: (
        "the provider rate-limited every attempt",
        "{judge}.budget.requests_per_minute: what the provider allows",
    ),
    UnscoredReason.PROVIDER_ERROR: (
        "the provider failed or rejects such calls",
        "{judge}.model: one that the provider serves; `rag-monitor doctor` calls it",
    ),
    UnscoredReason.CONTENT_FILTER: (
        "the provider's content filter blocked it",
        "{judge}.model: one with a milder filter",
    ),
    UnscoredReason.REFUSAL: ("the judge refused to evaluate it", "{judge}.model: one that evaluates such texts"),
    UnscoredReason.TRUNCATED: (
        "the judge's reply was cut off at its token limit, twice",
        "{judge}.model: one with shorter replies",
    ),
    UnscoredReason.MALFORMED: (
        "the judge's reply cannot be used",
        "{judge}.model: one that supports structured output",
    ),
    UnscoredReason.OUT_OF_RANGE: (
        "the score is not on the evaluator's scale",
        "{judge}.model: one that keeps to a scale",
    ),
    UnscoredReason.BUDGET: _budget,
    UnscoredReason.BREAKER_OPEN: (
        "no call was made: calls were held back for longer than an evaluation may wait",
        "{judge}.max_age: longer than such an outage",
    ),
    UnscoredReason.TOO_LARGE: _too_large,
    UnscoredReason.AUTH: ("the provider rejects the API key", "{judge}.api_key: a key that the provider accepts"),
    UnscoredReason.SHUTDOWN: ("the monitor was stopped before the judge answered", ""),
    UnscoredReason.OVERLOADED: _overloaded,
    UnscoredReason.PAUSED: (
        "the judge is paused until someone acts: its provider refuses the key, the account or the model",
        (
            "{judge}.api_key: one that the provider accepts, or {judge}.model: one that it serves;"
            " `rag-monitor doctor` says which"
        ),
    ),
    UnscoredReason.ERROR: (
        "the evaluator itself failed, which is a bug in its code: see `evaluator_failed` in the log",
        "",
    ),
}


def off(evaluator: EvaluatorSetup) -> Reason:
    """Explain that the evaluator's judge has no model, or that the packages for it are missing."""
    place = evaluator.judge_place
    if str(evaluator.judge.get("model") or "").startswith(CLASSIFIER):
        text = "it is off: its classifier runs in this process, and the packages for that are missing"
        return Reason(
            text, f"install rag-monitor[hhem] where the monitor runs; or {place}.api_base: a server's address"
        )
    text = f"it is off: it asks a language model, and the section `{place}` names none"
    return Reason(text, f"{place}.model: for example openai/gpt-4o-mini, with {place}.api_key")


def not_configured(name: str, setup: MonitorSetup) -> Reason:
    """Explain that there is no evaluator of this name."""
    known = ", ".join(one.name for one in setup.evaluators) or "none"
    return Reason(f"no evaluator named {name} is configured; configured: {known}", f"evaluators: - type: {name}")


_EXTERNAL: Final[Mapping[str, str]] = {
    ScoreSource.FEEDBACK: "user feedback (POST /v1/feedback, and events and attributes in traces)",
    ScoreSource.OPENINFERENCE: "annotations on spans by another tool or a person (OpenInference)",
    ScoreSource.GEN_AI_EVENTS: "events gen_ai.evaluation.result of another tool (OpenTelemetry)",
}


def external(source: str) -> str:
    """Describe external scores of this source."""
    return _EXTERNAL.get(source, "an external score")


def expected_source(name: str) -> str:
    """Return the source from which external scores of this name would arrive; empty if unknown."""
    return ScoreSource.FEEDBACK if name.startswith(USER_FEEDBACK) else ""
