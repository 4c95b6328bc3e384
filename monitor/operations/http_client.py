"""A small blocking HTTP client for operations: it goes directly to one server, and bounds time and size."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from monitor.errors import ConfigError, MonitorError
from monitor.transport.http.client import ClientTls


class FetchedResponse(NamedTuple):
    """An HTTP response: its status, its headers, and as much of its body as was allowed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text; what is not UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")


class HttpClient:
    """Sends requests to one server, through no proxy and without what `.netrc` holds. One connection a request.

    Args:
        url: the address that paths are appended to, without a trailing slash.
        token: sent as `Authorization: Bearer TOKEN`, to this server only.
        ca_file: certificates of the authorities that sign the server's, PEM; the system's unless given.
        timeout: seconds to connect, and seconds between two parts of the response.
        max_bytes: where the body is cut.
        follow_redirects: whether a redirect is followed. The token does not go along to another server.

    Raises:
        ConfigError: `ca_file` cannot be read, or `url` is not https.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ca_file: Path | None = None,
        timeout: float = 5.0,
        max_bytes: int = 64 * 1024 * 1024,
        follow_redirects: bool = False,
    ) -> None:
        secure = urlsplit(url).scheme == "https"
        if ca_file is not None and not secure:
            raise ConfigError("needs an address that begins with https://")
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ClientTls(ca_file=ca_file).context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._follow_redirects = follow_redirects

    def get(self, path: str) -> FetchedResponse:
        """Send a GET request. Raises `MonitorError` that says why there is no response."""
        return self._send("GET", path)

    def post(self, path: str, form: Mapping[str, str]) -> FetchedResponse:
        """Send a POST request with a form. Raises `MonitorError` that says why there is no response."""
        return self._send("POST", path, form)

    def _send(self, method: str, path: str, form: Mapping[str, str] | None = None) -> FetchedResponse:
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most commands send nothing

        body = bytearray()
        try:
            with (
                httpx.Client(
                    verify=self._tls,
                    trust_env=False,
                    timeout=self._timeout,
                    follow_redirects=self._follow_redirects,
                ) as client,
                client.stream(method, self.url + path, data=form, headers=self._headers) as response,
            ):
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) >= self._max_bytes:
                        break
        except httpx.TimeoutException:
            raise MonitorError(f"no response within {self._timeout:g} s") from None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise MonitorError(_reason(error)) from None
        return FetchedResponse(response.status_code, response.headers, bytes(body[: self._max_bytes]))


def _reason(error: BaseException) -> str:
    """What the operating system said, where that is the cause; else what the library says."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
