"""What judgements would cost at most, for `rag-monitor backfill --dry-run`: rendered as they would be, not sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from monitor.backfill.cases import Item
from monitor.cli.console.text import dollars
from monitor.config import Config
from monitor.judge.budget import estimate_tokens
from monitor.judge.prices import tariff
from monitor.judge.recording import Exchange, Recording
from monitor.judge.settings import Budget, CacheSettings
from monitor.operations.event_loop import run_async
from monitor.pipeline.scoring import open_scorer
from monitor.stages import Runtime


def lines(config: Config, items: Sequence[Item]) -> Iterator[str]:
    """For each evaluator how many judgements there are, and their price at most, retries aside."""
    by_name: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_name[item.evaluator].append(item)
    spent: dict[str, float | None] = {}

    async def main() -> None:
        for name, those in by_name.items():
            spent[name] = await _dollars(config, name, those)

    run_async(main)
    for name, those in by_name.items():
        price = spent[name]
        told = f"{dollars(price)} at most" if price else "no price is known of its model"
        told = "for nothing" if price == 0 else told
        yield f"  {name}: {len(those)} judgements, {told}"


async def _dollars(config: Config, name: str, items: Sequence[Item]) -> float | None:
    assignment = next(one for one in config.assignments if one.evaluator.name == name)
    if assignment.evaluator.cost == "local":
        return 0.0
    settings = config.judge_of(assignment).model_copy(
        update={"budget": Budget(), "cache": CacheSettings(max_entries=0), "max_attempts": 1}
    )
    price = tariff(settings)
    if price is None:
        return None
    runtime, exchanges = Runtime.standalone(), list[Exchange]()
    seam = partial(Recording, exchanges=exchanges, send=False)
    async with open_scorer([assignment], {assignment.judge: settings}, runtime=runtime, seam=seam) as scorer:
        for item in items:
            await scorer.score(item.case)
    return sum(
        price.dollars(estimate_tokens(message["content"] for message in one.call.messages), one.call.max_tokens)
        for one in exchanges
    )
