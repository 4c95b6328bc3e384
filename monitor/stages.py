"""Every contract of the pipeline on one page: Source, Convention, Sampler, Evaluator, Judge, Sink.

    Source -> Intake -> (spool, assembly) -> Convention -> Sampler -> Evaluator (asks a Judge) -> Sink

Authors write the step; the pipeline owns the edges: counting, timing, handing over, catching. A component is a frozen
pydantic model whose fields are its options in the configuration, so it holds no state: what lives longer than a call is
a local variable of `run` or `open`. A new component is one file, named after its `type`, in the folder of its stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue

from monitor.clock import Clock
from monitor.model.case import Case, Document, Message, Usage
from monitor.model.outcome import DefectRule, Judged, Outcome, Scale, Score
from monitor.model.receipt import Receipt
from monitor.model.row import RowBatch
from monitor.model.span import LogRecord, Span, SpanBatch
from monitor.share import Share
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.site import Site
from monitor.telemetry.tracing import Tracer


class Component(BaseModel):
    """What a configuration entry becomes. Unknown keys are errors; values never change after start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def type_name(component: Component) -> str:
    """The `type` of a component, as it stands in the configuration and in metric labels: the name of its file."""
    return type(component).__module__.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the application lends to every component that runs: time, metrics, events, health, its share, its pages.

    With `tracer` the monitor tells what it does itself; by default nobody listens.
    """

    clock: Clock
    metrics: Metrics
    events: Events
    health: Health
    share: Share = field(default_factory=Share)
    site: Site = field(default_factory=Site)
    tracer: Tracer = field(default_factory=Tracer)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a batch: everything is safe, save `rejected` items that can never become valid, and why."""

    rejected: int = 0
    message: str = ""


class Intake(Protocol):
    """The door of the pipeline, held open to sources. Made by the pipeline."""

    async def accept(self, batch: SpanBatch) -> Accepted:
        """Take a batch; returns once its data is safe at the promised level (OTLP: on disk).

        A batch with a receipt is safe where it comes from: then the receipt says when it is done with.
        Raises `Overloaded` when there is no room now: nothing of the batch was taken, the sender should try again.
        Raises `InvalidData` when nothing of it can be read. Never blocks the event loop; may wait for a group commit.
        """
        ...

    async def accept_rows(self, batch: RowBatch) -> None:
        """Take a batch of rows, and count those of it that are invalid; returns once its data is safe, as `accept`.

        A row whose id was seen lately is not taken again. Raises `Overloaded` as `accept` does.
        """
        ...

    def hand_over(self, receipts: Iterable[Receipt]) -> None:
        """What hangs on these receipts belongs to another process now, which will receive it again from the start.

        Makes them void. What is not yet being judged is dropped, counted as handed over, and taken anew should it come
        back here; what is being judged is finished.
        """
        ...


