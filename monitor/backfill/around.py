"""What judging afterwards uses of the process around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from monitor.judge.pause import Pause
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.pipeline.assignment import Assignment
from monitor.stages import Deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The surroundings. `assignments` are the evaluators that can work.

    `judges` are the settings of all judges by name, `versions` those of evaluators in this process. `deliver` hands a
    result to the sinks, `known` says which results (by id) have a verdict, `turn` waits for a turn at a judge, by its
    name, when nothing else does. `pauses` are those of the
    judges, where they are shared with others. `forgets` says whether somebody has asked for a case to be forgotten.
    """

    assignments: Sequence[Assignment]
    judges: Mapping[str, JudgeSettings]
    versions: Mapping[str, str]
    deliver: Deliver
    known: Callable[[Collection[str]], Awaitable[set[str]]]
    turn: Callable[[str], AbstractAsyncContextManager[object]]
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    forgets: Callable[[Case], bool] = lambda _case: False
    slices: Sequence[str] = ()
