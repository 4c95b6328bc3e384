"""Base class of the sinks that write to another product's HTTP API: address, headers, and handling of answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import anyio
from pydantic import Field, model_validator

from monitor import __version__
from monitor.clock import Clock
from monitor.errors import ConfigError, InvalidData, MonitorError, Overloaded
from monitor.model.outcome import EvaluationResult
from monitor.quantities import Duration
from monitor.stages import Deliver, Runtime, Sink, type_name
from monitor.storage.history.rows import dump, load
from monitor.transport.http.client import Address, ClientTls, retry_after

if TYPE_CHECKING:
    import httpx

_MOST_OF_AN_ANSWER: Final = 1024 * 1024  # bytes
_TRY_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_IS_WRONG: Final = frozenset({400, 409, 413, 422})


class HttpSink(Sink):
    """A sink that writes to an HTTP API. It follows no redirects: keys are sent only to the configured server."""

    url: Address
    """URL of the server, with the API's path, if any."""

    timeout: Annotated[Duration, Field(gt=0, le=60)] = 5.0
    """Time limit of one attempt to deliver a batch; at most `60s`."""

    include_explanations: bool = True
    """Whether to send explanations. They may quote question, context and answer."""

    tls: ClientTls | None = None
    """TLS options for an `https://` server with a private CA."""

    at_once: ClassVar[int] = 1
    in_flight: ClassVar[int] = 8

    @model_validator(mode="after")
    def _tls_is_used(self) -> Self:
        if self.tls is not None and not self.url.startswith("https://"):
            raise ValueError("`tls` needs a `url` that begins with https://")
        return self

    def external_copies(self) -> str:
        """Name the server."""
        return f"{type_name(self)} {self.url}"

    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate this process."""

    @abstractmethod
    async def write(self, api: Api, results: Sequence[EvaluationResult]) -> None:
        """Write up to `at_once` results, idempotently. Raises as `Sink.deliver` does."""

    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        """Open the client. Raises `ConfigError` for an unusable file; delivering raises `MonitorError` on failure."""
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most monitors write to Prometheus only

        from monitor.transport.http.pinned import pinned  # noqa: PLC0415

        name = type_name(self)
        try:
            verify = self.tls.context() if self.tls is not None else True
        except ConfigError as error:
            raise ConfigError(f"tls: {error}") from None
        headers = {"user-agent": f"rag-monitor/{__version__}", **self.headers()}
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ConfigError("a key must be plain ASCII, without line breaks")
        async with pinned(httpx.AsyncClient(headers=headers, timeout=self.timeout, verify=verify)) as client:
            api = Api(client, self.url, runtime.clock, name=name)

            async def deliver(results: Sequence[EvaluationResult]) -> None:
                try:
                    with anyio.fail_after(self.timeout):
                        await self.write(api, results)
                except TimeoutError:
                    why = api.trouble or "no response"
                    raise Overloaded(f"{name}: not delivered within {self.timeout:g} s: {why}") from None

            yield deliver


@dataclass(frozen=True, slots=True)
class SinkResponse:
    """The answer of the server: 2xx with JSON or without content, or one of the accepted statuses."""

    status: int
    text: str


class Api:
    """The server at `url`.

    `trouble` is why the last attempt failed, without secrets and content.
    """

    def __init__(self, client: httpx.AsyncClient, url: str, clock: Clock, *, name: str) -> None:
        self._client = client
        self._url = url
        self.where = urlsplit(url).netloc
        self._clock = clock
        self._name = name
        self.trouble = ""

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, also: Collection[int] = ()
    ) -> SinkResponse:
        """Call the API once; the answer is 2xx or one of `also`.

        Raises `InvalidData` if the server refuses the content, `Overloaded` if a later attempt may succeed, and
        `MonitorError` if the server refuses this client: a wrong key, a wrong address, a redirect.
        """
        import httpx  # noqa: PLC0415 - loaded already, by the caller that made the client

        content = dump(dict(body)) if body is not None else None
        kind = {"content-type": "application/json"} if content is not None else {}
        try:
            async with self._client.stream(method, self._url + path, content=content, headers=kind) as got:
                text = await _read(got)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            self.trouble = f"{self.where}: {type(error).__name__}: {error}"
            raise Overloaded(f"{self._name}: {self.trouble}") from None
        self.trouble = f"{self.where} answered {got.status_code}"
        if got.is_success and not _is_json(text):
            raise MonitorError(f"{self._name}: {self.trouble}, but not in JSON: is `url` the address of its API?")
        if not got.is_success and got.status_code not in also:
            if got.status_code in _TRY_AGAIN:
                wait = retry_after(got.headers.get("retry-after", "").strip(), self._clock.now())
                raise Overloaded(f"{self._name}: {self.trouble}", retry_after=wait)
            kind_of_fault = InvalidData if got.status_code in _CONTENT_IS_WRONG else MonitorError
            raise kind_of_fault(f"{self._name}: {self.trouble}")
        self.trouble = ""
        return SinkResponse(got.status_code, text)


async def _read(answer: httpx.Response) -> str:
    content = bytearray()
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > _MOST_OF_AN_ANSWER:
            break
    return content.decode("utf-8", "replace")


def _is_json(text: str) -> bool:
    try:
        load(text.encode() or b"null")
    except ValueError:
        return False
    return True
