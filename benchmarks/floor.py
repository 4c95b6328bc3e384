"""The floor under the cost of receiving: a bare server that takes the same bytes and throws them away.

    python -m benchmarks.floor http|json|grpc PORT

`http`: an asyncio protocol on uvloop finds the end of the body, inflates it with isal, cuts it into spans with the
protobuf parser, and answers 200. `json`: the same with orjson in place of protobuf. `grpc`: a handler of grpc.aio for
raw bytes that inflates with isal, too (gRPC's own way takes longer), and cuts them. Nothing is bounded, authenticated,
sampled, counted or stored.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import orjson
import uvloop
from isal import isal_zlib

from monitor.transport.otlp import wire

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"


class _Bare(asyncio.Protocol):
    def __init__(self, *, as_json: bool) -> None:
        self._read = orjson.loads if as_json else wire.split
        self._pieces: list[bytes] = []
        self._missing = -1
        self._compressed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            head, _, data = data.partition(b"\r\n\r\n")
            self._compressed = b"Content-Encoding: gzip" in head
            self._missing = int(head[head.index(b"Content-Length: ") + 16 :].split(b"\r\n", 1)[0])
        self._pieces.append(data)
        self._missing -= len(data)
        if self._missing == 0:
            body = b"".join(self._pieces)
            self._read(isal_zlib.decompress(body, 31) if self._compressed else body)
            self._pieces.clear()
            self._missing = -1
            self._transport.write(_ANSWER)


class _BareExport(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc is not typed
    def service(self, _call: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._export)

    async def _export(self, message: bytes, _context: Any) -> bytes:
        wire.split(isal_zlib.decompress(message, 31) if message.startswith(b"\x1f\x8b") else message)
        return b""


async def _serve(kind: str, port: int) -> None:
    if kind == "grpc":
        options = [("grpc.max_receive_message_length", -1), ("grpc.per_message_decompression", 0)]
        server = grpc.aio.server(handlers=[_BareExport()], options=options)
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: _Bare(as_json=kind == "json"), "127.0.0.1", port) as listener:
        await listener.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2])))
