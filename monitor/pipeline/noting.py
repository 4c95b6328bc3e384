"""What becomes of each request, noted where it happens, so that it can be explained afterwards.

The note of the request that is being worked on is known to all that is done for it, in whatever task. Whoever keeps
the notes never waits and never raises; where nobody keeps them nothing is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, Protocol

from monitor.clock import Clock
from monitor.model.case import Reading, Status
from monitor.model.outcome import Judged, Score, Skipped, Standing
from monitor.model.trail import Choice, Step, Trail
from monitor.pipeline.complete import Complete, WholeRow, WholeTrace
from monitor.pipeline.ledger import Fate
from monitor.stages import Drawn

_OWN_WORDS: Final = (Status.INCOMPLETE, Status.CONTENT_MISSING)
"""Why a request could not be judged is ours to say; of one that failed it is a text of the service."""


_SCORED: Final = {Standing.LIVE.value: "score", Standing.LATE.value: "late"}


class Keeper(Protocol):
    """Keeps what is noted. Never waits, never raises."""

    def keep(self, trail: Trail) -> None:
        """A request has ended."""
        ...

    def count(self, step: Step, number: int = 1, expected: float = 0.0) -> None:
        """A step was taken, `number` times; `expected` is the sum of the probabilities that were drawn with."""
        ...


class Note:
    """What is known so far of one request. Cheap to write, since every kept request has one."""

    __slots__ = ("_began", "_choices", "_clock", "_facts", "draw")

    def __init__(self, complete: Complete, clock: Clock) -> None:
        self._clock = clock
        self._facts = _opened(complete, clock.now())
        self._choices: dict[str, dict[str, Any]] = {}
        self._began = 0.0
        self.draw: float | None = None
        """The value that evaluators' probabilities are held against, 0 to 1; None until the first has drawn."""

    def read(self, reading: Reading | Fate) -> None:
        """What the request says; of its texts nothing is noted."""
        if isinstance(reading, Reading):
            detail = reading.error if reading.status in _OWN_WORDS else ""
            self._facts |= {"detail": detail, "joined": reading.joined, "traffic": reading.case.traffic.value}

    def left_out(self, detail: str) -> None:
        """It goes no further because of the option `detail`."""
        self._facts["detail"] = detail

    def drew(self, evaluator: str, drawn: Drawn | None, *, chosen: bool, room: float = 1.0) -> None:
        """An evaluator has drawn, of an app's quota with so much `room`; None where it takes no part."""
        self._began = self._clock.monotonic()
        facts: dict[str, Any] = {"chosen": chosen, "room": room}
        if drawn is not None:
            facts |= {"probability": drawn.probability, "target": drawn.target, "thinned": drawn.thinned}
        self._choices[evaluator] = facts

    def add(self, evaluator: str, **fields: Any) -> None:
        """More on a choice, by the names of `Choice`."""
        self._choices.setdefault(evaluator, {}).update(fields)

    def admitted(self, evaluator: str) -> None:
        """The case has left the queue in front of the judge."""
        self.add(evaluator, waited=self._clock.monotonic() - self._began)

    def finished(self, judged: Judged) -> None:
        """An evaluation came to its end."""
        outcome, spent = judged.outcome, judged.spending
        self.add(
            judged.evaluator,
            outcome=type(outcome).__name__.lower(),
            reason="" if isinstance(outcome, Score) else outcome.reason.value,
            detail="" if isinstance(outcome, Score | Skipped) else outcome.detail,
            standing=judged.standing.value,
            seconds=spent.seconds,
            cached=spent.cached,
            tries=spent.tries,
        )

    def unfinished(self) -> Iterator[str]:
        """The evaluators that chose the case and have come to no outcome yet."""
        return (name for name, one in self._choices.items() if one.get("chosen") and not one.get("outcome"))

    def trail(self, fate: str = "") -> Trail:
        """As it stands now; with `fate` it has ended."""
        choices = tuple(Choice(evaluator=name, **facts) for name, facts in self._choices.items())
        ended_at = self._clock.now() if fate else 0.0
        return Trail(**self._facts, fate=fate, ended_at=ended_at, draw=self.draw or 0.0, choices=choices)


_CURRENT: ContextVar[Note | None] = ContextVar("note", default=None)


def current() -> Note | None:
    """The note of the request that is being worked on here; None where nobody keeps one."""
    return _CURRENT.get()


class Notes:
    """The notes of all requests that are being worked on.

    Args:
        keeper: None: nobody keeps them.
        label: an app's name as the label that it is counted under.
    """

    def __init__(self, keeper: Keeper | None, clock: Clock, label: Callable[[str], str]) -> None:
        self._keeper = keeper
        self._clock = clock
        self._label = label
        self._open: dict[Complete, Note] = {}

    def begin(self, complete: Complete) -> Note | None:
        """Work on `complete` begins in this task, and in those that it starts."""
        note = None
        if self._keeper is not None:
            note = self._open[complete] = Note(complete, self._clock)
        _CURRENT.set(note)
        return note

    def end(self, complete: Complete, fate: Fate) -> None:
        """`complete` has ended."""
        if self._keeper is None:
            return
        note = self._open.pop(complete, None) or Note(complete, self._clock)
        trail = note.trail(fate.value)
        app = self._label(complete.app)
        for choice in trail.choices:
            self._keeper.count(Step(app, "", choice.evaluator, step_of(choice)), 1, choice.probability or 0.0)
        if fate is not Fate.FORGOTTEN:  # of what is to be forgotten nothing is begun anew
            self._keeper.keep(trail)

    def counted(self, app: str, source: str, fate: Fate, number: int) -> None:
        """So many requests of an app, by its label, ended there."""
        if self._keeper is not None:
            self._keeper.count(Step(app, source, "", fate.value), number)

    def of(self, request_id: str) -> Trail | None:
        """The trail so far of a request that is being worked on."""
        return next((one.trail() for key, one in self._open.items() if key.request_id == request_id), None)

    def waiting(self) -> dict[str, int]:
        """By evaluator the cases that it has chosen and that have come to no outcome yet."""
        found: dict[str, int] = {}
        for note in self._open.values():
            for name in note.unfinished():
                found[name] = found.get(name, 0) + 1
        return found


def step_of(choice: Choice) -> str:
    """The step that a choice is summed under."""
    if choice.repeated:
        return "repeated"
    if choice.outcome == "score":
        return _SCORED.get(choice.standing, "aside")
    if choice.missing:
        return f"missing:{choice.missing}"
    if not choice.chosen:
        return "not_chosen"
    return f"{choice.outcome}:{choice.reason}" if choice.outcome else "unfinished"


def _opened(complete: Complete, now: float) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "request_id": complete.request_id,
        "app": complete.app,
        "source": complete.source,
        "received_at": complete.received_at,
        "closed_at": now,
    }
    if isinstance(complete, WholeTrace):
        trace = complete.trace
        spans = sum(part.signal == "traces" for part in trace.parts)
        facts |= {"spans": spans, "records": len(trace.parts) - spans}
        facts |= {"closed": trace.closed.value, "probability": trace.probability}
    elif isinstance(complete, WholeRow):
        facts["probability"] = complete.probability
    return facts
