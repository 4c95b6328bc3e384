"""The section `redaction` of the configuration."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class DataType(StrEnum):
    """What is masked. The values stand in the configuration and are the metric label `type`; the closed set."""

    EMAIL = "email"
    PHONE = "phone"
    CARD = "card"
    IBAN = "iban"
    NATIONAL_ID = "national_id"
    PASSPORT = "passport"
    IP_ADDRESS = "ip_address"
    WALLET = "wallet"
    SECRET = "secret"  # noqa: S105 - the name of a type


def _each_once(given: tuple[DataType, ...]) -> tuple[DataType, ...]:
    if len(set(given)) < len(given):
        raise ValueError("a type stands twice")
    if not given:
        raise ValueError("no type is left; to mask nothing set `enabled: false`")
    return given


class RedactionSettings(BaseModel):
    """Personal data is masked before anybody but the local evaluators sees a case.

    That is: judges, sinks, the page, all that is kept. The same value has the same placeholder within one case:
    `<EMAIL_1>` in the question is `<EMAIL_1>` in the answer.
    It is found by form and check digits, as by the evaluator `pii_leak`: names, street addresses and data in words
    are not. A user's id becomes a pseudonym. What the spool holds until a trace is judged is as it came. See
    docs/privacy.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = False
    """Mask it."""

    types: Annotated[tuple[DataType, ...], AfterValidator(_each_once)] = tuple(DataType)
    """What is masked: `email`, `phone`, `card`, `iban`, `national_id`, `passport`, `ip_address` (public ones), `wallet`
    (of crypto currencies), `secret` (keys, tokens, passwords). Default: all of these."""
