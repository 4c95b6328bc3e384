"""Plans what a number of requests per second takes: cores, replicas, memory, disk, judge calls, cost, series, delay.

capacity.for_traffic(config, 1000)

All figures follow from `MEASURED`, which names the benchmark behind each number, and from the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from monitor.config import Config
from monitor.config.limits import JUDGE, PROCESS, WORKER
from monitor.errors import ConfigError
from monitor.operations.plan import Delay, EvaluationPrice, how_soon, price_for
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.quantities import format_size, human_duration, percent
from monitor.samplers.budget import Budgeted
from monitor.samplers.uniform import Uniform
from monitor.sources.kafka import KafkaSource
from monitor.storage.history.settings import HistoryOptions


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured quantity: its value, what it is, and the benchmark that printed it."""

    value: float
    what: str
    by: str


_INGEST, _KAFKA, _FOOTPRINT, _PEERS = (f"benchmarks.{name}" for name in ("ingest", "kafka", "footprint", "peers"))
MEASURED: Final[Mapping[str, Measured]] = {
    "dropped_span": Measured(4.0, "us of processor time to receive a span that is not kept", _INGEST),
    "kept_span": Measured(14.0, "us of processor time to receive a span that is kept", _INGEST),
    "message": Measured(53.0, "us of processor time to read a Kafka message (a whole trace)", _KAFKA),
    "kept_trace": Measured(1.8, "ms of processor time for a kept trace after the acknowledgement", _INGEST),
    "worker_share": Measured(0.63, "of that, in the busier of the two processes", _INGEST),
    "judged": Measured(4.4, "ms of processor time for an evaluation by a judge", _PEERS),
    "trace_bytes": Measured(14_700, "bytes of a trace of six spans", _INGEST),
    "history": Measured(1550, "bytes of the history for a local result", _FOOTPRINT),
    "history_judged": Measured(3400, "bytes of the history for a result of a judge", _FOOTPRINT),
    "history_texts": Measured(6800, "bytes more for a result with `storage.texts: all`", _FOOTPRINT),
    "request_log": Measured(950, "bytes of the request log for a kept trace", _FOOTPRINT),
    "request_log_result": Measured(205, "bytes of the request log for a result", _FOOTPRINT),
    "series": Measured(237, "series without a service or an evaluator", _FOOTPRINT),
    "series_evaluator": Measured(42, "series more for an evaluator", _FOOTPRINT),
    "series_service": Measured(53, "series more for a service", _FOOTPRINT),
    "series_local": Measured(38, "series more for a local evaluator and a service", _FOOTPRINT),
    "series_judged": Measured(49, "series more for a judged evaluator and a service", _FOOTPRINT),
}  # fmt: skip
"""The basis of all figures. Measured on two shared virtual cores; `docs/performance.md` has the tables."""

BUSY: Final = 0.5
"""Share of a core that the mean load may use: the busiest hour of a day has about twice the mean."""

KEPT_A_SECOND: Final = 10.0
"""Requests per second that are enough: local evaluators then score 36,000 an hour, and more detects nothing sooner."""

SCRAPE_EVERY: Final = 15.0
"""Seconds between two scrapes, as in `deploy/compose/prometheus.yml`."""

FEWEST_PARTITIONS: Final = 6
_HEADS: Final = tuple(digit / 10**power for power in range(1, 8) for digit in (10, 5, 2))
_DAY, _HOUR, _HOURS = 86_400.0, 3600.0, 24.0
_MOST: Final = 10_000_000.0
_STEP: Final = 64 * 1024**2
_LEAST_DATA: Final = 64 * 1024**2
_OPEN_PART: Final = 4
_SENT_EVERY: Final = 5.0  # seconds between two exports of an SDK
SECONDS_OF_A_CALL: Final = 2.0
"""How long a judge is assumed to take for one answer, in seconds."""

HISTORY_SIZE: Final = int(HistoryOptions.model_fields["max_size"].default)
"""The size, in bytes, at which the history of a replica deletes its oldest results."""


@dataclass(frozen=True, slots=True)
class JudgedLoad:
    """The load of one judged evaluator: the `share` of kept requests, evaluations per day, and how these are set."""

    evaluator: str
    sampling: str
    share: float
    per_day: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a number of requests per second takes. Cores, disk, calls and series are for all replicas together.

    `head` is the share of traces that is kept; `head_suggested`: the plan chose it. `cores` are busy on average,
    `cores_each` is the number a replica needs, `memory_each` its bytes. `dollars_per_day` is None if the price is
    unknown. `history_lasts` is how many seconds the replicas keep results.
    """

    requests_per_second: float
    head: float
    head_suggested: bool
    kept_per_second: float
    judged: tuple[JudgedLoad, ...]
    cores: float
    replicas: int
    cores_each: int
    partitions: int
    memory_each: int
    disk_per_day: float
    history_lasts: float
    judge_calls_per_day: float
    judge_calls_at_once: float
    dollars_per_day: float | None
    series: int
    samples_per_second: float
    noticed: tuple[Delay, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a plan assumes about the traffic: the defect `rate`, the `worse` one to notice, and the form of requests.

    `spans` is the number per request, `services` the number of services that send it; series grow with them. `price`
    is that of an evaluation in US dollars; None: from the price of each judge and `tokens` (in, out). Raises
    `ConfigError`.
    """

    rate: float = 0.02
    worse: float = 0.04
    services: int = 1
    spans: int = 6
    price: float | None = None
    tokens: tuple[int, int] = (2000, 200)

    def __post_init__(self) -> None:
        for name, value, most in (("services", self.services, 200), ("spans", self.spans, 10_000)):
            if not 1 <= value <= most:
                raise ConfigError(f"{name}: {value} is not from 1 to {most:,}")
        if not 0 < self.rate < self.worse < 1:
            raise ConfigError(f"worse: {percent(self.worse)} must be above rate ({percent(self.rate)}) and below 100 %")


