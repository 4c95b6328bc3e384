from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest

from monitor.jobs import own_process, topics


@pytest.fixture(autouse=True)
def _reports_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports in a thread: what pages show does not depend on the process, and starting one takes half a second.

    `tests/unit/jobs/test_reports.py` holds that a process says the same.
    """

    async def here(work: Callable[..., Any], *given: object, name: str, longest: float) -> Any:
        sent, values = pickle.loads(pickle.dumps((work, given)))
        return await anyio.to_thread.run_sync(lambda: sent(*values))

    monkeypatch.setattr(own_process, "in_own_process", here)
    monkeypatch.setattr(topics, "in_own_process", here)
