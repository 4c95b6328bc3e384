from __future__ import annotations

import pytest

from tests.support.virtual_time import VirtualTimeLoop


@pytest.fixture
def anyio_backend():
    return ("asyncio", {"loop_factory": VirtualTimeLoop})
