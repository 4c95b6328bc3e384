"""The versions behind a result: numbers from before and after a change are not comparable."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceVersion:
    """The versions behind one result. Empty if unknown.

    `evaluator` is the version of the evaluator, `judge` the model that it used; `prompt`, `index` and `service` are the
    evaluated service's own.
    """

    evaluator: str = ""
    judge: str = ""
    prompt: str = ""
    index: str = ""
    service: str = ""

    @property
    def fingerprint(self) -> str:
        """A hash of the parts, the same in every process. 8 hex digits."""
        return _fingerprint(f"{self.evaluator}\x1f{self.judge}\x1f{self.prompt}\x1f{self.index}\x1f{self.service}")

    @property
    def parts(self) -> dict[str, str]:
        """The parts by name."""
        return {
            "evaluator": self.evaluator,
            "judge": self.judge,
            "prompt": self.prompt,
            "index": self.index,
            "service": self.service,
        }

    def changes_from(self, before: ServiceVersion) -> str:
        """Describe what differs from `before`: `prompt 3 -> 4, service 1.2 -> 1.3`."""
        old = before.parts
        return ", ".join(
            f"{name} {old[name] or 'unknown'} -> {now or 'unknown'}"
            for name, now in self.parts.items()
            if now != old[name]
        )


@lru_cache(maxsize=256)
def _fingerprint(joined: str) -> str:
    return hashlib.blake2b(joined.encode("utf-8", "replace"), digest_size=4).hexdigest()


class SeenVersion(NamedTuple):
    """A service version with results: times of its first and last answer, in seconds since the epoch."""

    app: str
    evaluator: str
    service_version: ServiceVersion
    began: float
    seen: float


class VersionChange(NamedTuple):
    """The start of a service version: its time, and what changed, such as `prompt 3 -> 4`."""

    at: float
    text: str
