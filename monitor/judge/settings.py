"""The options under `judge:` in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, SecretStr, model_validator

from monitor.errors import ConfigError
from monitor.quantities import Duration, Rate
from monitor.stages import Component
from monitor.transport.http.address_guard import check_address

CLASSIFIER: Final = "classifier/"
"""The prefix of a model's name that marks a classifier of pairs of texts instead of a language model."""


class Budget(Component):
    """What evaluations may cost. Periods are calendar hours and days in UTC; counting starts with the process.

    Before a call its highest estimated price is reserved; after it the real price is charged. So calls in flight do not
    overrun a cap. Evaluations that no longer fit are unscored with the reason `budget`. Replicas that share a Kafka
    source share each cap too, in proportion to their partitions.
    """

    dollars_per_day: float | None = Field(default=None, gt=0)
    """The most US dollars per day. Needs a model with a known price, or `price`."""

    dollars_per_hour: float | None = Field(default=None, gt=0)
    """The most US dollars per hour. Keeps one bad hour from spending the budget of the day."""

    evaluations_per_day: int | None = Field(default=None, gt=0)
    """The most answered questions per day, regardless of cost. Answers from the cache do not count."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    """The most calls per minute, spread evenly. Evaluations above the rate wait; none is dropped."""

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
    """A cache of verdicts in memory, so that the same question is not paid for twice."""

    max_entries: int = Field(default=10_000, ge=0)
    """The most verdicts kept. The least recently used is evicted first. 0 turns the cache off."""

    ttl: Annotated[Duration, Field(gt=0)] = 86_400.0
    """How long a verdict is reused, such as `1d`."""


class JudgeSettings(Component):
    """Which language model judges, and within which limits."""

    model: str | None = Field(default=None, min_length=1)
    """The model as LiteLLM names it: `provider/name`, such as `openai/gpt-4o-mini`. Without it, judged evaluators are
    off. `classifier/NAME` names a classifier of pairs of texts instead, for evaluators that ask one: at the address in
    `api_base`, else in this process, which needs `rag-monitor[hhem]`."""

    api_key: SecretStr | None = None
    """The provider's API key, best written as `${NAME_OF_A_VARIABLE}`. Without it, LiteLLM looks for the provider's own
    environment variable, such as `OPENAI_API_KEY`."""

    api_key_file: Path | None = None
    """A file that contains the API key and nothing else, instead of `api_key`. A relative path starts at the folder of
    the configuration file. The file is read again every 2 seconds and before each probe of a paused judge, so a new key
    needs no restart."""

    api_base: str | None = None
    """The address of the API, for a gateway or your own model: `http://` or `https://`, without credentials."""

    allow_link_local: bool = False
    """Whether `api_base` may be a link-local address or a cloud's metadata service, which hand out credentials."""

    timeout: Annotated[Duration, Field(gt=0)] = 30.0
    """Time limit of one call, from connecting to the last byte."""

    max_attempts: int = Field(default=3, ge=1, le=10)
    """The most calls for one question on temporary faults: timeouts, 408, 409, 429, 5xx, broken connections."""

    max_concurrency: int = Field(default=16, ge=1, le=1024)
    """The most calls in flight at once. An evaluation that waits for its next attempt does not count."""

    max_age: Annotated[Duration, Field(gt=0)] = 600.0
    """How long one evaluation may wait in total for a provider that is down or limits its rate; then it is unscored."""

    max_retry_after: Annotated[Duration, Field(ge=0)] = 60.0
    """The longest `Retry-After` that a single call waits for. A longer one stops all calls until it has passed."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """Sampling temperature. Not sent if null, or to models that take none."""

    seed: int | None = None
    """Seed, for providers that take one."""

    max_characters: int = Field(default=400_000, ge=1_000)
    """The most characters of material (question, context and response together) in one call. Lower it for a model with
    a small context window. A rubric reads a longer context in pieces and keeps the passages that matter for the case.
    If that is still too long, the case is unscored with the reason `too_large`: it is never judged by a part."""

    language: str | None = Field(default=None, pattern=r"^[^\W\d_][\w ()-]{0,39}$")
    """The language of the judge's explanations, such as `German`. Cases may be in any language. Without this,
    explanations are mostly in English, the language of the instructions."""

    recheck_share: Rate = 0.01
    """The share of judged cases that are judged a second time, to measure how often the judge disagrees with itself
    (`ragmonitor_judge_rechecks_total`). The second verdict counts in no rate, but in the budget."""

    budget: Budget = Budget()
    """What evaluations may cost."""

    price: Price | None = None
    """The model's price, if LiteLLM does not know it or you pay a different one. Discounts, such as for cached input,
    are not known: the reported cost is then too high, never too low."""

    cache: CacheSettings = CacheSettings()
    """The cache of verdicts."""

    @property
    def is_classifier(self) -> bool:
        """Whether the model is a classifier of pairs of texts."""
        return (self.model or "").startswith(CLASSIFIER)

    @model_validator(mode="after")
    def _one_key(self) -> JudgeSettings:
        if self.api_key is not None and self.api_key_file is not None:
            raise ConfigError("judge.api_key_file: api_key is set too; set only one of them")
        return self

    @model_validator(mode="after")
    def _address(self) -> JudgeSettings:
        if self.api_base is not None:
            try:
                check_address(self.api_base, use_instead="api_key", allow_link_local=self.allow_link_local)
            except ValueError as error:
                # Not a ValueError: pydantic's report would repeat the input, which may hold a key.
                raise ConfigError(f"judge.api_base: {error}") from None
        return self
