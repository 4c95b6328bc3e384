"""The only place that calls litellm: imported late, without its retries, callbacks and logs; exceptions are mapped."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import logging
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.clock import Clock
from monitor.judge.api_key import ApiKey
from monitor.judge.provider import ModelCall, Reply
from monitor.judge.retry import CallFault, classify
from monitor.judge.settings import JudgeSettings
from monitor.judge.words import own_words, secrets_of
from monitor.model.outcome import UnscoredReason

_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_CALLBACKS = (
    "callbacks",
    "input_callback",
    "success_callback",
    "failure_callback",
    "service_callback",
    "_async_success_callback",
    "_async_failure_callback",
    "_async_input_callback",
)

_MOST_TOKENS = 10**9  # a count beyond this, or below zero, is an error of the provider: the estimate is charged instead

# Once per process, before any other call: the session of the warm-up would answer calls made at the same time.
_warming = threading.Lock()
_warmed: list[bool] = []

# Clients that litellm makes for itself and never closes, and the `LiteLLM` instances that may still use them.
_own_clients: weakref.WeakSet[Any] = weakref.WeakSet()
_users: set[LiteLLM] = set()


class LiteLLM:
    """Any provider that litellm knows."""

    label = "litellm"

    def __init__(self, settings: JudgeSettings, clock: Clock, key: ApiKey | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._key = key or ApiKey(settings)
        self._litellm: Any = None
        self._http: Any = None
        self._closed = False

    def load(self) -> None:
        """Import litellm and run it once. Takes seconds of processor time and about 190 MB. Call from a thread."""
        import httpx  # noqa: PLC0415 - late, like litellm

        from monitor.judge.reply_limit import limited  # noqa: PLC0415
        from monitor.transport.http.pinned import pinned  # noqa: PLC0415

        litellm = _imported()
        if self._closed:
            return  # the process is about to exit
        for name in _CALLBACKS:
            setattr(litellm, name, [])
        litellm.suppress_debug_info = True  # it prints to the terminal
        litellm.turn_off_message_logging = True
        litellm.num_retries = 0
        litellm.disable_aiohttp_transport = True  # its sessions cannot be closed in order
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # its messages contain prompts and providers' texts
        # Our own client: litellm's follows redirects, which could send the prompt anywhere.
        made = httpx.AsyncClient(
            follow_redirects=False,
            timeout=self._settings.timeout,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._settings.max_concurrency),
        )
        self._http = limited(pinned(made, lambda: self._settings.allow_link_local))
        with _warming:
            if not _warmed:
                _bound_own_client()
                _without_bookkeeping()
                asyncio.run(_warm(litellm))
                if gc.get_freeze_count():  # as `rag-monitor run` does at startup: litellm's many objects also stay
                    gc.freeze()
                _warmed.append(True)
        self._litellm = litellm
        _users.add(self)

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        _users.discard(self)
        for client in [] if _users else list(_own_clients):
            await client.aclose()  # litellm opens it again for the next call
        if self._litellm is not None and self._litellm.aclient_session is self._http:
            self._litellm.aclient_session = None
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # its clients hold the session that is closed below
        if self._http is not None:
            await self._http.aclose()

    async def complete(self, call: ModelCall) -> Reply:
        """Make one call, without retries. Raises `CallFault`, nothing else."""
        from monitor.judge.reply_limit import charging  # noqa: PLC0415 - loaded with litellm

        with charging():
            return await self._complete(call)

    async def _complete(self, call: ModelCall) -> Reply:
        chosen = self._settings
        options: dict[str, Any] = {
            "temperature": chosen.temperature if call.temperature is None else call.temperature,
            "seed": chosen.seed,
            "api_base": chosen.api_base,
            "api_key": self._key.current,
            "response_format": call.response_format,
            "logprobs": call.logprobs or None,
        }
        self._litellm.aclient_session = self._http
        try:
            completion = await self._litellm.acompletion(
                model=chosen.model,
                messages=list(call.messages),
                max_tokens=call.max_tokens,
                timeout=chosen.timeout,
                num_retries=0,
                max_retries=0,
                drop_params=True,  # leave out the temperature for models that take none
                **{name: value for name, value in options.items() if value is not None},
            )
            return _reply(completion)
        except CallFault:
            raise
        except Exception as error:  # noqa: BLE001 - litellm also raises plain IndexError and the like
            from monitor.judge.reply_limit import too_long  # noqa: PLC0415 - loaded with litellm

            if (fault := too_long(error)) is not None:
                raise fault from None
            # Drop the cause: its text may contain the key or the prompt.
            hidden = secrets_of(os.environ, self._key.current)
            sent = [str(message.get("content") or "") for message in call.messages if message.get("role") != "system"]
            raise classify(error, self._clock.now(), secrets=hidden, prompt=sent) from None


def _imported() -> Any:
    # Keeps the import from fetching a price list and from reading a `.env` file in a folder above.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    import litellm  # noqa: PLC0415 - takes seconds

    return litellm


def _bound_own_client() -> None:
    """Make litellm's own client, used for most providers, refuse redirects, limit replies and check addresses too."""
    from monitor.judge.reply_limit import limited  # noqa: PLC0415 - late, like litellm
    from monitor.transport.http.pinned import pinned  # noqa: PLC0415

    handler = importlib.import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
    handler.__init__ = functools.partialmethod(handler.__init__, follow_redirects=False)
    create_client = handler.create_client

    def create_limited(*args: Any, **options: Any) -> Any:
        made = limited(pinned(create_client(*args, **options), _any_link_local))
        _own_clients.add(made)
        return made

    handler.create_client = create_limited


