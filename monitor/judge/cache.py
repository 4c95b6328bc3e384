"""Keeps verdicts in memory, so that the same question to the same model is not paid for twice."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from monitor.clock import Clock
from monitor.judge import codec
from monitor.judge.settings import CacheSettings
from monitor.stages import Prompt, Question, Verdict


def question_key(model: str, question: Question | Prompt) -> str:
    """Hash everything that decides the answer: model, instructions, material, schema, repeat. Returns 32 hex digits."""
    return hashlib.blake2b(json.dumps([model, *codec.identity(question)]).encode(), digest_size=16).hexdigest()


@dataclass(slots=True)
class _CacheTurn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    holders: int = 0


class Cache:
    """A bounded cache: evicts the least recently used verdict first, and uses none that is older than its `ttl`."""

    def __init__(self, settings: CacheSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Verdict]] = OrderedDict()
        self._turns: dict[str, _CacheTurn] = {}

    def __len__(self) -> int:
        """Return the number of verdicts kept."""
        return len(self._kept)

    def get(self, key: str) -> Verdict | None:
        """Return the verdict under `key`, or None if there is none or it is too old."""
        found = self._kept.get(key)
        if found is None:
            return None
        at, verdict = found
        if self._clock.monotonic() - at > self._settings.ttl:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return verdict

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict under `key`."""
        self._kept[key] = (self._clock.monotonic(), verdict)
        self._kept.move_to_end(key)
        while len(self._kept) > self._settings.max_entries:
            self._kept.popitem(last=False)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Let one caller at a time ask the same question, so that the next finds its verdict in the cache.

        Without a cache (`max_entries` 0) callers do not wait.
        """
        if not self._settings.max_entries:
            yield
            return
        mine = self._turns.setdefault(key, _CacheTurn())
        mine.holders += 1
        try:
            async with mine.lock:
                yield
        finally:
            mine.holders -= 1
            if not mine.holders:
                del self._turns[key]
