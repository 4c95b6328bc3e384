"""The trail of one request: what became of it at each step, and by which figures. No text of the traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from monitor.model.case import Joined
from monitor.model.outcome import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorDecision:
    """What one evaluator did with one case.

    `missing` is the reason why it does not apply, empty where it does. `probability`, `target` and `thinned` as in
    `stages.SamplingDecision`, the first two None where nothing was drawn; `room` is the part of the probability that
    the app's quota left, 0 to 1. `chosen` says that the draw fell on the case, `repeated` that it was judged before.

    `outcome` is `score`, `skipped` or `unscored`, empty where it came to none yet, `reason` and `detail` why it is not
    `score`. `waited` is seconds in the queue in front of the judge, None where it never left it; `seconds` those from
    the choice to the outcome.
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
    waited: float | None = None
    seconds: float = 0.0
    cached: bool = False
    tries: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What became of one request that was kept by head sampling.

    `outcome` is where it ended in the ledger, empty while it is under way, `detail` more on that: the part that never
    came, the texts that were not sent, the option that left it out. `closed` says why waiting for more of it ended,
    empty for a row. `probability` is that with which it was kept at the door, `draw` the value that evaluators'
    probabilities were held against, 0 to 1. `spans` and `records` count what came, `joined` are the first of the spans.
    Times are wall-clock seconds.
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
    joined: tuple[Joined, ...] = ()
    choices: tuple[EvaluatorDecision, ...] = ()


class RequestStep(NamedTuple):
    """What is summed by the minute: where requests ended, and what evaluators did with cases.

    Of a request's end `evaluator` is empty and `step` the outcome; else `source` is empty and `step` one of `missing`,
    `not_chosen`, `repeated`, `score`, `late`, `non_production`, `skipped`, `unscored`, with the reason after a colon
    where there is one (`unscored:auth`).
    """

    app: str
    source: str
    evaluator: str
    step: str


class Sum(NamedTuple):
    """How often a step was taken, the probabilities of all draws among them, the newest in wall-clock seconds."""

    step: RequestStep
    number: int
    expected: float
    last: float
