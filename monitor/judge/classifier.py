"""Judges that are classifiers instead of language models: they score how well one text supports another.

`model: classifier/NAME` configures one: over HTTP if `api_base` is set, else in this process. It answers a `Prompt` of
two messages in the roles `premise` and `hypothesis`. The text of the reply is a JSON list with one object per class,
with its `label` and `score`, which the evaluator reads. Token counts are estimates.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.judge.api_key import ApiKey
from monitor.judge.provider import Loadable, ModelCall, Reply
from monitor.judge.retry import CallFault, classify
from monitor.judge.settings import CLASSIFIER, JudgeSettings
from monitor.judge.words import secrets_of
from monitor.model.outcome import UnscoredReason

HHEM: Final = "vectara/hallucination_evaluation_model"
# HHEM-2.1-Open comes with Python code that runs in this process: pin the commit that was reviewed.
_HHEM_COMMIT: Final = "8e4a2e6e96c708cc76c2344f7e4757df2515292c"
_LONGEST_REPLY: Final = 1024 * 1024  # bytes
# Characters of a pair in this process, about 5,000 tokens: attention memory grows with their square, gigabytes here.
LONGEST_PAIR: Final = 20_000
_TOO_LARGE: Final = 413
_LONGEST_WORDS: Final = 4000  # bytes of an error's body that are looked at


def open_classifier(settings: JudgeSettings, clock: Clock, key: ApiKey | None = None) -> Loadable:
    """Return the provider for a model named `classifier/...`."""
    return InProcess(settings) if settings.api_base is None else OverHTTP(settings, clock, key)


def check_classifier(settings: JudgeSettings, place: str) -> None:
    """Raise `ConfigError` if the classifier would run in this process and the packages for that are missing."""
    for package in ("transformers", "torch") if settings.api_base is None else ():
        if importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"{place}.model: {settings.model!r} without `api_base` runs in this process, and the package {package}"
                f" is missing: install rag-monitor[hhem], or set {place}.api_base to the address of a server"
            )


class OverHTTP:
    """A text-classification server: takes `{"inputs": [[premise, hypothesis]]}` and returns labels with scores."""

    label = "the client of the classifier"

    def __init__(self, settings: JudgeSettings, clock: Clock, key: ApiKey | None = None) -> None:
        self._address = settings.api_base or ""
        self._link_local = settings.allow_link_local
        self._timeout = settings.timeout
        self._key = key or ApiKey(settings)
        self._clock = clock
        self._http: Any = None

    def load(self) -> None:
        """Create the HTTP client."""
        import httpx  # noqa: PLC0415 - late, like everything that is slow to import

        from monitor.judge.reply_limit import limited  # noqa: PLC0415
        from monitor.transport.http.pinned import pinned  # noqa: PLC0415

        # The caller enforces the time limit. A redirect could send the texts anywhere.
        timeout = httpx.Timeout(None, connect=self._timeout)
        self._http = limited(
            pinned(httpx.AsyncClient(follow_redirects=False, timeout=timeout), lambda: self._link_local)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def complete(self, call: ModelCall) -> Reply:
        """Make one call, without retries. Raises `CallFault`, nothing else."""
        from monitor.judge.reply_limit import charging  # noqa: PLC0415 - as in `load`

        with charging():
            return await self._complete(call)

    async def _complete(self, call: ModelCall) -> Reply:
        body = {"inputs": [_pair(call.messages)]}
        headers = {"authorization": f"Bearer {self._key.current}"} if self._key.current else {}
        try:
            async with self._http.stream("POST", self._address, json=body, headers=headers) as response:
                raw = await _read(response)
        except CallFault:
            raise
        except Exception as error:  # noqa: BLE001 - the one call site of this client maps all its exceptions
            raise self._fault(error, call) from None
        if response.status_code == _TOO_LARGE:
            raise CallFault(UnscoredReason.TOO_LARGE, "longer than the classifier accepts (HTTP 413)")
        if not response.is_success:
            raise self._fault(_Refused(response, raw), call) from None
        try:
            scores = json.loads(raw)
        except (ValueError, RecursionError):
            scores = None
        if not isinstance(scores, list):
            message = "the classifier's reply is not a JSON list"
            raise CallFault(UnscoredReason.PROVIDER_ERROR, message, again=True, sick=True)
        return Reply(json.dumps(scores), "stop")

    def _fault(self, error: Exception, call: ModelCall) -> CallFault:
        sent = [str(message["content"]) for message in call.messages]
        return classify(error, self._clock.now(), secrets=secrets_of(os.environ, self._key.current), prompt=sent)


class InProcess:
    """A classifier run with transformers, one pair at a time. A pair cannot be interrupted."""

    label = "the classifier"

    def __init__(self, settings: JudgeSettings) -> None:
        self._name = (settings.model or "").removeprefix(CLASSIFIER)
        self._model: Any = None
        self._one = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Import torch and load the weights, from the Hugging Face Hub if they are not on disk. Call from a thread."""
        transformers = importlib.import_module("transformers")
        if self._name == HHEM:
            self._model = transformers.AutoModelForSequenceClassification.from_pretrained(
                HHEM, revision=_HHEM_COMMIT, code_revision=_HHEM_COMMIT, trust_remote_code=True
            )
        else:
            self._model = transformers.pipeline("text-classification", model=self._name, top_k=None)

    async def aclose(self) -> None:
        """Release the model."""
        self._model = None

    async def complete(self, call: ModelCall) -> Reply:
        """Score one pair. Raises `CallFault`, nothing else."""
        pair = _pair(call.messages)
        length = sum(map(len, pair))
        if length > LONGEST_PAIR:
            message = f"{length} characters; a classifier in this process accepts {LONGEST_PAIR}"
            raise CallFault(UnscoredReason.TOO_LARGE, message)
        try:
            scores = await anyio.to_thread.run_sync(self._scores, *pair, limiter=self._one)
        except Exception as error:  # noqa: BLE001 - torch raises anything, such as RuntimeError when memory runs out
            message = f"the classifier failed ({type(error).__name__})"
            raise CallFault(UnscoredReason.PROVIDER_ERROR, message, sick=True) from None
        return Reply(json.dumps(scores), "stop")

    def _scores(self, premise: str, hypothesis: str) -> list[dict[str, Any]]:
        if self._name == HHEM:  # its own method wraps the pair in its own prompt
            consistent = float(self._model.predict([(premise, hypothesis)])[0])
            return [{"label": "consistent", "score": consistent}]
        found = self._model({"text": premise, "text_pair": hypothesis})
        if found and isinstance(found[0], list):  # some versions nest the list
            (found,) = found
        return [{"label": str(one["label"]), "score": float(one["score"])} for one in found]


class _Refused(Exception):  # noqa: N818 - a response, in the form that `classify` reads
    """An HTTP response with a status that is not a success."""

    def __init__(self, response: Any, body: bytes) -> None:
        super().__init__(body[:_LONGEST_WORDS].decode("utf-8", "replace"))
        self.status_code = int(response.status_code)
        self.litellm_response_headers = dict(response.headers)


def _pair(messages: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    if [one["role"] for one in messages] != ["premise", "hypothesis"]:
        raise CallFault(UnscoredReason.PROVIDER_ERROR, "a classifier scores pairs of texts and cannot answer questions")
    return messages[0]["content"], messages[1]["content"]


async def _read(response: Any) -> bytes:
    """Read the body, up to a limit far above any list of scores."""
    raw = bytearray()
    async for chunk in response.aiter_bytes():
        raw += chunk
        if len(raw) > _LONGEST_REPLY:
            message = "the classifier's reply is longer than any list of scores"
            raise CallFault(UnscoredReason.PROVIDER_ERROR, message, sick=True)
    return bytes(raw)
