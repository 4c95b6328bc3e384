"""Wrap the SDK's OTLP exporters: report why an export failed, and fail if the receiver rejected a part.

By themselves, the exporters return a failure without a reason, treat a redirect as success, and ignore the receiver's
report of rejected items.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import anyio

from monitor.clock import SystemClock
from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.transport.http.client import RefusedAddressError, checked_addresses, checked_connections, retry_after

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

Signal: TypeAlias = Literal["traces", "logs"]
Item: TypeAlias = "ReadableSpan | ReadableLogRecord"

_GRACE: Final = 1.0  # seconds beyond its own limit before an exporter is given up
_LONGEST: Final = 200  # characters of a receiver's message
_OK, _REDIRECT, _WRONG = 200, 300, 400
_CONTENT_IS_WRONG: Final = frozenset({400, 413, 422})
_TRY_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_TRY_AGAIN_GRPC: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED", "DATA_LOSS"})
_MAY_PASS_GRPC: Final = _TRY_AGAIN_GRPC | {"RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN"}
_GRPC_PORT: Final = 443
_GRPC_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_TOO_LARGE: Final = "larger than max"  # reported by gRPC itself; RESOURCE_EXHAUSTED can also mean a spent quota


class _Names(NamedTuple):
    """The names of a signal: the exporters' module and class, the responses' package and name, the items counted."""

    exporters: str
    exporter: str
    answers: str
    answer: str
    counted: str


_NAMES: Final = {
    "traces": _Names("trace_exporter", "OTLPSpanExporter", "trace", "ExportTraceServiceResponse", "rejected_spans"),
    "logs": _Names("_log_exporter", "OTLPLogExporter", "logs", "ExportLogsServiceResponse", "rejected_log_records"),
}


class Target(NamedTuple):
    """The address and options for sending. `timeout` limits one export, in seconds, including all attempts."""

    endpoint: str
    protocol: Literal["grpc", "http"]
    headers: Mapping[str, str]
    timeout: float
    gzip: bool
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class PartlyRejected(MonitorError):  # noqa: N818 - named after the fault, so that the caller's `except` reads well
    """The receiver has rejected `number` items of a batch, without naming them. It must not be sent again."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class Exporter:
    """One connection for one signal. Blocks. Use from one thread at a time: reconnecting closes the old connection."""

    def __init__(self, target: Target, signal: Signal = "logs") -> None:
        # The exporters' log lines are replaced by exceptions here, raised once and with a reason.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL + 1)
        self._watch = _Watch()
        make = _grpc if target.protocol == "grpc" else _http
        self._sdk = make(target, signal, self._watch)

    def export(self, batch: Sequence[Item]) -> None:
        """Return when the receiver has accepted all of `batch`.

        Raises `InvalidData` if it rejects the content, `Overloaded` if it is unreachable or cannot accept it now,
        `PartlyRejected` if it rejects a part, and another `MonitorError` if it rejects us.
        """
        self._watch.last = Overloaded("no answer in time")
        with checked_connections():
            done = self._sdk.export(batch)
        if done.name != "SUCCESS":
            raise self._watch.last

    def close(self) -> None:
        """End a running export before its next attempt."""
        self._sdk.shutdown()


class OtlpSender:
    """An `Exporter` for the event loop, which enforces its time limit. One `send` at a time.

    The first one of a process blocks for about 0.2 s when it is created.
    """

    def __init__(self, target: Target, signal: Signal = "logs") -> None:
        self._target = target
        self._signal: Signal = signal
        self._exporter = Exporter(target, signal)

    async def send(self, batch: Sequence[Item]) -> None:
        """Export as `Exporter.export` does, within its time limit plus one second."""
        try:
            with anyio.fail_after(self._target.timeout + _GRACE):
                await run(partial(self._exporter.export, batch))
        except TimeoutError:
            self._exporter.close()
            self._exporter = Exporter(self._target, self._signal)  # the old one's thread may still be busy
            raise Overloaded(f"no answer within {self._target.timeout:g} s") from None

    def close(self) -> None:
        """End a running export before its next attempt."""
        self._exporter.close()