def _without_bookkeeping() -> None:
    """Keep litellm from preparing a log entry of each call for callbacks that are off, which takes a millisecond."""
    utils: Any = importlib.import_module("litellm.utils")
    if hasattr(utils, "_dispatch_success_logging"):  # a private function; without it calls only take longer
        utils._dispatch_success_logging = lambda **_: None  # noqa: SLF001 - it has no option for this


def _any_link_local() -> bool:
    return any(one._settings.allow_link_local for one in _users)  # noqa: SLF001 - of this class's own instances


def provider_fault(model: str, api_base: str | None) -> str:
    """Return, in litellm's words, why it cannot tell the model's provider; empty if it can. Imports litellm."""
    litellm = _imported()
    litellm.suppress_debug_info = True  # it prints to the terminal
    try:
        litellm.get_llm_provider(model=model, api_base=api_base)
    except Exception as error:  # noqa: BLE001 - as for a call
        return own_words(error) or type(error).__name__
    return ""


def takes(model: str) -> frozenset[str]:
    """Return the options (in OpenAI's terms) that litellm passes on to this model. Imports litellm."""
    litellm = _imported()
    try:
        return frozenset(litellm.get_supported_openai_params(model=model) or ())
    except Exception:  # noqa: BLE001 - litellm does not know the provider
        return frozenset()


def count_tokens(model: str, messages: Sequence[Mapping[str, str]]) -> int | None:
    """Count the tokens of a prompt with litellm; None if it cannot for this model. Downloads nothing."""
    litellm = _imported()
    litellm.disable_hf_tokenizer_download = True
    try:
        return int(litellm.token_counter(model=model, messages=list(messages))) or None
    except Exception:  # noqa: BLE001 - the caller then estimates
        return None


async def _warm(litellm: Any) -> None:
    """Make one call inside the process: litellm's first call spends most of a second on imports, blocking the loop."""
    import httpx  # noqa: PLC0415 - as above

    answer = {
        "id": "",
        "object": "chat.completion",
        "created": 0,
        "model": "",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=answer))
    async with httpx.AsyncClient(transport=transport) as session:
        litellm.aclient_session = session
        try:
            await litellm.acompletion(
                model="openai/warm-up",
                messages=[{"role": "user", "content": ""}],
                api_key="none",
                api_base="http://127.0.0.1:9/v1",
                max_retries=0,
                max_tokens=1,
                drop_params=True,
                response_format={"type": "json_schema", "json_schema": {"name": "warm", "schema": {"type": "object"}}},
            )
        finally:
            litellm.aclient_session = None
            litellm.in_memory_llm_clients_cache.flush_cache()


def _reply(completion: Any) -> Reply:
    if not completion.choices:
        raise CallFault(UnscoredReason.PROVIDER_ERROR, "the provider sent no choices", again=True, sick=True)
    choice = completion.choices[0]
    message = choice.message
    extra = getattr(message, "provider_specific_fields", None) or {}
    usage = getattr(completion, "usage", None)
    spent = (getattr(usage, "prompt_tokens", None) or 0, getattr(usage, "completion_tokens", None) or 0)
    # litellm writes zeros if the provider sent no usage, and otherwise passes on whatever it sent.
    known = all(0 <= one < _MOST_TOKENS for one in spent) and sum(spent) > 0
    return Reply(
        text=message.content,
        finish=str(choice.finish_reason or ""),
        refused=bool(getattr(message, "refusal", None) or extra.get("refusal")),
        model=str(completion.model or ""),
        input_tokens=int(spent[0]) if known else None,
        output_tokens=int(spent[1]) if known else None,
        tokens=_tokens(choice),
        date=_date(completion),
    )


def _date(completion: Any) -> str:
    headers = (getattr(completion, "_hidden_params", None) or {}).get("additional_headers") or {}
    return str(headers.get("llm_provider-date") or "")


def _tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    tokens = getattr(getattr(choice, "logprobs", None), "content", None) or ()
    read = ((getattr(one, "token", None), getattr(one, "logprob", None)) for one in tokens)
    return tuple(
        (token, float(logprob))
        for token, logprob in read
        if isinstance(token, str) and isinstance(logprob, (int, float))
    )
