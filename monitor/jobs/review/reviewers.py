"""Who may review: names and tokens in a file that is read again when it changes. Also the section `review`."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
from collections import OrderedDict, deque
from pathlib import Path
from typing import Final, NamedTuple, Self

from pydantic import model_validator

from monitor.clock import Clock
from monitor.errors import ConfigError, Overloaded
from monitor.stages import Component
from monitor.telemetry.events import Event, Events
from monitor.transport.http import files

_LINE: Final = re.compile(r"(?P<name>[^:]{1,64}?)\s*:\s*(?P<token>\S+)")
_HASHED: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_SHORTEST: Final = 16
_FAILURES, _ALL_FAILURES, _MINUTE = 10, 100, 60.0
_MOST_PEERS: Final = 1_000


class ReviewerSettings(Component):
    """Who may review."""

    token_file: Path | None = None
    """File with one reviewer per line, a name and a token: `ana: TOKEN`. It is read again when it changes, and should
    be readable by its owner only. Instead of a token, of at least 16 characters, a line may have `sha256:` and its
    hexadecimal SHA-256. Empty lines and lines starting with `#` are ignored. A name may have several tokens."""


class ReviewSettings(Component):
    """Labels that people give in the web UI (docs/review.md)."""

    enabled: bool = False
    """Let people label answers under `/review` of the UI. Needs `reviewers` and `storage: {texts: all}`."""

    reviewers: ReviewerSettings = ReviewerSettings()
    """Who may review."""

    blind: bool = True
    """Show the judge's verdict, its explanation and its marks only after the reviewer's own label. People tend to agree
    with a verdict that they see first, and such labels make a judge look better than it is."""

    @model_validator(mode="after")
    def _has_reviewers(self) -> Self:
        if self.enabled and self.reviewers.token_file is None:
            raise ValueError("`enabled` needs `reviewers`, such as `{token_file: /etc/rag-monitor/reviewers}`")
        return self


class Reviewer(NamedTuple):
    """Someone who may review. `digest` is the SHA-256 of the token."""

    name: str
    digest: bytes


class Reviewers:
    """The reviewers in the file `path`. Raises `ConfigError` if it cannot be read or names no reviewer."""

    def __init__(self, path: Path, clock: Clock, events: Events) -> None:
        self._events = events
        self._current = files.Reloaded([path], lambda: self._read(path), clock, events)
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._all_failed: deque[float] = deque(maxlen=_ALL_FAILURES)

    def identify(self, token: str, peer: str) -> Reviewer | None:
        """Return the reviewer with this token, or None for a wrong token.

        Raises `Overloaded` after ten wrong tokens from the same peer in a minute, or a hundred in all.
        """
        wait = max(self._wait(self._failed.get(peer, deque()), _FAILURES), self._wait(self._all_failed, _ALL_FAILURES))
        if wait > 0:
            raise Overloaded("too many wrong tokens", retry_after=wait)
        shown = hashlib.sha256(token.strip().encode("utf-8", "replace")).digest()
        # All are compared even after a match, and hashing hides their lengths.
        fitting = [one for one in self._current() if hmac.compare_digest(shown, one.digest)]
        if not fitting:
            self._note_failure(peer)
        return fitting[0] if fitting else None

    def knows(self, reviewer: Reviewer) -> bool:
        """Return whether the file still has this reviewer with this token."""
        return reviewer in self._current()

    def _wait(self, failures: deque[float], at_most: int) -> float:
        """Return the seconds until another attempt is allowed."""
        now = self._clock.monotonic()
        recent = [at for at in failures if now - at < _MINUTE]
        return recent[-at_most] + _MINUTE - now if len(recent) >= at_most else 0.0

    def _note_failure(self, peer: str) -> None:
        now = self._clock.monotonic()
        self._all_failed.append(now)
        self._failed.setdefault(peer, deque(maxlen=_FAILURES)).append(now)
        self._failed.move_to_end(peer)
        while len(self._failed) > _MOST_PEERS:
            self._failed.popitem(last=False)

    def _read(self, path: Path) -> tuple[Reviewer, ...]:
        found = read_reviewers(path)
        message = readable_by_others(path)
        if message:
            self._events.warning(Event.TOKENS_READABLE, message, file=str(path))
        return found


def readable_by_others(path: Path) -> str:
    """Return a warning if other users can read the file; else an empty string."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return ""
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"other users can read the reviewers' tokens (mode {mode:04o}): run `chmod 600 {path}`"


def read_reviewers(path: Path) -> tuple[Reviewer, ...]:
    """Read the file. Raises `ConfigError` with the number of a wrong line, never with its text."""
    what = "review.reviewers.token_file"
    try:
        lines = files.read(path, what).decode().splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{what} {str(path)!r} is not UTF-8") from None
    found: dict[bytes, Reviewer] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None or not parts["name"].isprintable():
            raise ConfigError(f"{what} {str(path)!r}: line {number} is not `name: token`")
        hashed = _HASHED.fullmatch(parts["token"])
        if hashed is None and len(parts["token"]) < _SHORTEST:
            raise ConfigError(f"{what} {str(path)!r}: line {number}: a token needs at least {_SHORTEST} characters")
        digest = bytes.fromhex(hashed[1]) if hashed else hashlib.sha256(parts["token"].encode()).digest()
        if digest in found:
            raise ConfigError(f"{what} {str(path)!r}: line {number} repeats a token: give each reviewer their own")
        found[digest] = Reviewer(parts["name"], digest)
    if not found:
        raise ConfigError(f"{what} {str(path)!r} names no reviewer; a line is `name: token`")
    return tuple(found.values())
