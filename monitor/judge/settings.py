"""The options under `judge:` in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, SecretStr, model_validator

from monitor.quantities import Duration, Rate
from monitor.stages import Component
from monitor.transport.http.client import check_address

CLASSIFIER: Final = "classifier/"
"""Prefix of a model's name that marks a text-pair classifier instead of a language model."""


class Budget(Component):
    """Limits on the cost of evaluations. Periods are calendar hours and days in UTC; counting starts with the process.

    Before each call its highest estimated price is reserved, and after it the real price is charged, so calls in flight
    do not exceed a limit. A call whose reply reports no token count, or an impossible one, is charged at the estimate.
    Evaluations that do not fit are unscored with the reason `budget`. Replicas that share a Kafka source share each
    limit in proportion to their partitions.
    """

    dollars_per_day: float | None = Field(default=None, gt=0)
    """Maximum US dollars per day. Requires a model with a known price, or `price`."""

    dollars_per_hour: float | None = Field(default=None, gt=0)
    """Maximum US dollars per hour, so that one bad hour cannot spend the day's budget."""

    evaluations_per_day: int | None = Field(default=None, gt=0)
    """Maximum answered judge questions per day, regardless of cost. Cached answers do not count."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    """Maximum calls per minute, spread evenly. Evaluations above the rate wait; none is dropped."""

    @property
    def in_dollars(self) -> bool:
        """Whether a price must be known."""
        return self.dollars_per_day is not None or self.dollars_per_hour is not None


class Price(Component):
    """What the model costs, in US dollars per million tokens."""

    input_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million input tokens."""

    output_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million output tokens."""


class CacheSettings(Component):
    """A cache of judge answers in memory, so that no question is paid for twice."""

    max_entries: int = Field(default=10_000, ge=0)
    """Maximum answers kept; the least recently used is evicted first. 0 turns the cache off."""

    ttl: Annotated[Duration, Field(gt=0)] = 86_400.0
    """How long a cached answer is reused."""


class JudgeSettings(Component):
    """The language model that scores answers, and its limits."""

    model: str | None = Field(default=None, min_length=1)
    """Model in LiteLLM's notation, `provider/name`, such as `openai/gpt-4o-mini`. Without it, judged evaluators are
    off. `classifier/NAME` is a text-pair classifier for evaluators that need one: at `api_base`, else in this process
    (requires `rag-monitor[hhem]`)."""

    api_key: SecretStr | None = None
    """The provider's API key, preferably as `${NAME_OF_A_VARIABLE}`. Default: the provider's own environment variable,
    such as `OPENAI_API_KEY`."""

    api_key_file: Path | None = None
    """File that contains only the API key, instead of `api_key`. A relative path starts at the configuration file. Read
    again every 2 seconds and before each probe of a paused judge, so a new key needs no restart."""

    api_base: str | None = None
    """URL of the API, for a gateway or your own model, without credentials."""

    allow_link_local: bool = False
    """Whether `api_base` may be a link-local address or a cloud's metadata service, which hand out credentials."""

    timeout: Annotated[Duration, Field(gt=0)] = 30.0
    """Time limit of one call, from connecting to the last byte. A call that cannot connect within 80 % of it, or within
    10 seconds, is given up and costs nothing. A call that was sent but not answered, or whose reply cannot be read, is
    charged at its estimate."""

    max_attempts: int = Field(default=3, ge=1, le=10)
    """Maximum attempts per question on temporary faults: timeouts, 408, 409, 429, 5xx, broken connections."""

    max_concurrency: int = Field(default=16, ge=1, le=1024)
    """Maximum calls in flight. Evaluations waiting for a retry do not count."""

    max_age: Annotated[Duration, Field(gt=0)] = 600.0
    """Maximum total time that an evaluation waits for a provider that is down or limiting its rate. After that the
    evaluation is unscored."""

    max_retry_after: Annotated[Duration, Field(ge=0)] = 60.0
    """Maximum `Retry-After` that a single call waits for. A longer one stops all calls until it has passed, or for an
    hour at most; then one call tests whether the provider answers."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """Sampling temperature. Not sent if null, or if the model does not accept one."""

    seed: int | None = None
    """Seed, for providers that accept one."""

    max_characters: int = Field(default=400_000, ge=1_000)
    """Maximum characters of question, context and response in one call. Lower it for a model with a small context
    window. Rubrics read a longer context in pieces and keep the relevant passages. If these are still too long, the
    case is unscored with the reason `too_large`; no case is scored on only a part of its texts."""

    language: str | None = Field(default=None, pattern=r"^[^\W\d_][\w ()-]{0,39}$")
    """Language of the judge's explanations, such as `German`. Cases may be in any language. Default: mostly English,
    the language of the instructions."""

    recheck_share: Rate = 0.01
    """Share of evaluations to repeat, to measure how often the judge disagrees with itself
    (`ragmonitor_judge_rechecks_total`). The repeat counts towards the budget and the cost of its result, but not in any
    rate. Evaluators of a group are repeated individually. The result's row includes the outcome of the repeat, so it is
    published only after the repeat: one call later than other results."""

    budget: Budget = Budget()
    """Limits on the cost of evaluations. A call reserves the most it may cost and is charged its actual cost. A call
    that does not fit only because of calls in flight waits for them, up to `max_age`."""

    price: Price | None = None
    """Price of the model, if LiteLLM does not know it or you pay a different one. Discounts, such as for cached input,
    are ignored, so the reported cost may be too high, never too low."""

    cache: CacheSettings = CacheSettings()
    """Cache of judge answers."""

    @property
    def is_classifier(self) -> bool:
        """Whether the model is a text-pair classifier."""
        return (self.model or "").startswith(CLASSIFIER)

    @model_validator(mode="after")
    def _one_key(self) -> JudgeSettings:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key_file: `api_key` is set too; set only one of them")
        return self

    @model_validator(mode="after")
    def _address(self) -> JudgeSettings:
        if self.api_base is not None:
            try:
                check_address(self.api_base, use_instead="api_key", allow_link_local=self.allow_link_local)
            except ValueError as error:
                raise ValueError(f"api_base: {error}") from None
        return self
