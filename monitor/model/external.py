"""A verdict that somebody else has reached on a request: another tool, or the user who got the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

USER_FEEDBACK: Final = "user_feedback"
"""The evaluator that the users are."""

LONGEST_NAME: Final = 128
LONGEST_TEXT: Final = 4_000
"""Characters of an explanation or a comment that are kept."""


class ScoreSource(StrEnum):
    """How a verdict came to be here: we reached it, or others did and told us so."""

    OWN = "own"
    GEN_AI_EVENTS = "gen_ai_events"  # events of the semantic conventions of OpenTelemetry
    OPENINFERENCE = "openinference"  # annotations on spans
    FEEDBACK = "feedback"  # a user's


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScore:
    """A verdict as it was told: nothing of it is judged yet.

    `request_id` is the trace id (hex) or the id of a row; `evaluator` the name that its author gives it; `value` is
    None and `label` empty where there is none. `annotator` is the kind of author as told (`HUMAN`, `LLM`, `CODE`), `at`
    the wall-clock second of the verdict, 0 where it does not say. `key` is the author's own id of it, `user` who
    reached it; neither leaves the monitor. `error`: its author came to no verdict, and why. `fault`: why it cannot be
    used at all, one of `FAULTS`. `app` is who sent it, which need not be the service that was judged. `probability`
    (0 < p <= 1) is that with which the trace it came in was kept; its inverse is the weight of the verdict. `linked`
    says that it came in another trace than the one that it is on.
    """

    request_id: str
    evaluator: str
    score_source: ScoreSource
    value: float | None = None
    label: str = ""
    explanation: str = ""
    span_id: str = ""
    app: str = ""
    annotator: str = ""
    at: float = 0.0
    key: str = ""
    user: str = ""
    error: str = ""
    fault: str = ""
    probability: float = 1.0
    linked: bool = False

    @property
    def by_user(self) -> bool:
        """Whether it is a user's word on the answer as a whole."""
        person = self.annotator.upper() == "HUMAN"
        return self.score_source is ScoreSource.FEEDBACK or (
            person and is_vote(self.score_source, self.evaluator, self.label)
        )

    @property
    def identity(self) -> str:
        """What tells it from other verdicts of this evaluator on this request; a repeat has the same. 16 hex digits.

        Without a key of its author's it is what was said by whom: who changes his mind has given two verdicts.
        """
        said = (self.key,) if self.key else (self.user, repr(self.value), self.label, self.error)
        text = "\x1f".join((self.score_source, self.span_id, *said))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


FAULTS: Final = ("no_name", "no_value", "no_request", "several_links")
"""Why a verdict cannot be used: its evaluator has no name, it says nothing, it does not say of which request, or it
says so of several."""

_THUMBS: Final = frozenset(
    {"thumbs_up", "thumbs_down", "up", "down", "like", "liked", "dislike", "disliked", "👍", "👎"}
)


def is_vote(via: object, evaluator: object, label: object) -> bool:
    """Whether verdicts like this are users' votes: feedback, and annotations that are named or labelled as such.

    An annotation is one only if a person made it.
    """
    if via == ScoreSource.OPENINFERENCE:
        return plain(str(evaluator)).startswith(USER_FEEDBACK) or plain(str(label)) in _THUMBS
    return via == ScoreSource.FEEDBACK


def plain(label: str) -> str:
    """A label as labels are compared: `Thumbs-Down` is `thumbs_down`."""
    return label.strip().lower().replace("-", "_").replace(" ", "_")


@dataclass(frozen=True, slots=True)
class FeedbackBatch:
    """One delivery of verdicts by `source`, its type."""

    source: str
    verdicts: Sequence[ExternalScore]