_USUAL: Final = Assumptions()


def for_traffic(config: Config, requests_per_second: float, assumed: Assumptions = _USUAL) -> Capacity:
    """Return what `requests_per_second` (the mean of a day, all services together) takes with a configuration.

    Without `sampling.traces`, the head rate is chosen so that about `KEPT_A_SECOND` requests per second are kept.
    Raises `ConfigError` for a number that is not above 0, or is beyond ten million.
    """
    if not 0 < requests_per_second <= _MOST:
        raise ConfigError(f"requests_per_second: {requests_per_second:g} is not above 0 and up to {_MOST:,.0f}")
    config = config.as_run()
    chosen = "traces" in config.sampling.model_fields_set
    head = config.sampling.traces if chosen else _suggested(requests_per_second)
    kept = requests_per_second * head
    working = [one for one in config.configured_evaluators if config.works(one)]
    judging = [one for one in working if one.evaluator.cost == "judge"]
    prices = {one.evaluator.name: _price(config, one.evaluator.name, assumed) for one in judging}
    kafka = any(isinstance(source, KafkaSource) for source in config.sources)
    replicas = 1
    while True:  # without Kafka each replica has its own budgets, so the number of judged answers grows with them
        loads = tuple(_load(one, kept, prices[one.evaluator.name], 1 if kafka else replicas) for one in judging)
        evaluations = sum(one.per_day for one in loads) / _DAY
        cores, needed = _processors(
            config, requests_per_second * (1 if kafka else assumed.spans), head, kept, evaluations
        )
        if needed <= replicas:
            break
        replicas = needed
    calls, dollars = _calls(judging, loads, config, prices)
    local = len(working) - len(judging)
    results = kept * _DAY * local, evaluations * _DAY
    history = results[0] * _value("history") + results[1] * _value("history_judged")
    history += sum(results) * _value("history_texts") * (config.storage.texts == "all")
    log = kept * _DAY * _value("request_log") + sum(results) * _value("request_log_result")
    each_service = _value("series_service") + local * _value("series_local") + len(judging) * _value("series_judged")
    series = replicas * (_value("series") + len(working) * _value("series_evaluator") + assumed.services * each_service)
    made = Capacity(
        requests_per_second=requests_per_second,
        head=head,
        head_suggested=not chosen,
        kept_per_second=kept,
        judged=loads,
        cores=cores,
        replicas=replicas,
        cores_each=1 + config.scoring.number,
        partitions=max(FEWEST_PARTITIONS, 2 * replicas),
        memory_each=_memory(config, kept / replicas, judges=bool(judging)),
        disk_per_day=history + (log if config.storage.request_log > 0 else 0.0),
        history_lasts=min(
            config.storage.retention, HISTORY_SIZE * replicas / (history / _DAY) if history else math.inf
        ),
        judge_calls_per_day=calls,
        judge_calls_at_once=calls / _DAY * SECONDS_OF_A_CALL,
        dollars_per_day=dollars,
        series=round(series),
        samples_per_second=series / SCRAPE_EVERY,
    )
    scored = {one.evaluator: one.per_day / _HOURS for one in loads}
    noticed = tuple(
        how_soon(config, one.evaluator.name, scored.get(one.evaluator.name, kept * _HOUR), assumed.rate, assumed.worse)
        for one in working
    )
    return replace(made, noticed=noticed, notes=tuple(_notes(config, made, kafka=kafka)))


def _price(config: Config, evaluator: str, assumed: Assumptions) -> EvaluationPrice:
    if assumed.price is not None:
        return EvaluationPrice(assumed.price, "as given")
    tokens_in, tokens_out = assumed.tokens
    return price_for(config, evaluator, input_tokens=tokens_in, output_tokens=tokens_out)


def _value(name: str) -> float:
    return MEASURED[name].value


def _suggested(requests_per_second: float) -> float:
    """Return the smallest round share that keeps `KEPT_A_SECOND` requests a second; all, if there are fewer."""
    enough = [one for one in _HEADS if one * requests_per_second >= KEPT_A_SECOND * (1 - 1e-9)]
    return min(enough, default=1.0)