class Source(Component, ABC):
    """Where traces come from. Run once by the pipeline, for the whole life of the process."""

    @abstractmethod
    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Receive until cancelled.

        Call `listening(address)` once when ready, with the address in words (`127.0.0.1:4317`). When cancelled: accept
        nothing new, let calls in progress finish (a second at most), then return. Raises `ConfigError` before listening
        when it can never work (a port in use, a certificate that cannot be read).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one span says, in the words that all dialects share. None means "says nothing", empty means "says: none".

    `kind` is the role of the span in the request: `request` (a whole request, chain or agent), `retrieval`, `rerank`
    (or any filter whose output replaces the candidates), `generation` (one call of a model), `tool`, `embedding`,
    `other`.
    `documents` is None where the span says nothing of documents and empty where it says that none were found;
    `documents_without_text` counts those of which only ids came. `messages` is the chat as sent to the model, system
    prompt first, with an empty role where none was sent; `query` the question where the span states it plainly. `error`
    is not empty where the span failed.
    `stated` names the fields that the configuration has mapped: they outweigh what other spans say.
    """

    kind: Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]
    convention: str
    span: Span
    query: str | None = None
    history: tuple[Message, ...] | None = None
    messages: tuple[Message, ...] | None = None
    documents: tuple[Document, ...] | None = None
    documents_without_text: int = 0
    response: str | None = None
    model: str = ""
    usage: Usage | None = None
    session_id: str = ""
    user_id: str = ""
    error: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()


class Convention(ABC):
    """One dialect: how one family of instrumentation writes a span. Stateless; called for each span of a closed trace.

    Adding a dialect is adding one file to `conventions/` with one subclass. Reading is tolerant: a value of an
    unexpected shape is ignored, never an exception.
    """

    name: ClassVar[str]
    """The dialect's name, as it stands in `convention` of a case."""

    precedence: ClassVar[int] = 50
    """Of two dialects that both recognise a span the one with the lower number reads it."""

    record_marks: ClassVar[tuple[bytes, ...]] = ()
    """A log record ends at the door unless it, or its scope, holds a mark of some dialect: both as encoded."""

    @abstractmethod
    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """What the span says, with its own log records, oldest first; None where it is not this dialect's."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """With which `probability` a case is judged, 0 to 1, and how that came about.

    `target` is the share of all cases that is judged at that time, `risk` the probability of a defect as the sampler
    sees it (None: it does not), `inputs` what it saw, `shift` what was added to the log odds of a defect for what is
    known besides. `thinned`: a cap has lowered the probability.
    """

    probability: float
    target: float
    risk: float | None = None
    inputs: tuple[float, ...] = ()
    thinned: bool = False
    shift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A result of an earlier process, or of another replica, as far as it teaches: what `Sampling.learn` was told then.

    `result` is its id. `inputs` and `shift` as in `Drawn`, no inputs where the sampler saw nothing; `emphasis` how many
    cases it stands for, relative to an even draw; `defect` None where it is no verdict on production traffic.
    """

    result: str
    app: str
    evaluator: str
    version: str
    inputs: tuple[float, ...] = ()
    shift: float = 0.0
    emphasis: float = 1.0
    defect: bool | None = None
    dollars: float = 0.0


class Sampling(Protocol):
    """A sampler at work for one evaluator. Called on the event loop: microseconds, no waiting.

    `adaptive` says that a probability depends on more than the case: then the pipeline stores the first one of each
    case, and a case that comes again keeps it.
    """

    adaptive: bool

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> Drawn:
        """The probability of `case`, of which `local` are the scores of the local evaluators, by name.

        Of it only `part`, above 0 to 1, will be used, since the app's quota is nearly spent: the pipeline multiplies,
        and a budget is spent on so much of a case.
        """
        ...

    def learn(self, case: Case, drawn: Drawn, *, defect: bool | None, dollars: float) -> None:
        """A case that was drawn has been judged, for `dollars`; `defect` is None where no verdict came about."""
        ...

    def recall(self, lesson: Lesson) -> None:
        """The same of a case that another process has judged, with an evaluator of this name and version."""
        ...


class Sampler(Component, ABC):
    """Decides how likely a case is to be judged. The pipeline draws, by a hash of the trace id."""

    @property
    def sees(self) -> str:
        """The local evaluator whose scores it goes by: it must be configured. Empty: none."""
        return ""

    @abstractmethod
    def open(self, evaluator: str, runtime: Runtime) -> Sampling:
        """Begin to sample for `evaluator`. What is learned lives in what is returned."""


class FixedSampler(Sampler):
    """A sampler that goes by the case alone: the same case has the same probability, always and everywhere."""

    @abstractmethod
    def probability(self, case: Case) -> float:
        """The probability, 0 <= p <= 1, with which `case` is chosen."""

    def open(self, evaluator: str, runtime: Runtime) -> Sampling:  # noqa: ARG002 - the contract's signature
        """Nothing to learn, nothing to keep."""
        return _Fixed(self.probability)


