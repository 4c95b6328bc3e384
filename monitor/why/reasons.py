"""Each place where a request can end and each reason of an evaluator, as a sentence with its setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from monitor.model.outcome import SkippedReason, UnscoredReason
from monitor.quantities import human_duration
from monitor.why.values import Cause, Evaluating, Situation, at_least

_LIMIT: Final = re.compile(r"\b(OTEL_\w+_LIMIT)\b")
_CAP: Final = re.compile(r"\b(dollars_per_day|dollars_per_hour|evaluations_per_day)\b")


class Told(NamedTuple):
    """A sentence, and the setting that would change it; empty where none would."""

    text: str
    setting: str = ""


def of_outcome(outcome: str, detail: str, situation: Situation, *, draw: float = 0.0) -> Told:
    """Why a request that ended at `outcome` was not judged; `detail` as in `Trail`."""
    if outcome == "sampled_out":
        rate = f"{detail}: {at_least(draw)}" if detail else ""
        return Told(f"the rate of its class of traffic, {detail}, left it out", rate)
    if outcome == "filtered":
        setting = "traffic.health_checks: true" if detail == "traffic.health_checks" else f"{detail}: without this rule"
        what = "it is taken for a health check" if detail == "traffic.health_checks" else f"{detail} matches it"
        return Told(f"left out by the configuration: {what}", setting)
    more = f": {detail}" if detail else ""
    text, setting = _OUTCOMES.get(outcome, (f"it ended as {outcome}", ""))
    if outcome == "incomplete":
        setting = _of_incomplete(detail, situation)
    elif outcome == "content_missing":
        setting = _of_missing(detail) or setting
    return Told(f"{text}{more}", setting)


def _of_missing(detail: str) -> str:
    """What is to be set at the sender, where it is known what it leaves out."""
    limit = _LIMIT.search(detail)
    if limit:
        return f"in the service: {limit[1]} higher, or not set"
    return "the rows that are sent: with question, answer and documents" if detail.startswith("the row") else ""


def _of_incomplete(detail: str, situation: Situation) -> str:
    if "the parent" in detail:
        return "extraction.orphans_are_roots: true, if that span is sent to another backend only"
    return (
        f"assembly.idle_timeout: longer than {human_duration(situation.idle_timeout)}, if the missing spans come"
        " later than that"
    )


_OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "not_rag": (
        "it is no RAG request: no dialect that is known finds a question with retrieved context and an answer in it",
        "extraction.attributes: the span attributes that hold question, documents and answer",
    ),
    "incomplete": ("a part of the trace never came", ""),
    "content_missing": (
        "the service did not send the texts that are to be judged",
        (
            "in the service: switch on the capture of content in its instrumentation, such as"
            " OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
        ),
    ),
    "failed_request": ("the service itself failed to answer: there is nothing to judge", ""),
    "own_telemetry": ("it is the monitor's own telemetry, which is never judged", ""),
    "invalid": ("it could not be read: the log says more, at `extraction_failed`", ""),
    "too_large": (
        "the trace was larger than one may be",
        "assembly.max_trace_bytes: larger; or assembly.max_trace_spans, if it has very many spans",
    ),
    "expired": ("given up: it waited in the spool for longer than results are kept", "storage.retention: longer"),
    "forgotten": ("it was forgotten on request (`rag-monitor forget`)", ""),
    "handed_over": ("its partition moved to another replica, which receives and judges it: ask there", ""),
}
OUTCOMES: Final = ("sampled_out", "filtered", "no_context", "evaluated", *_OUTCOMES)
"""Every outcome that is explained; those of the ledger."""


def of_skipped(reason: str) -> Told:
    """Why an evaluator does not apply."""
    if reason not in _KNOWN_SKIPPED:
        return Told(f"it does not apply: {reason}")
    return Told(*_SKIPPED[SkippedReason(reason)])


_KNOWN_SKIPPED: Final = frozenset(SkippedReason)
_SKIPPED: Final[Mapping[SkippedReason, tuple[str, str]]] = {
    SkippedReason.NO_CONTEXT: (
        "it needs retrieved context, and none came with the case",
        "extraction.attributes.documents: the attribute that holds the documents, if the service retrieves any",
    ),
    SkippedReason.NO_HISTORY: ("it needs turns of the conversation before the question, and there are none", ""),
    SkippedReason.NO_PROMPT: ("it needs the prompt as the service sent it, and its traces do not say it", ""),
    SkippedReason.NO_REFERENCE: (
        "it needs an expected answer or expected documents, which only rows can bring",
        "",
    ),
    SkippedReason.NO_REQUEST: ("it needs a question, and there is none", ""),
    SkippedReason.NO_RESPONSE: ("it needs an answer, and there is none", ""),
}


def of_unscored(reason: str, detail: str, evaluator: Evaluating | None) -> Told:
    """Why a judgement came to no verdict, and what to set."""
    judge = evaluator.judge_place if evaluator else "judge"
    more = f" ({detail})" if detail else ""
    if reason not in _KNOWN_UNSCORED:
        return Told(f"it came to no verdict: {reason}{more}")
    made = _UNSCORED[UnscoredReason(reason)]
    text, setting = made(judge, detail, evaluator) if callable(made) else made
    return Told(f"{text}{more}", setting.format(judge=judge))


def _budget(judge: str, detail: str, _: Evaluating | None) -> tuple[str, str]:
    cap = _CAP.search(detail)
    return "the judge's budget is spent", f"{judge}.budget.{cap[1]}: more" if cap else f"{judge}.budget: more"


def _timeout(judge: str, _: str, evaluator: Evaluating | None) -> tuple[str, str]:
    now = evaluator.judge.get("timeout") if evaluator else None
    than = f" than {human_duration(now)}" if isinstance(now, (int, float)) else ""
    return "the judge did not answer in time", f"{judge}.timeout: longer{than}"


def _overloaded(judge: str, _: str, evaluator: Evaluating | None) -> tuple[str, str]:
    now = evaluator.judge.get("max_concurrency") if evaluator else None
    than = f" than {now}" if now else ""
    return "more was chosen than the judge gets through, and its queue was full", f"{judge}.max_concurrency: more{than}"


def _too_large(judge: str, _: str, evaluator: Evaluating | None) -> tuple[str, str]:
    now = evaluator.judge.get("max_characters") if evaluator else None
    than = f" than {now:,}" if isinstance(now, int) else ""
    text = "question, context and answer together are longer than the judge takes"
    return text, f"{judge}.max_characters: more{than}, if the model's window has room"


_Made = tuple[str, str] | Callable[[str, str, Evaluating | None], tuple[str, str]]
_UNSCORED: Final[Mapping[UnscoredReason, _Made]] = {
    UnscoredReason.TIMEOUT: _timeout,
    UnscoredReason.RATE_LIMITED: (
        "the provider asked for patience at every attempt",
        "{judge}.budget.requests_per_minute: what the provider allows",
    ),
    UnscoredReason.PROVIDER_ERROR: (
        "the provider failed, or refuses such calls",
        "{judge}.model: one that the provider serves; `rag-monitor doctor` asks it",
    ),
    UnscoredReason.CONTENT_FILTER: (
        "the provider's content filter stopped it",
        "{judge}.model: one behind a milder filter",
    ),
    UnscoredReason.REFUSAL: ("the judge refused to judge it", "{judge}.model: one that judges such texts"),
    UnscoredReason.TRUNCATED: (
        "the judge's answer was cut off at its limit of tokens, twice",
        "{judge}.model: one that ends its answers",
    ),
    UnscoredReason.MALFORMED: (
        "the judge's answer does not have the form that was asked for, twice",
        "{judge}.model: one that can give structured output",
    ),
    UnscoredReason.OUT_OF_RANGE: (
        "the score is not on the evaluator's scale",
        "{judge}.model: one that keeps to a scale",
    ),
    UnscoredReason.BUDGET: _budget,
    UnscoredReason.BREAKER_OPEN: (
        "calls to the judge were held back after it kept failing, for longer than a judgement may wait",
        "{judge}.max_age: longer than such an outage",
    ),
    UnscoredReason.INJECTION_SUSPECTED: (
        "the text seems to talk to the judge, so that no verdict on it could be trusted",
        "",
    ),
    UnscoredReason.INCOMPLETE_TRACE: (
        "a part of the trace never came",
        "assembly.idle_timeout: longer, if the rest comes later",
    ),
    UnscoredReason.TOO_LARGE: _too_large,
    UnscoredReason.AUTH: ("the provider rejects the key", "{judge}.api_key: a key that the provider accepts"),
    UnscoredReason.SHUTDOWN: ("the monitor was stopped before the judge had answered", ""),
    UnscoredReason.OVERLOADED: _overloaded,
    UnscoredReason.PAUSED: (
        (
            "the judge refuses all calls until somebody acts (its key, its payment or its model), and is not asked"
            " meanwhile"
        ),
        (
            "{judge}.api_key: one that the provider accepts, or {judge}.model: one that it serves;"
            " `rag-monitor doctor` says which"
        ),
    ),
    UnscoredReason.ERROR: (
        "the evaluator itself failed, which is a fault of its code: the log says more, at `evaluator_failed`",
        "",
    ),
}
_KNOWN_UNSCORED: Final = frozenset(UnscoredReason)


def off(evaluator: Evaluating) -> Told:
    """An evaluator whose judge has no model."""
    place = evaluator.judge_place
    text = f"it is off: it asks a language model, and the section `{place}` names none"
    return Told(text, f"{place}.model: such as openai/gpt-4o-mini, with {place}.api_key")


def not_configured(name: str, situation: Situation) -> Told:
    """An evaluator that nobody has configured."""
    known = ", ".join(one.name for one in situation.evaluators) or "none"
    return Told(f"no evaluator of the name {name} is configured; there are: {known}", f"evaluators: - type: {name}")


CAUSE_OF_OUTCOME: Final[Mapping[str, Cause]] = {
    outcome: Cause(outcome) for outcome in OUTCOMES if outcome not in ("evaluated", "no_context")
}
