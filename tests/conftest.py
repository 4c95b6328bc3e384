from __future__ import annotations

import pytest
from hypothesis import settings

# Two busy cores are no place for deadlines; examples found on one machine are written down as tests, not kept.
settings.register_profile("project", deadline=None, database=None)
settings.load_profile("project")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
