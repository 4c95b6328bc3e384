"""The limits of the gRPC server: what `check` takes, the server can start with."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import ValidationError

from monitor.sources.otlp_grpc import OtlpGrpc
from tests.support.runtime import runtime

GIB = 1024**3
LARGEST: dict[str, Any] = {
    "max_concurrent_streams": 2**31 - 1,
    "max_connections": 2**31 - 2,
    "handshake_timeout": 2_147_483,
    "idle_timeout": 2_147_483,
    "max_body_bytes": 2 * GIB - 1,
}


@pytest.mark.anyio
async def test_the_server_starts_with_the_largest_of_all_limits() -> None:
    source = OtlpGrpc(port=0, max_in_flight_bytes=3 * GIB, **LARGEST)
    listening = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.run, None, runtime(), lambda _address: listening.set())
        await listening.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("option", LARGEST)
def test_a_limit_that_grpc_cannot_hold_is_refused_before_the_start(option: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){option}.*less than"):
        OtlpGrpc(max_in_flight_bytes=3 * GIB, **{option: LARGEST[option] + 1})
