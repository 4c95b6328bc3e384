"""Signing in to review: with a token once, then by a cookie that only this process knows. No URL contains a token."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio.to_thread

from monitor.jobs.review.reviewers import Reviewer, Reviewers
from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER

TOKEN_HEADER: Final = "x-review-token"  # noqa: S105 - the name of a header
"""Carries the token when a program calls."""

_COOKIE: Final = "ragmonitor_review"
_LASTS: Final = 12 * 3600.0
"""Seconds for which a reviewer stays signed in after the last request."""
_MOST: Final = 1_000


@dataclass(slots=True)
class _Session:
    reviewer: Reviewer
    used: float


class ReviewAccess:
    """Who may review, and the sessions of those who have signed in. Sessions end with the process."""

    def __init__(self, reviewers: Reviewers, runtime: Runtime) -> None:
        self._reviewers = reviewers
        self._runtime = runtime
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    async def sign_in(self, token: str, headers: Mapping[str, str]) -> str | None:
        """Return the header `set-cookie` of a new session; None for a wrong token.

        Raises `Overloaded` after too many wrong tokens.
        """
        reviewer = await self._identified(token)
        if reviewer is None:
            return None
        name = secrets.token_urlsafe(32)
        self._sessions[_key(name)] = _Session(reviewer, self._runtime.clock.monotonic())
        while len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        await self._record(Event.REVIEWER_SIGNED_IN, "a reviewer has signed in", reviewer.name)
        # Without a path, the cookie is sent to `/review` and everything below it, wherever a proxy serves that.
        secure = "; Secure" if headers.get("origin", "").startswith("https://") else ""
        return f"{_COOKIE}={name}; HttpOnly; SameSite=Strict{secure}"

    def sign_out(self, headers: Mapping[str, str]) -> str:
        """End the session of a request; return the header `set-cookie` that removes its cookie."""
        self._sessions.pop(_key(_cookie(headers)), None)
        return f"{_COOKIE}=; HttpOnly; SameSite=Strict; Max-Age=0"

    def signed_in(self, headers: Mapping[str, str]) -> str | None:
        """Return the reviewer of the request's session; None without a session, or after its end."""
        now, key = self._runtime.clock.monotonic(), _key(_cookie(headers))
        session = self._sessions.get(key)
        if session is None:
            return None
        if now - session.used > _LASTS or not self._reviewers.knows(session.reviewer):
            del self._sessions[key]
            return None
        session.used = now
        self._sessions.move_to_end(key)
        return session.reviewer.name

    async def of_program(self, headers: Mapping[str, str]) -> str | None:
        """Return the reviewer whose token a program sends; None for a wrong token or none. Raises `Overloaded`."""
        given = headers.get(TOKEN_HEADER)
        reviewer = await self._identified(given) if given is not None else None
        return reviewer.name if reviewer is not None else None

    async def _identified(self, token: str) -> Reviewer | None:
        reviewer = self._reviewers.identify(token, VIEWER.get().peer)
        if reviewer is None:
            await self._record(Event.REVIEWER_REFUSED, "a wrong token was given for the review", "unknown")
        return reviewer

    async def _record(self, event: Event, message: str, reviewer: str) -> None:
        viewer = VIEWER.get()
        record = partial(self._runtime.events.info, event, message, who=viewer.who, peer=viewer.peer, reviewer=reviewer)
        await anyio.to_thread.run_sync(record)  # it is written to a file, too


def _key(name: str) -> bytes:
    """Return the key of a session: only a hash of the name in the cookie is kept."""
    return hashlib.sha256(name.encode("utf-8", "replace")).digest()


def _cookie(headers: Mapping[str, str]) -> str:
    """Return the session's name. Other services on this host may set cookies of any form."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == _COOKIE:
            return value
    return ""