def _load(one: ConfiguredEvaluator, kept: float, price: EvaluationPrice, budgets: int) -> JudgedLoad:
    """Return the load of an evaluator if each of `budgets` replicas has the whole budget."""
    sampler, name = one.sampler, one.evaluator.name
    a_day = kept * _DAY
    if isinstance(sampler, Budgeted):
        per_day = sampler.mean_hour() * _HOURS
        if sampler.dollars_per_day is not None and price.dollars:
            per_day = sampler.dollars_per_day / price.dollars
        per_day = min(per_day * budgets, a_day)
        words = f"{per_day:,.0f} a day"
        return JudgedLoad(name, words, per_day / a_day, per_day)
    share = sampler.rate if isinstance(sampler, Uniform) else getattr(sampler, "default", 1.0)
    return JudgedLoad(name, percent(share), share, share * a_day)


def _processors(config: Config, received: float, head: float, kept: float, evaluations: float) -> tuple[float, int]:
    """Return the cores that are busy on average, and the replicas: no process of a replica may be busier than `BUSY`.

    `received` is in Kafka messages per second if a source is Kafka, else in spans.
    """
    each = _value("dropped_span") * (1 - head) + _value("kept_span") * head
    if any(isinstance(source, KafkaSource) for source in config.sources):
        each = _value("message")
    reading = kept * _value("kept_trace") / 1e3
    workers = config.scoring.number
    in_workers = reading * _value("worker_share") if workers else 0.0
    receiver = received * each / 1e6 + reading - in_workers + evaluations * _value("judged") / 1e3
    replicas = max(receiver / BUSY, in_workers / BUSY / workers if workers else 0.0, 1.0)
    return receiver + in_workers, math.ceil(replicas - 1e-9)


def _calls(
    judging: list[ConfiguredEvaluator],
    loads: tuple[JudgedLoad, ...],
    config: Config,
    prices: Mapping[str, EvaluationPrice],
) -> tuple[float, float | None]:
    """Return the calls per day with their repeats, and the dollars; None if a price is unknown.

    Evaluators of one group share a call: all draw by the same hash, so there are as many calls as the largest makes.
    """
    groups: dict[tuple[str, str], list[tuple[float, float | None]]] = {}
    for one, load in zip(judging, loads, strict=True):
        key = (one.judge, one.group or f"alone {load.evaluator}")
        again = 1 + config.judge_of(one).recheck_share
        groups.setdefault(key, []).append((load.per_day * again, prices[load.evaluator].dollars))
    largest = [max(members) for members in groups.values()]
    dollars = [number * price for number, price in largest if price is not None]
    unknown = any(price is None for _, price in largest)
    return sum(number for number, _ in largest), None if unknown else math.fsum(dollars)


def _memory(config: Config, kept: float, *, judges: bool) -> int:
    """Return the bytes that a replica needs for `kept` traces per second at twice the mean, or the configured limit."""
    if config.limits.memory != "auto":
        return int(config.limits.memory)
    open_for = config.assembly.grace_period + _SENT_EVERY
    data = max(kept / BUSY * open_for * _value("trace_bytes") * _OPEN_PART, _LEAST_DATA)
    whole = PROCESS + config.scoring.number * WORKER + (JUDGE if judges else 0) + data
    return math.ceil(whole / _STEP) * _STEP


def _notes(config: Config, made: Capacity, *, kafka: bool) -> Iterator[str]:
    """Yield what to set, and what does not fit."""
    if made.head_suggested and made.head < 1:
        yield f"Set `sampling.traces: {made.head * 100:g}%`, which is not set but which this plan assumes"
    if made.replicas > 1 and not kafka and any("a day" in one.sampling for one in made.judged):
        yield f"Each replica spends the budgets of `sample` separately: divide them by {made.replicas}, or use Kafka"
    for name, settings in config.judges_with_models.items():
        room, place = settings.max_concurrency * made.replicas, f"judges.{name}" if name else "judge"
        if made.judge_calls_at_once > BUSY * room:
            yield (
                f"`{place}.max_concurrency` allows {room:,} calls at once on all replicas; at {SECONDS_OF_A_CALL:g} s a"
                f" call, {made.judge_calls_at_once:,.0f} are needed on average"
            )
        most = settings.budget.evaluations_per_day
        if most is not None and most < made.judge_calls_per_day:
            yield f"`{place}.budget.evaluations_per_day: {most}` refuses the rest: `unscored` with the reason `budget`"
        money = settings.budget.dollars_per_day
        if money is not None and (made.dollars_per_day or 0) > money:
            yield f"`{place}.budget.dollars_per_day: {money:g}` refuses the rest: `unscored` with the reason `budget`"
    if made.history_lasts < config.storage.retention:
        yield (
            f"The history of a replica holds {format_size(HISTORY_SIZE)}, the results of"
            f" {human_duration(made.history_lasts)}; older ones are deleted. Keep fewer traces, or use a sink"
        )
