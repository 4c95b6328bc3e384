"""What the pipeline does for people's privacy: drops what is to be forgotten, and masks before results go anywhere."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from monitor.model.case import Case
from monitor.model.outcome import Judged
from monitor.privacy.erasure import Forgotten
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import Redacted, Redactor
from monitor.stages import Deliver


class Private:
    """Made by the application. `users` gives users the pseudonyms under which `forgotten` knows them."""

    def __init__(self, redactor: Redactor, users: UserKey, forgotten: Forgotten) -> None:
        self._redactor = redactor
        self._users = users
        self._forgotten = forgotten

    def forgets(self, case: Case, received_at: float) -> bool:
        """Whether somebody has asked for this case, received at that wall-clock second, to be forgotten."""
        return self._forgotten.holds(case.request_id, self._users.of(case.user_id), received_at)

    def over(self, deliver: Deliver) -> Deliver:
        """The same way to a sink, for verdicts that did not come by way of `redact`: those of others."""
        if not self._redactor.enabled:
            return deliver

        async def masked(judged: Judged) -> None:
            await deliver(self._redactor.of_others(judged))

        return masked

    async def redact(self, case: Case) -> Redacted:
        """The case as local evaluators may see it, and as everybody else may."""
        if not self._redactor.enabled:
            return self._redactor.redact(case)
        return await anyio.to_thread.run_sync(partial(self._redactor.redact, case))
