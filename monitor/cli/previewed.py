"""What a configuration would do with recorded traffic, and what that would cost: nothing is sent to any judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from monitor.cli.recorded import Recorded
from monitor.cli.trailed import FACTORS, Trailed, together
from monitor.clock import ManualClock
from monitor.config import Config
from monitor.judge.budget import estimate_tokens
from monitor.judge.litellm_provider import count_tokens
from monitor.judge.prices import tariff
from monitor.judge.recording import Exchange, Recording
from monitor.judge.settings import Budget, CacheSettings
from monitor.model.case import Case, Document, Message, Request
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.drawing import Drawing, score_local
from monitor.pipeline.scoring import EVERY, open_scorer, scores_of, with_facts
from monitor.stages import FixedSampler, Runtime

MONTH: Final = 30.0  # days

_BARE: Final = Case(
    request_id="",
    request=Request("-", (Message("user", "-"),)),
    retrieved_context=(Document("-"),),
    response="-",
    expected_response="-",
)
"""Stands in where the history has no texts: what is sent for it is hardly more than the instructions."""


@dataclass(slots=True)
class Unit:
    """What is asked in one call: one evaluator, or several of a group. Sums are weighted by requests.

    `chosen` counts the cases that are judged; `asked` those that a judge would be asked about at a rate of 1, and
    `at_most` the tokens of their prompts. `shares` and `tokens` are expected per factor: requests judged, and tokens of
    their prompts. Where trails say who is chosen, `each` is what one prompt has, `known_by` says from what that is
    known (prompts as they would be sent, judgements that were made, a prompt without any text), and `unforetold` that
    nothing can be said of who would be chosen.
    """

    members: tuple[Assignment, ...]
    model: str
    chosen: float = 0.0
    asked: float = 0.0
    at_most: float = 0.0
    known_by: Literal["prompts", "judgements", "nothing"] = "prompts"
    shares: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))
    tokens: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))
    adaptive: bool = False
    each: float = 0.0
    unforetold: bool = False
    bare: float = 0.0
    """Tokens of the prompt for a case of a few letters."""

    @property
    def name(self) -> str:
        """Its evaluators."""
        return " + ".join(one.evaluator.name for one in self.members)


@dataclass(slots=True)
class Previewed:
    """The answer. `listed` are judged cases with those who judge them; `first` is what would be sent first, and for
    which case: where none is chosen, what would be sent if it were.
    """

    recorded: Recorded
    units: list[Unit]
    judged: float = 0.0
    listed: list[tuple[Case, tuple[str, ...]]] = field(default_factory=list)
    first: tuple[str, Exchange] | None = None
    counted: bool = True
    """Whether all tokens were counted by litellm; else some are estimated, rather too high."""


def units(config: Config) -> list[Unit]:
    """What is asked, nothing counted yet."""
    made = []
    for members in together(config):
        varies = any(not isinstance(one.sampler, FixedSampler) for one in members) or bool(config.traffic.quotas)
        made.append(Unit(members, config.judge_of(members[0]).model or "", adaptive=varies))
    return made


async def run(config: Config, recorded: Recorded, listed: int) -> Previewed:
    """Draw every case as production does, and render what would be asked of each.

    Samplers and quotas that go by time see the traffic at its own pace. Raises `ConfigError`.
    """
    clock = ManualClock(recorded.cases[0][0].answered_at if recorded.cases else 0.0)
    runtime = Runtime.standalone(clock)
    exchanges: list[Exchange] = []
    done = Previewed(recorded, units(config))
    who = [one for one in config.assignments if config.works(one)]
    free = {"budget": Budget(), "cache": CacheSettings(max_entries=0), "max_attempts": 1}
    judges = {name: settings.model_copy(update=free) for name, settings in config.all_judges.items()}
    seam = partial(Recording, exchanges=exchanges, send=False)
    async with open_scorer(who, judges, runtime=runtime, seam=seam) as scorer:
        drawing = Drawing(
            who,
            versions=scorer.versions,
            draws=None,
            runtime=runtime,
            salt=config.sampling.salt,
            quotas=config.traffic.quotas,
        )
        judged = [one for one in who if one.evaluator.cost == "judge"]
        cases = recorded.cases or ([(_BARE, 0.0)] if recorded.trailed is not None else [])
        for case, weight in cases:
            clock.advance(max(case.answered_at - clock.now(), 0.0))
            local = scores_of(await score_local(scorer, drawing, case))
            known = with_facts(case, local)
            chosen = {one.evaluator.name for one in judged if drawing.draw(one, known, local) is not None}
            by: list[str] = []
            for unit in done.units:
                exchanges.clear()
                await scorer.score(known, [(one, EVERY) for one in unit.members])
                if not exchanges:
                    continue  # does not apply, or is scored by rule
                mine = [one.evaluator.name for one in unit.members if one.evaluator.name in chosen]
                _add(done, unit, known, exchanges, weight, is_chosen=bool(mine))
                if case is not _BARE and (done.first is None or (mine and not done.judged and not by)):
                    done.first = (known.request_id, exchanges[0])
                by += mine
            done.judged += bool(by)
            if by and len(done.listed) < listed:
                done.listed.append((known, tuple(by)))
    if recorded.trailed is not None:
        _by_trails(done, recorded.trailed)
    return done


def _by_trails(done: Previewed, trailed: Trailed) -> None:
    """Who is chosen, by the trails of all requests; of the cases with texts only the tokens of their prompts remain."""
    texts = {case.request_id: case for case, _ in done.recorded.cases}
    done.judged = trailed.judged
    done.listed = [(texts.get(name, Case(request_id=name)), by) for name, by in trailed.listed]
    found = {tuple(one.evaluator.name for one in unit.members): unit for unit in trailed.units}
    for unit in done.units:
        names = tuple(one.evaluator.name for one in unit.members)
        each = unit.at_most / unit.asked if unit.asked else 0.0
        sent: dict[str, int] = {}
        for name in names:
            for case, tokens in done.recorded.spent.get(name, {}).items():
                sent[case] = sent.get(case, 0) + tokens
        if not each and sent:
            each, unit.known_by = sum(sent.values()) / len(sent), "judgements"
        elif not each:
            each, unit.known_by = unit.bare, "nothing"
        known = found.get(names)
        unit.chosen, unit.asked = (known.chosen, known.applies) if known else (0.0, 0.0)
        unit.each, unit.unforetold = each, known is not None and 0 < known.applies <= known.unknown
        unit.shares = list(known.shares) if known else [0.0] * len(FACTORS)
        unit.tokens = [share * each for share in unit.shares]


def _add(
    done: Previewed, unit: Unit, case: Case, exchanges: Sequence[Exchange], weight: float, *, is_chosen: bool
) -> None:
    tokens = 0
    for one in exchanges:
        exact = count_tokens(unit.model, one.call.messages)
        done.counted = done.counted and exact is not None
        tokens += exact if exact is not None else estimate_tokens(message["content"] for message in one.call.messages)
    if case.request_id == _BARE.request_id:
        unit.bare = float(tokens)
    unit.chosen += is_chosen
    unit.asked += weight
    unit.at_most += weight * tokens
    rate = float(is_chosen)
    if not unit.adaptive:
        samplers = [one.sampler for one in unit.members]
        rate = max(one.probability(case) for one in samplers if isinstance(one, FixedSampler))
    for number, factor in enumerate(FACTORS):
        share = weight * (rate * factor if unit.adaptive else min(rate * factor, 1.0))
        unit.shares[number] += share
        unit.tokens[number] += share * tokens


def dollars(config: Config, unit: Unit, tokens_out: int, number: int) -> float | None:
    """US dollars that judging the recorded traffic would cost at a factor; None where no price is known."""
    known = tariff(config.judge_of(unit.members[0]).model_copy(update={"budget": Budget()}))
    if known is None:
        return None
    return unit.tokens[number] * known.input + unit.shares[number] * tokens_out * known.output
