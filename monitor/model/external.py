"""External scores: scores of other tools, and user feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

USER_FEEDBACK: Final = "user_feedback"
"""Name of the evaluator under which users' feedback is counted."""

LONGEST_NAME: Final = 128
LONGEST_TEXT: Final = 4_000
"""Maximum characters kept of an explanation or a comment."""


class ScoreSource(StrEnum):
    """Where a score came from: this monitor, or another tool or user."""

    OWN = "own"
    GEN_AI_EVENTS = "gen_ai_events"  # events of the semantic conventions of OpenTelemetry
    OPENINFERENCE = "openinference"  # annotations on spans
    FEEDBACK = "feedback"  # a user's


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScore:
    """A score as received, not yet interpreted.

    `request_id` is the trace id (hex) or the id of a row; `evaluator` the name that its author uses; `value` is None
    and `label` empty if not given. `annotator` is the kind of author as sent (`HUMAN`, `LLM`, `CODE`), `at` the time of
    the score in seconds since the epoch, 0 if unknown. `key` is the author's own id for it, `user` who gave it; neither
    leaves the monitor. `error`: why its author gave no score. `fault`: why it cannot be used, one of `FAULTS`. `app` is
    the sender, not necessarily the service that was scored. `probability` (0 < p <= 1) is the probability with which
    the trace it came in was kept; its inverse is the weight. `linked`: it came in a different trace from the one it is
    about.
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
        """Whether it is a user's feedback on the answer as a whole."""
        person = self.annotator.upper() == "HUMAN"
        return self.score_source is ScoreSource.FEEDBACK or (
            person and is_vote(self.score_source, self.evaluator, self.label)
        )

    @property
    def identity(self) -> str:
        """Distinguishes scores of one evaluator on one request; a repeat has the same identity. 16 hex digits.

        Without `key` it is derived from user, value and label, so a user who changes their mind has given two scores.
        """
        said = (self.key,) if self.key else (self.user, repr(self.value), self.label, self.error)
        text = "\x1f".join((self.score_source, self.span_id, *said))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


FAULTS: Final = ("no_name", "no_value", "no_request", "several_links")
"""Why an external score cannot be used: no evaluator name, no value, no request id, or several."""

_THUMBS: Final = frozenset(
    {"thumbs_up", "thumbs_down", "up", "down", "like", "liked", "dislike", "disliked", "👍", "👎"}
)


def is_vote(via: object, evaluator: object, label: object) -> bool:
    """Return whether such scores are user votes: feedback, and annotations named or labelled as such.

    An annotation counts only if a person made it.
    """
    if via == ScoreSource.OPENINFERENCE:
        return plain(str(evaluator)).startswith(USER_FEEDBACK) or plain(str(label)) in _THUMBS
    return via == ScoreSource.FEEDBACK


def plain(label: str) -> str:
    """Normalise a label for comparison: `Thumbs-Down` becomes `thumbs_down`."""
    return label.strip().lower().replace("-", "_").replace(" ", "_")


@dataclass(frozen=True, slots=True)
class FeedbackBatch:
    """One delivery of external scores; `source` is the type of the source."""

    source: str
    external_scores: Sequence[ExternalScore]
