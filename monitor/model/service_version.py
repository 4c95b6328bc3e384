"""What stood behind a verdict: where one part changes, numbers from before and after are not of one kind."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceVersion:
    """The versions behind one result, the judging side first. Empty where nothing says them.

    `evaluator` is the version of the evaluator, `judge` the model that answered it; `prompt`, `index` and `service` are
    the judged service's own.
    """

    evaluator: str = ""
    judge: str = ""
    prompt: str = ""
    index: str = ""
    service: str = ""

    @property
    def fingerprint(self) -> str:
        """The same for the same parts in any process. 8 hex digits."""
        told = "\x1f".join(self.parts.values())
        return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=4).hexdigest()

    @property
    def parts(self) -> dict[str, str]:
        """Each part by its name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def changes_from(self, before: ServiceVersion) -> str:
        """What is another than in `before`, in words: `prompt 3 -> 4, service 1.2 -> 1.3`."""
        old = before.parts
        return ", ".join(
            f"{name} {old[name] or 'unknown'} -> {now or 'unknown'}"
            for name, now in self.parts.items()
            if now != old[name]
        )


class SeenVersion(NamedTuple):
    """A generation that had verdicts: the wall-clock seconds of the first and of the last of them."""

    app: str
    evaluator: str
    service_version: ServiceVersion
    began: float
    seen: float


class VersionChange(NamedTuple):
    """The beginning of a generation: the wall-clock second, and what is new in words, as `prompt 3 -> 4`."""

    at: float
    text: str
