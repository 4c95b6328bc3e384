"""The section `redaction` of the configuration."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class DataType(StrEnum):
    """A type of data to mask: a closed set, used in the configuration and as the metric label `type`."""

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
        raise ValueError("a type is listed twice")
    if not given:
        raise ValueError("the list is empty; to mask nothing, set `enabled: false`")
    return given


class RedactionSettings(BaseModel):
    """Masks personal data before anything but the local evaluators sees a case: judges, sinks, the UI, stored results.

    The same value has the same placeholder within a case: `<EMAIL_1>` in the question is `<EMAIL_1>` in the answer.
    Data is found by form and check digits, as by the evaluator `pii_leak`; names, street addresses and data in words
    are not found. A user's id becomes a pseudonym. The spool keeps the original until a trace is processed. See
    docs/privacy.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = False
    """Whether to mask personal data."""

    types: Annotated[tuple[DataType, ...], AfterValidator(_each_once)] = tuple(DataType)
    """Types of data to mask: `email`, `phone`, `card`, `iban`, `national_id`, `passport`, `ip_address` (public only),
    `wallet` (cryptocurrency), `secret` (keys, tokens, passwords). Default: all."""
