"""Entries of the request log: what happened to one request at each step. No text from traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from monitor.model.case import Joined
from monitor.model.outcome import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorDecision:
    """What one evaluator did with one case.

    `missing` is the reason why it does not apply, else empty. `probability`, `target` and `thinned` are as in
    `stages.SamplingDecision`; the first two are None without sampling. `room` is the share of the probability that the
    app's quota left, 0 to 1. `chosen`: sampled; `repeated`: evaluated before.

    `outcome` is `score`, `skipped`, `unscored`, or empty if unfinished; `reason` and `detail` say why it is not
    `score`. `second` is the `SevereOutcome` of the second judgement of a severe answer, else empty; `second_score` is
    its score, if it has one. `waited` is seconds in the judge's queue, None if it never left the queue; `seconds` is
    the time from sampling to the outcome.
    """

    evaluator: str
    missing: str = ""
    probability: float | None = None
    target: float | None = None
    thinned: bool = False
    room: float = 1.0
    chosen: bool = False
    repeated: bool = False
    outcome: str = ""
    reason: str = ""
    detail: str = ""
    scope: str = ""
    second: str = ""
    second_score: float | None = None
    waited: float | None = None
    seconds: float = 0.0
    cached: bool = False
    tries: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What happened to one request that head sampling kept.

    `outcome` is its final outcome in the ledger, empty while in progress; `detail` adds the missing part, the missing
    texts or the option that dropped it. `closed` says why its trace was closed, and is empty for a row. `probability`
    is the head sampling probability, `draw` the hash value, 0 to 1, that evaluators' probabilities are compared with.
    `spans` and `records` count what arrived; `joined` are the first spans of the request. `context` is a
    `ContextStatus`, empty if nothing was read. `part_of` is the trace or row that holds it if that holds several
    requests, else empty. Times are in seconds since the epoch.
    """

    request_id: str
    app: str
    source: str
    received_at: float
    closed_at: float
    ended_at: float = 0.0
    closed: str = ""
    outcome: str = ""
    detail: str = ""
    probability: float = 1.0
    draw: float = 0.0
    spans: int = 0
    records: int = 0
    traffic: str = ""
    context: str = ""
    joined: tuple[Joined, ...] = ()
    decisions: tuple[EvaluatorDecision, ...] = ()
    part_of: str = ""


class RequestStep(NamedTuple):
    """The key of sums per minute: how requests ended, and what evaluators did with cases.

    For the end of a request, `evaluator` is empty and `step` is the outcome. Otherwise `source` is empty and `step` is
    one of `missing`, `not_chosen`, `repeated`, `score`, `late`, `non_production`, `skipped`, `unscored`, with the
    reason after a colon if there is one (`unscored:auth`).
    """

    app: str
    source: str
    evaluator: str
    step: str


class Sum(NamedTuple):
    """How often a step occurred, the sum of its probabilities, and its last time in seconds since the epoch."""

    step: RequestStep
    number: int
    expected: float
    last: float
