"""The options under `judge:` in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, SecretStr, model_validator

from monitor.errors import ConfigError
from monitor.quantities import Duration, Rate
from monitor.serving.address_guard import check_address
from monitor.stages import Component

CLASSIFIER: Final = "classifier/"
"""What the name of a model begins with that is no language model but a classifier of pairs of texts."""


class Budget(Component):
    """What judging may cost. Periods are calendar hours and days, UTC; counting begins at the start of the process.

    A call is reserved at its estimated highest price before it is made and settled at its real price after, so a cap is
    not overrun by calls in flight. What does not fit any more is unscored with the reason `budget`. Replicas that share
    a Kafka source share each of these, too: every one takes the part of its partitions.
    """

    dollars_per_day: float | None = Field(default=None, gt=0)
    """US dollars a day at most. Needs a model with a known price, or `price`."""

    dollars_per_hour: float | None = Field(default=None, gt=0)
    """US dollars an hour at most: keeps one bad hour from spending the day's budget."""

    evaluations_per_day: int | None = Field(default=None, gt=0)
    """Answered questions a day at most, whatever they cost. Answers from the cache are free."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    """Calls a minute at most, evenly spread. A pace, not a cap: judgements wait for their turn."""

    @property
    def in_dollars(self) -> bool:
        """Whether a price must be known."""
        return self.dollars_per_day is not None or self.dollars_per_hour is not None


class Price(Component):
    """What the model costs, in US dollars for a million tokens."""

    input_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars for a million tokens of the prompt."""

    output_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars for a million tokens of the answer."""


class CacheSettings(Component):
    """Verdicts kept in memory, so that the same question is not paid for twice."""

    max_entries: int = Field(default=10_000, ge=0)
    """Verdicts kept at most, the least recently used one leaving first; 0 turns the cache off."""

    ttl: Annotated[Duration, Field(gt=0)] = 86_400.0
    """How long a verdict is used again, such as `1d`."""


class JudgeSettings(Component):
    """Which language model judges, and within which limits."""

    model: str | None = Field(default=None, min_length=1)
    """The model, in LiteLLM's words: `provider/name`, such as `openai/gpt-4o-mini`. Without one, judged evaluators are
    off. `classifier/NAME` is no language model but a classifier of pairs of texts, for evaluators that ask one: behind
    the address in `api_base`, else in this process, for which `rag-monitor[hhem]` must be installed."""

    api_key: SecretStr | None = None
    """The provider's key, best written as `${NAME_OF_A_VARIABLE}`. Without it, LiteLLM looks for the provider's own
    environment variable, such as `OPENAI_API_KEY`."""

    api_key_file: Path | None = None
    """A file that holds the provider's key and nothing else, instead of `api_key`; a relative path is looked for from
    the folder of the configuration. It is read again every 2 seconds and before each probe of a paused judge, so that
    another key needs no restart."""

    api_base: str | None = None
    """Where the provider's API is, for a gateway or your own model: `http://` or `https://`, without credentials."""

    allow_link_local: bool = False
    """Whether `api_base` may be a link-local address or a cloud's metadata service, which hand out credentials."""

    timeout: Annotated[Duration, Field(gt=0)] = 30.0
    """Wall clock of one call at most, from connecting to the last byte."""

    max_attempts: int = Field(default=3, ge=1, le=10)
    """Calls at most for a question that meets passing faults: timeouts, 408, 409, 429, 5xx, broken connections."""

    max_concurrency: int = Field(default=16, ge=1, le=1024)
    """Calls in flight at once at most. A judgement that waits to try again does not count."""

    max_age: Annotated[Duration, Field(gt=0)] = 600.0
    """How long one judgement may wait in all for a provider that is down or asks for patience; then it is unscored."""

    max_retry_after: Annotated[Duration, Field(ge=0)] = 60.0
    """The longest `Retry-After` that a single call waits out. A longer one stops all calls until it is over."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """Sampling temperature. Left out for models that do not take one, and where null."""

    seed: int | None = None
    """Seed for providers that take one."""

    max_characters: int = Field(default=400_000, ge=1_000)
    """The longest material (question, context and response together) that is sent at once, in characters; lower it for
    a model with a small window. A rubric reads a longer context in pieces, first for the passages that bear on the
    case. What is too long even so is unscored with the reason `too_large`: a verdict on a part would be a verdict on
    something else."""

    language: str | None = Field(default=None, pattern=r"^[^\W\d_][\w ()-]{0,39}$")
    """The language in which the judge explains its verdicts, such as `German`. Cases may be in any language; without
    this, explanations are mostly in English, the language of the instructions."""

    recheck_share: Rate = 0.01
    """Share of judged cases that are judged a second time, to learn how often the same judge says something else
    (`ragmonitor_judge_rechecks_total`). The second verdict counts in no rate; it is paid for out of the same budget."""

    budget: Budget = Budget()
    """What judging may cost."""

    price: Price | None = None
    """The model's price, where LiteLLM does not know it or you pay another one. Discounts, as for cached input, are not
    known: cost is then counted too high, never too low."""

    cache: CacheSettings = CacheSettings()
    """Verdicts kept in memory."""

    @property
    def is_classifier(self) -> bool:
        """Whether the model is a classifier of pairs of texts."""
        return (self.model or "").startswith(CLASSIFIER)

    @model_validator(mode="after")
    def _one_key(self) -> JudgeSettings:
        if self.api_key is not None and self.api_key_file is not None:
            raise ConfigError("judge.api_key_file: stands beside api_key; give one of them")
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