class _Fixed:
    adaptive = False

    def __init__(self, probability: Callable[[Case], float]) -> None:
        self._probability = probability

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> Drawn:  # noqa: ARG002 - as above
        probability = self._probability(case)
        return Drawn(probability, probability)

    def learn(self, case: Case, drawn: Drawn, *, defect: bool | None, dollars: float) -> None:
        pass

    def recall(self, lesson: Lesson) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a judge: instructions of ours, material that is not, and the shape of the answer.

    `material` is untrusted text by name, shown to the model as data between random fences, in this order, before the
    instructions. `schema` is the JSON Schema of the answer, an object whose required keys are all that is read of it.
    Another number of `repeat` asks the same anew, past the cache.
    """

    name: str
    instructions: str
    material: Mapping[str, str]
    schema: Mapping[str, JsonValue]
    max_tokens: int = 1024
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in the form that a family of models was trained on, sent as it stands; who asks reads the answer.

    Its material stands between no fences: for models that only judge, and for repeating a service's own prompt. The
    verdict's data is `text` and, with `logprobs`, `tokens`: a list of `text` and `logprob` (natural logarithm), empty
    where the provider gives none. `temperature` None is that of the judge's configuration. A classifier takes one of
    two messages, in the roles `premise` and `hypothesis`, and its text is a JSON list of labels with their scores.
    """

    name: str
    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float | None = None
    logprobs: bool = False
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer: `data` holds to the question's schema. Prices in US dollars, durations in seconds."""

    data: Mapping[str, Any]
    model: str
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False


class Judge(Protocol):
    """A language model behind retries, budget, breaker and cache.

    `max_characters` is the longest material of one question: what is longer is refused with `too_large`.
    """

    model: str
    max_characters: int

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Answer one question within the configured limits. Raises `JudgeError` with the reason, nothing else."""
        ...


Needs = Literal["context", "history", "reference", "response"]


class Evaluator(Component, ABC):
    """Scores one case. Stateless: called concurrently, for many cases, in any order.

    Class fields declare what it is; pydantic fields are its options.
    """

    name: ClassVar[str]
    """Its name in metrics, alerts and configuration."""

    version: ClassVar[str]
    """Changes whenever the same case could get another score: results of two versions are never averaged."""

    scale: ClassVar[Scale]
    """The scale of its values: both ends, which end is good, the levels by name."""

    needs: ClassVar[frozenset[Needs]] = frozenset({"response"})
    """What a case must have; without it the outcome is `Skipped` and the evaluator is not called."""

    cost: ClassVar[Literal["local", "judge"]] = "local"
    """`local`: milliseconds of processor, scores every kept case. `judge`: calls a language model, is sampled."""

    asks: ClassVar[Literal["model", "classifier"]] = "model"
    """Whom a judged evaluator asks: a language model, or a classifier of pairs of texts."""

    default_defect: ClassVar[DefectRule]
    """What counts as a defect unless the configuration says otherwise."""

    definition: ClassVar[str] = ""
    """Where the definition comes from: a link or a reference."""

    @abstractmethod
    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Score `case`. A local evaluator gets no judge; it may compute for some milliseconds and must never wait.

        May raise `JudgeError` (becomes `Unscored` with its reason); any other exception becomes `Unscored(error)`.
        """


Deliver = Callable[[Judged], Awaitable[None]]


class Sink(Component, ABC):
    """Where results go."""

    memory: ClassVar[Literal["none", "process", "fleet"]] = "none"
    """Whose results can be heard from it again, by `recall`: nobody's, those of this process's earlier lives, or those
    of every replica."""

    @abstractmethod
    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Connect for the life of the process; leaving the context flushes.

        The returned function takes one result and returns when the sink has it safely; it may wait, which slows the
        pipeline down. A result may come twice (same `id`) after a restart.
        """

    async def recall(self, heard: Callable[[Lesson], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """Tell what the sink holds: the newest few thousand results, oldest first; then, of a fleet, each that comes.

        Called once, beside the pipeline; a sink that holds nothing, or only the past, returns. `heard` is quick and
        must be called on the event loop, in small numbers at once. A result may be told twice. May raise
        `MonitorError`.
        """
        return
