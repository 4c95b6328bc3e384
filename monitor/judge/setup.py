"""What a judge needs before it can answer: what may be missing, in words, and how to fix each case.

`before_a_call` finds what can be known without a call. The rest shows at the first call (`retry.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from monitor.judge.settings import JudgeSettings


class PauseCause(StrEnum):
    """Why no call to a judge can succeed until someone acts. A closed set."""

    REFUSED = "refused"  # the key
    UNPAID = "unpaid"
    GONE = "gone"  # the model, the deployment, or the address
    NO_KEY = "no_key"
    NO_ADDRESS = "no_address"
    NO_PROVIDER = "no_provider"  # the model's name does not say which provider it belongs to
    NO_PACKAGE = "no_package"  # a package that this provider needs


SAID: Final[Mapping[PauseCause, str]] = {
    PauseCause.REFUSED: "the provider rejects the key",
    PauseCause.UNPAID: "the provider demands payment, or the account has reached a limit",
    PauseCause.GONE: "the provider has no such model, or there is nothing at this address",
    PauseCause.NO_KEY: "no API key is set",
    PauseCause.NO_ADDRESS: "no address of the API is set",
    PauseCause.NO_PROVIDER: "the model's name does not say which provider it belongs to",
    PauseCause.NO_PACKAGE: "a Python package that this provider needs is not installed",
}
"""Each cause in words: the beginning of every message about it."""

UNREACHABLE: Final = "the provider cannot be reached"
"""The beginning of every message about a connection that could not be made, or broke."""

MAY_COST: Final = "one call may cost up to"
"""The beginning of every message about a budget that is smaller than the possible cost of a single call."""

REDIRECTED: Final = "the address redirects elsewhere, which is not followed"
"""The beginning of every message about a redirect: the prompt and the key are never sent to another address."""


class SetupFault(NamedTuple):
    """Why a judge cannot answer: the cause, and the details as a sentence without its full stop."""

    cause: PauseCause
    why: str


class _Needs(NamedTuple):
    """What a provider needs: one of the variables `keys` as its key, and one of `addresses` as its address.

    `always`: it needs a key even with an `api_base`, because the provider's library insists.
    """

    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    always: bool = False


# Only what litellm itself insists on, or what the provider's own API always needs: pausing a judge for a key that it
# does not need would be worse than finding the fault at its first call.
_PROVIDERS: Final[Mapping[str, _Needs]] = {
    "anthropic": _Needs(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_IDENTITY_TOKEN_FILE"),
        always=True,
    ),
    "azure": _Needs(
        (
            "AZURE_API_KEY",
            "AZURE_OPENAI_API_KEY",
            "AZURE_AD_TOKEN",
            "AZURE_OPENAI_AD_TOKEN",
            "AZURE_CLIENT_ID",
            "AZURE_USERNAME",
            "AZURE_CREDENTIAL",
        ),
        ("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"),
        always=True,
    ),
    "cohere": _Needs(("COHERE_API_KEY", "CO_API_KEY")),
    "deepseek": _Needs(("DEEPSEEK_API_KEY",)),
    "gemini": _Needs(("GEMINI_API_KEY", "GOOGLE_API_KEY", "PALM_API_KEY"), always=True),
    "groq": _Needs(("GROQ_API_KEY",)),
    "mistral": _Needs(("MISTRAL_API_KEY",)),
    "openai": _Needs(("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"), always=True),
    "openrouter": _Needs(("OPENROUTER_API_KEY", "OR_API_KEY")),
    "xai": _Needs(("XAI_API_KEY",)),
}


def before_a_call(settings: JudgeSettings, environment: Mapping[str, str], place: str) -> SetupFault | None:
    """Return what is missing, as far as the configuration and the environment show it. Needs no network.

    None does not mean that nothing is missing: only some providers are known here.
    """
    needs = _PROVIDERS.get(provider_in(settings.model or ""))
    if needs is None:
        return None
    has_key = settings.api_key_file is not None or (
        settings.api_key is not None and bool(settings.api_key.get_secret_value())
    )
    wanted = needs.always or settings.api_base is None
    if wanted and not has_key and not any(environment.get(name) for name in needs.keys):
        why = f"{SAID[PauseCause.NO_KEY]}: there is no {place}.api_key, and the variable {needs.keys[0]} is not set"
        return SetupFault(PauseCause.NO_KEY, why)
    if needs.addresses and settings.api_base is None and not any(environment.get(one) for one in needs.addresses):
        variable = f"the variable {needs.addresses[0]} is not set"
        why = f"{SAID[PauseCause.NO_ADDRESS]}: there is no {place}.api_base, and {variable}"
        return SetupFault(PauseCause.NO_ADDRESS, why)
    return None


def place_of(name: str) -> str:
    """Return the configuration section of the judge `name`, which is empty for the section `judge`."""
    return f"judges.{name}" if name else "judge"


def provider_in(model: str) -> str:
    """Return the provider that a model's name begins with; empty if it names none."""
    provider, slash, _ = model.partition("/")
    return provider if slash else ""


def key_variable(model: str) -> str:
    """Return the environment variable in which a model's provider expects its key; empty if unknown."""
    needs = _PROVIDERS.get(provider_in(model))
    return needs.keys[0] if needs is not None else ""


_REMEDIES: Final[Mapping[PauseCause, str]] = {
    PauseCause.REFUSED: (
        "set a valid {place}.api_key and restart the monitor (with {place}.api_key_file a new key needs no restart), or"
        " grant the key the missing permission at the provider; the judge then resumes by itself"
    ),
    PauseCause.UNPAID: "pay the provider of {place} or raise the account's limit; the judge then resumes by itself",
    PauseCause.GONE: (
        "check {place}.model and {place}.api_base, and whether the provider still offers the model; restart the monitor"
        " after changing them"
    ),
    PauseCause.NO_KEY: "set {place}.api_key{variable} and restart the monitor",
    PauseCause.NO_ADDRESS: "set {place}.api_base to the address of the API and restart the monitor",
    PauseCause.NO_PROVIDER: (
        "write {place}.model as provider/name, such as openai/gpt-4o-mini, and restart the monitor;"
        " https://docs.litellm.ai/docs/providers lists the providers"
    ),
    PauseCause.NO_PACKAGE: (
        "install that package in the monitor's environment or choose another {place}.model, then restart the monitor"
    ),
}
_NEW_KEY: Final = "write a valid key to the file in {place}.api_key_file; the judge then resumes by itself"


def remedy(cause: PauseCause, place: str, *, model: str = "", key_file: bool = False) -> str:
    """Return how to fix a cause, in words. `place` is the judge's section; `key_file`: its key comes from a file."""
    variable = key_variable(model)
    said = _NEW_KEY if cause is PauseCause.REFUSED and key_file else _REMEDIES[cause]
    return said.format(place=place, variable=f", or {variable} in its environment," if variable else "")


def cause_in(text: str) -> PauseCause | None:
    """Return the cause that a message is about, by its phrase in `SAID` anywhere in the text; None if there is none."""
    return next((cause for cause, said in SAID.items() if said in text), None)


def remedy_in(text: str, place: str, settings: JudgeSettings) -> str:
    """Return how to fix the fault of a judge's setup or address that a message reports; empty if it reports none."""
    cause = cause_in(text)
    if cause is not None:
        return remedy(cause, place, model=settings.model or "", key_file=settings.api_key_file is not None)
    if UNREACHABLE in text:
        return f"check {place}.api_base, and that something listens there that this machine can reach"
    if REDIRECTED in text:
        return f"set {place}.api_base to the final address"
    return ""