async def run(export: Callable[[], None]) -> None:
    """Run `export` in a thread that delays neither a cancellation nor the exit of the process.

    The HTTP exporter's limit applies to each read, so a response that trickles in would have no limit.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)

    def work() -> None:
        error: Exception | None = None
        try:
            export()
        except Exception as raised:  # noqa: BLE001 - re-raised in the coroutine that waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=work, name="otlp_export", daemon=True).start()
    await done


class _Watch:
    """Inspects each response. `last` is the reason if the current export fails."""

    def __init__(self) -> None:
        self.last: MonitorError = Overloaded("")

    def fault(self, kind: str, why: str, *, content: bool, again: bool, wait: float = 1.0) -> None:
        message = f"{kind}: {_printable(why)}" if why else kind
        if again and not content:
            self.last = Overloaded(message, retry_after=wait)
        else:
            self.last = InvalidData(message) if content else MonitorError(message)

    def rejected(self, number: int, why: str) -> None:
        self.last = PartlyRejected(f"{number} of the batch rejected: {_printable(why)}", number)


def _exporter_class(protocol: str, signal: Signal) -> Any:
    """Import the SDK's exporter class. It is slow to import, and few monitors send anything."""
    names = _NAMES[signal]
    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{protocol}.{names.exporters}")
    return getattr(module, names.exporter)


def _grpc_targets(addresses: Sequence[str], port: int) -> tuple[str, ...]:
    """Format IP addresses for gRPC: one target for each address family, since a target cannot mix families."""
    families: dict[str, list[str]] = {}
    for one in addresses:
        family, host = ("ipv6", f"[{one}]") if ":" in one else ("ipv4", one)
        families.setdefault(family, []).append(f"{host}:{port}")
    return tuple(f"{family}:{','.join(hosts)}" for family, hosts in families.items())


