"""The topics of each app's questions, updated every hour and kept across restarts: their names stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import anyio

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.jobs.own_process import in_own_process
from monitor.model.case import Case
from monitor.stages.kept_state import KeptState
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.topics import (
    OTHER,
    TOPICS_AT_MOST,
    QuestionTopic,
    QuestionWords,
    renewed,
    topic_of,
    topic_words,
)
from monitor.storage.history.answers import AnswerReader
from monitor.storage.history.features import CaseFeatures, words_of
from monitor.storage.state_file import kept_value

EVERY: Final = 3600.0
"""Seconds between two looks at the questions."""

WINDOW: Final = 14 * 86_400.0
"""How many seconds of questions are looked at, as far as the history reaches back."""

APPS_AT_MOST: Final = 100
QUESTIONS_AT_MOST: Final = 20_000
"""The most questions per app: the newest."""

TOPIC: Final = "topic"
"""The name of the factor and of the slice."""

_STATE: Final = "topics"
_FIRST: Final = 60.0  # seconds after the start, so that a start is quick
_LONGEST: Final = 64
_LONGEST_LOOK: Final = 600.0  # seconds


class TopicKeeper:
    """Keeps the topics of the apps in the history of the running monitor.

    `hashed` returns the hash that the history keeps in place of a word; None: it keeps the word.
    """

    def __init__(
        self, history: Path, state: KeptState, clock: Clock, *, hashed: Callable[[str], str] | None = None
    ) -> None:
        self._history = history
        self._hashed = hashed
        self._clock = clock
        self._value: dict[str, object] = dict(state.load(_STATE) or {})
        self._topics = _read(self._value)
        state.follow(_STATE, self._value.copy)

    def of(self, app: str) -> tuple[QuestionTopic, ...]:
        """Return the topics of an app, the rarest first."""
        return self._topics.get(app, ())

    def name_of(self, case: Case) -> str:
        """Return the topic of a question, as used in the slice, or `OTHER`."""
        return _name_of(self._topics.get(case.app, ()), case, self._hashed)

    async def run(self) -> None:
        """Look at the questions every hour, until cancelled."""
        await anyio.sleep(_FIRST)
        while True:
            await self.renew()
            await anyio.sleep(EVERY)

    async def renew(self) -> None:
        """Look at the questions now. If the history cannot be read, the topics stay as they are."""
        try:
            found = await in_own_process(
                renewed_topics, self._history, self._topics, self._clock.now(), name="the topics", longest=_LONGEST_LOOK
            )
        except MonitorError:  # the history's writer reports it
            return
        self._topics = found
        apps = {app: [list(one) for one in topics] for app, topics in found.items()}
        self._value.update(at=self._clock.now(), apps=apps)  # with a time: a value that never changes is deleted


def renewed_topics(
    history: Path, kept: Mapping[str, Sequence[QuestionTopic]], now: float
) -> dict[str, tuple[QuestionTopic, ...]]:
    """Return the topics by app, updated with the latest questions. Takes up to a second for each busy app.

    Raises `MonitorError` if the history cannot be read.
    """
    reader, found = AnswerReader(history), {}
    for app in reader.apps(now - WINDOW, APPS_AT_MOST):
        rows = reader.question_features(app, now - WINDOW, QUESTIONS_AT_MOST)
        topics = renewed(kept.get(app, ()), [QuestionWords(one.unit, one.words) for one in rows])
        if topics:
            found[app] = topics
    return found


def read_topics(state: Path, app: str) -> tuple[QuestionTopic, ...]:
    """Return the topics of an app as last kept by the running monitor; none if there is no such file."""
    try:
        return _read(kept_value(state, _STATE) or {}).get(app, ())
    except MonitorError:
        return ()


def kept_names(state: Path, hashed: Callable[[str], str] | None) -> Callable[[Case], str]:
    """Return a function that names a question's topic, like `TopicKeeper.name_of` but outside the running monitor."""
    topics = cache(partial(read_topics, state))
    return lambda case: _name_of(topics(case.app), case, hashed)


def _name_of(topics: Sequence[QuestionTopic], case: Case, hashed: Callable[[str], str] | None) -> str:
    if not topics:
        return OTHER
    words = words_of(case.request.query)
    return topic_words(topic_of(topics, words if hashed is None else map(hashed, words)))


def topic_factors(topics: Sequence[QuestionTopic], features: CaseFeatures) -> tuple[Factor, ...]:
    """Return the topic of a question as a factor of a diagnosis; empty if it has no topic.

    A slice of the service with the same name takes precedence.
    """
    name = topic_of(topics, features.words)
    return () if name == OTHER or TOPIC in features.slices else (Factor("slice", TOPIC, topic_words(name)),)


def _read(value: Mapping[str, Any]) -> dict[str, tuple[QuestionTopic, ...]]:
    """Read the kept topics; leave out those that cannot be read."""
    found: dict[str, tuple[QuestionTopic, ...]] = {}
    apps = value.get("apps")
    for app, rows in apps.items() if isinstance(apps, dict) else ():
        try:
            topics = tuple(QuestionTopic(str(key), str(name)[:_LONGEST], float(share)) for key, name, share in rows)
        except (TypeError, ValueError):
            continue
        found[app] = topics[:TOPICS_AT_MOST]
    return found
