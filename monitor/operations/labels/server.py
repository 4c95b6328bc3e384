"""Base of the servers that people label on: address, headers, and the meaning of responses.

The address and key are those of the configured sink. Redirects are not followed: keys go only where the configuration
says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from monitor import __version__
from monitor.errors import ConfigError, MonitorError
from monitor.model.label import Label
from monitor.operations.labels.reading import LabelFile, ReadLabel, VerdictWords
from monitor.storage.history.rows import dump, load
from monitor.transport.http.client import checked_connections

if TYPE_CHECKING:
    import httpx

OURS: Final = "rag-monitor"
"""Marks labels that were sent from here, so that they are not read back as labels of another tool."""

_MOST_BYTES: Final = 16 * 1024 * 1024
PAGES_AT_MOST: Final = 1_000
NOT_THERE: Final = 404


@dataclass(frozen=True, slots=True)
class ResultRef:
    """A judged answer of the history; a server's annotations are matched with it."""

    id: str
    request_id: str
    trace_id: str
    span_id: str
    evaluator: str


@dataclass(slots=True)
class SentLabels:
    """What was sent: numbers of `labels` and `queued` cases, of those without a trace there, and refusals."""

    labels: int = 0
    queued: int = 0
    without_trace: int = 0
    problems: list[str] = field(default_factory=list)


class LabelServer(AbstractContextManager["LabelServer"]):
    """A server that people label on, used as a context manager. Every call may raise `MonitorError` naming the server.

    `name` is the name of the annotations there; empty: the evaluator's.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, verify: Any, timeout: float, name: str = "") -> None:
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most commands send nothing

        sent = {"user-agent": f"{OURS}/{__version__}", **headers}
        if not all(value.isascii() and value.isprintable() for value in sent.values()):
            raise ConfigError("a key must be plain ASCII, without line breaks")
        self._client: httpx.Client = httpx.Client(headers=sent, verify=verify, timeout=timeout, trust_env=False)
        self._url, self._name = url, name
        self.where = urlsplit(url).netloc

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @abstractmethod
    def pull(self, results: Sequence[ResultRef], words: VerdictWords) -> LabelFile:
        """Read people's labels of these results."""

    @abstractmethod
    def push(self, labels: Sequence[Label], results: Mapping[str, ResultRef]) -> SentLabels:
        """Write labels to the traces of their results, which are given by id. A repeat replaces them."""

    def annotation(self, evaluator: str) -> str:
        """Return the name of the annotations about an evaluator."""
        return self._name or evaluator

    def call(self, method: str, path: str, body: Any = None, *, also: int = 0) -> Any:
        """Call the API; return the JSON of the response, or None if its status is `also`. Raises `MonitorError`."""
        import httpx  # noqa: PLC0415 - loaded already

        content = dump(body) if body is not None else None
        kind = {"content-type": "application/json"} if content is not None else {}
        got = bytearray()
        try:
            with (
                checked_connections(),
                self._client.stream(method, self._url + path, content=content, headers=kind) as answer,
            ):
                for chunk in answer.iter_bytes():
                    got += chunk
                    if len(got) > _MOST_BYTES:
                        raise MonitorError(f"{self.where}: the response is larger than {_MOST_BYTES:,} bytes")
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise MonitorError(f"{self.where}: {type(error).__name__}: {error}") from None
        if also and answer.status_code == also:
            return None
        if not answer.is_success:
            raise MonitorError(f"{self.where} answered {answer.status_code} to {method} {path.partition('?')[0]}")
        try:
            return load(bytes(got) or b"null")
        except ValueError:
            raise MonitorError(f"{self.where} did not answer in JSON: is `url` the address of its API?") from None


class Annotations:
    """Collects annotations, and the problems of unreadable ones."""

    def __init__(self, words: VerdictWords) -> None:
        self._words = words
        self.labels: list[ReadLabel] = []
        self.problems: list[str] = []

    def add(self, place: str, value: Any, **about: Any) -> None:
        """Read an annotation at `place`; `about` are fields of `ReadLabel`."""
        try:
            self.labels.append(ReadLabel(place=place, verdict=self._words.read(value), **about))
        except ValueError as error:
            self.problems.append(f"{place}: value {error}")

    def file(self) -> LabelFile:
        """Return what was read."""
        return LabelFile(self.labels, 0, self.problems)


def an_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; an empty list for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def a_string(value: Any) -> str:
    """Return a text or a whole number as text; empty for anything else."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