def _grpc(target: Target, signal: Signal, watch: _Watch) -> Any:
    import grpc  # noqa: PLC0415 - slow to import, as above

    counted, to = _NAMES[signal].counted, urlsplit(target.endpoint)

    class Stub:
        def __init__(self, client: Any) -> None:
            self._client = client

        def Export(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 - the name of the call in OTLP
            try:
                answer = self._client.Export(*args, **kwargs)
            except grpc.RpcError as error:
                code, why = error.code().name, error.details() or ""
                too_large = code == "RESOURCE_EXHAUSTED" and _TOO_LARGE in why
                content = code == "INVALID_ARGUMENT" or too_large
                again = code in _MAY_PASS_GRPC
                watch.fault(code, why, content=content, again=again, wait=_retry_info(error.trailing_metadata()))
                raise
            part = answer.partial_success
            rejected = getattr(part, counted)
            if rejected:
                watch.rejected(rejected, part.error_message)
                raise watch.last
            return answer

    class Watched(_exporter_class("grpc", signal)):  # type: ignore[misc] # the class is known only at run time
        _client: Any
        _channel: Any
        _addresses: frozenset[str] = frozenset()
        _targets: tuple[str, ...] = (to.netloc,)
        _turn = 0

        def _initialize_channel_and_stub(self) -> None:  # the SDK's own name; called to connect and to reconnect
            self._endpoint = self._targets[self._turn % len(self._targets)]
            self._turn += 1
            super()._initialize_channel_and_stub()
            self._client = Stub(self._client)

        def export(self, batch: Sequence[Item]) -> Any:
            """Connect to exactly the addresses that were checked, and export: gRPC would resolve the name again.

            Through a proxy, the proxy resolves the name.
            """
            try:
                addresses = checked_addresses(to.hostname or "")
            except RefusedAddressError as error:
                watch.fault("not sent", str(error), content=False, again=True)
                raise watch.last from None
            proxied = any(os.environ.get(one) for one in _GRPC_PROXIES)
            if addresses and not proxied and self._addresses != frozenset(addresses):
                self._channel.close()  # it was made with the name or with old addresses
                self._addresses, self._turn = frozenset(addresses), 0
                self._targets = _grpc_targets(addresses, to.port or _GRPC_PORT)
                self._initialize_channel_and_stub()
            return super().export(batch)

    files = {"ca_file": target.ca_file, "cert_file": target.cert_file, "key_file": target.key_file}
    read = {name: path.read_bytes() if path else None for name, path in files.items()}
    tls = grpc.ssl_channel_credentials(read["ca_file"], read["key_file"], read["cert_file"])
    return Watched(
        endpoint=target.endpoint,
        insecure=target.endpoint.startswith("http://"),
        credentials=tls if any(read.values()) else None,
        headers=tuple((name.lower(), value) for name, value in target.headers.items()) or None,
        timeout=target.timeout,
        retryable_error_codes=[grpc.StatusCode[name] for name in _TRY_AGAIN_GRPC],
        compression=grpc.Compression.Gzip if target.gzip else grpc.Compression.NoCompression,
        channel_options=(
            ("grpc.default_authority", to.netloc),
        ),  # the host name, also for TLS, although the connection goes to an address
    )


def _retry_info(metadata: Sequence[tuple[str, Any]] | None) -> float:
    """Return the seconds that a gRPC receiver asks to wait for; 0 where it names none."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - loaded with the exporter
    from google.rpc import error_details_pb2, status_pb2  # noqa: PLC0415 - as above

    info = error_details_pb2.RetryInfo()
    for key, value in metadata or ():
        with contextlib.suppress(DecodeError, TypeError):
            if key == "google.rpc.retryinfo-bin":
                info.ParseFromString(value)
            elif key == "grpc-status-details-bin":
                any(one.Unpack(info) for one in status_pb2.Status.FromString(value).details)
    return max(0.0, float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9))


def _http(target: Target, signal: Signal, watch: _Watch) -> Any:
    import requests  # noqa: PLC0415 - as above
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415

    class Watching(requests.Session):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            """Send and check the response: raising anything but a failed connection ends the export without a retry."""
            if self.verify is not True:
                kwargs["verify"] = self.verify  # set here, it overrides the variable REQUESTS_CA_BUNDLE
            try:
                answer = super().request(*args, **kwargs)
            except requests.RequestException as error:
                watch.fault(type(error).__name__, "", content=False, again=True)
                raise
            status = answer.status_code
            kind = f"answered {status}"
            wait = retry_after(answer.headers.get("retry-after", "").strip(), SystemClock().now())
            watch.fault(kind, "", content=status in _CONTENT_IS_WRONG, again=status in _TRY_AGAIN, wait=wait)
            if _REDIRECT <= status < _WRONG:
                raise requests.RequestException(kind)
            content_type = answer.headers.get("content-type", "")
            if _OK <= status < _REDIRECT and _partly(content_type, answer.content, signal, watch):
                raise requests.RequestException("not taken")
            return answer

    path = f"/v1/{signal}"
    return _exporter_class("http", signal)(
        endpoint=target.endpoint if target.endpoint.endswith(path) else target.endpoint + path,
        certificate_file=str(target.ca_file) if target.ca_file else None,
        client_certificate_file=str(target.cert_file) if target.cert_file else None,
        client_key_file=str(target.key_file) if target.key_file else None,
        headers=target.headers,
        timeout=target.timeout,
        compression=Compression.Gzip if target.gzip else Compression.NoCompression,
        session=Watching(),
    )


def _partly(kind: str, content: bytes, signal: Signal, watch: _Watch) -> bool:
    """Check a response with a success status for rejected items, or for not being OTLP at all."""
    from google.protobuf import json_format  # noqa: PLC0415 - loaded with the exporter
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    names = _NAMES[signal]
    answer = getattr(
        importlib.import_module(f"opentelemetry.proto.collector.{names.answers}.v1.{names.answers}_service_pb2"),
        names.answer,
    )()
    try:
        if "json" in kind:
            json_format.Parse(content, answer, ignore_unknown_fields=True)
        else:
            answer.ParseFromString(content)
    except (DecodeError, json_format.ParseError):
        if "html" in kind:  # a web page: this is not an OTLP receiver
            watch.fault(
                "answered with a web page", "is this the address of an OTLP receiver?", content=False, again=False
            )
            return True
        return False
    rejected = getattr(answer.partial_success, names.counted)
    if rejected:
        watch.rejected(rejected, answer.partial_success.error_message)
    return bool(rejected)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text[:_LONGEST])
