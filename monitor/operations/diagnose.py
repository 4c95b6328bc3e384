"""Finds what the bad answers of a risen rate have in common, and since when: from the history, or files of results.

diagnose_rate(config, app="shop", evaluator="groundedness", window=6 * 3600).found.factors
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, NamedTuple

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.diagnosis import diagnose
from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor
from monitor.storage import files
from monitor.storage.history.features import features_of
from monitor.storage.history.reader import HistoryReader, JudgedAnswer
from monitor.storage.history.rows import from_json, load

BASELINE: Final = 7 * 86_400.0
"""Seconds before the searched time that bad answers are compared with."""

BASELINE_AT_MOST, SEARCHED_AT_MOST = 5_000, 10_000
"""The most answers that are read of both: the newest."""

EXAMPLES: Final = 3
_LONGEST_LINE: Final = 4 * 1024**2
_REFUSALS: Final = "refusal_pattern"
_FILE_KEY: Final = UserKey(bytes(32))  # nothing made with it is stored
_PARTS: Final = 5


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """A bad answer: its request, when it was given (seconds since 1970), and its score."""

    request_id: str
    at: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDiagnosis:
    """A diagnosis of the rate of one app and evaluator, `window` seconds up to `until`.

    `answers` is the number of judged answers that were read. `examples` has up to three bad answers for each factor, in
    its order, of different sessions or questions where there are some. `unread` counts lines of files that hold no
    result.
    """

    app: str
    evaluator: str
    window: float
    until: float
    answers: int
    found: Diagnosis
    examples: tuple[tuple[ExampleAnswer, ...], ...] = ()
    unread: int = 0


def diagnose_rate(
    config: Config, *, app: str, evaluator: str, window: float, clock: Clock | None = None
) -> RateDiagnosis:
    """Diagnose from the history in the storage folder, also while a monitor writes it.

    Args:
        config: of the monitor: its storage folder and its slices.
        app: the service.
        evaluator: by its defect rule, not by one that an alert brings itself.
        window: seconds in which the rate is higher; the rise is looked for in twice as many.
        clock: for now.

    Raises `MonitorError` where the history cannot be read, `ConfigError` where the evaluator is not configured.
    """
    known = [one.evaluator.name for one in config.configured_evaluators]
    if evaluator not in known:
        raise ConfigError(f"--evaluator {evaluator}: not one of {', '.join(sorted(known))}")
    now = (clock or SystemClock()).now()
    since = now - 2 * window
    history = HistoryReader(config.storage.path / files.HISTORY)
    before = history.judged_answers(app, evaluator, since - BASELINE, since, BASELINE_AT_MOST)
    searched = history.judged_answers(app, evaluator, since, now + 1, SEARCHED_AT_MOST)
    return _diagnosed([*before, *searched], _Asked(app, evaluator, window, now), config.slices)


def diagnose_results(
    paths: Iterable[Path], *, app: str, evaluator: str, window: float, slices: Sequence[str] = ()
) -> RateDiagnosis:
    """Diagnose from files of results, as the sinks `jsonl` and `kafka` write them; those of all replicas together.

    The newest answer is now. Rows without texts have no words, documents and lengths. Raises `OSError`.

    Args:
        paths: files with one result a line.
        app: as in `diagnose_rate`.
        evaluator: as in `diagnose_rate`.
        window: as in `diagnose_rate`.
        slices: the configured ones, which are also looked at two together.
    """
    answers: dict[str, JudgedAnswer] = {}
    refused: dict[str, bool] = {}
    unread = 0
    for line in _lines(paths):
        try:
            one = from_json(load(line))
            if one.case.app != app or not isinstance(one.outcome, Score) or one.score_source is not ScoreSource.OWN:
                continue
            if one.evaluator == _REFUSALS and evaluator != _REFUSALS:
                refused[one.case.request_id] = one.defect
            if one.evaluator == evaluator and one.scope is RateScope.LIVE:
                answers[one.case.request_id] = _answer(one, one.outcome.value)
        except (ValueError, TypeError, AttributeError, KeyError):  # a row of strangers may hold anything
            unread += 1
    now = max((one.at for one in answers.values()), default=0.0)
    newest = heapq.nlargest(
        BASELINE_AT_MOST + SEARCHED_AT_MOST, answers.values(), key=lambda one: (one.at, one.request_id)
    )
    read = [
        one._replace(refused=refused.get(one.request_id)) for one in newest if one.at >= now - 2 * window - BASELINE
    ]
    return _diagnosed(read, _Asked(app, evaluator, window, now), slices, unread)


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                if line.strip():
                    yield line


def _answer(one: EvaluationResult, score: float) -> JudgedAnswer:
    """Read an answer of a file. Raises `ValueError`, `TypeError`, `AttributeError` where it is none."""
    at, weight = min(float(one.case.answered_at or one.evaluated_at), float(one.evaluated_at)), float(one.weight)
    if not (math.isfinite(at) and math.isfinite(weight) and weight > 0):
        raise ValueError("neither a time nor a weight is infinite, and a weight is above 0")
    features = features_of(one.case, one.service_version, _FILE_KEY)
    return JudgedAnswer(str(one.case.request_id), at, weight, bool(one.defect), float(score), features, refused=None)


class _Asked(NamedTuple):
    app: str
    evaluator: str
    window: float
    until: float


def _diagnosed(answers: Sequence[JudgedAnswer], asked: _Asked, slices: Sequence[str], unread: int = 0) -> RateDiagnosis:
    search_from = asked.until - 2 * asked.window
    describe = _Describing([one for one in answers if one.at < search_from], slices)
    cases = [JudgedCase(one.at, one.defect, one.features.unit, describe.factors(one), one.weight) for one in answers]
    found = diagnose(cases, search_from)
    examples = tuple(_examples(one, found, list(zip(answers, cases, strict=True))) for one in found.factors)
    return RateDiagnosis(**asked._asdict(), answers=len(answers), found=found, examples=examples, unread=unread)


def _examples(
    one: FoundFactor, found: Diagnosis, answers: Sequence[tuple[JudgedAnswer, JudgedCase]]
) -> tuple[ExampleAnswer, ...]:
    """Return the newest bad answers with a factor, of different units first."""
    since = found.onset.at if found.onset is not None else 0.0
    bad = [
        answer
        for answer, case in answers
        if answer.defect and answer.at >= since and all(part in case.factors for part in one.parts)
    ]
    bad.sort(key=lambda answer: (-answer.at, answer.request_id))
    units: dict[str, JudgedAnswer] = {}
    for answer in bad:
        units.setdefault(answer.features.unit, answer)
    firsts = list(units.values())
    rest = [answer for answer in bad if answer not in firsts] if len(firsts) < EXAMPLES else []
    return tuple(ExampleAnswer(one.request_id, one.at, one.score) for one in [*firsts, *rest][:EXAMPLES])


class _Describing:
    """Turns features into factors. Scores and lengths are cut into five parts at the quantiles of the baseline."""

    def __init__(self, baseline: Sequence[JudgedAnswer], slices: Sequence[str]) -> None:
        self._slices = frozenset(slices)
        features = [one.features for one in baseline]
        self._scores = _cuts([one.score for one in features if one.score is not None])
        self._questions = _cuts([one.question_length for one in features if one.question_length])
        self._answers = _cuts([one.answer_length for one in features if one.answer_length])

    def factors(self, answer: JudgedAnswer) -> tuple[Factor, ...]:
        """Return the factors of an answer."""
        one = answer.features
        known = dict(one.slices)
        found = [Factor("slice", name, value, pairs=name in self._slices) for name, value in known.items()]
        values = set(known.values())
        named = {"model": one.model, **{f"{name} version": value for name, value in one.versions.items()}}
        named = {name: value for name, value in named.items() if value and value not in values}
        named |= {"context": one.context.replace("_", " "), "user": one.user}
        named |= {
            "retriever score": _part(one.score, self._scores),
            "question length": _part(one.question_length or None, self._questions),
        }
        if one.context != "no_retrieval":
            named["documents"] = _number(one.number)
        found += [Factor("slice", name, value) for name, value in named.items() if value]
        outcomes = {"answer length": _part(one.answer_length or None, self._answers)}
        if answer.refused is not None:
            outcomes["refusal"] = "yes" if answer.refused else "no"
        found += [Factor("slice", name, value, outcome=True) for name, value in outcomes.items() if value]
        found += [Factor("document", "document", address) for address in one.documents]
        folders = dict.fromkeys(_folder(address) for address in one.documents)
        found += [Factor("document", "folder", folder) for folder in folders if folder]
        found += [Factor("word", "word", word) for word in one.words]
        return tuple(found)


def _folder(address: str) -> str:
    return address.rpartition("/")[0].rstrip("/")


def _cuts(values: Sequence[float]) -> tuple[float, ...]:
    """Return the four values that cut others into five parts; none without enough different ones."""
    return tuple(quantiles(values, n=_PARTS)) if len(set(values)) >= _PARTS else ()


def _part(value: float | None, cuts: Sequence[float]) -> str:
    """Return which part a value is in, in words; empty where it is not known."""
    if value is None or not cuts:
        return ""
    at = bisect_right(cuts, value)
    if at == 0:
        return f"below {cuts[0]:.3g}"
    return f"{cuts[at - 1]:.3g} or more" if at == len(cuts) else f"{cuts[at - 1]:.3g} to {cuts[at]:.3g}"


def _number(documents: int) -> str:
    limits = ((0, "0"), (2, "1 or 2"), (4, "3 or 4"), (5, "5"))
    return next((name for most, name in limits if documents <= most), "6 or more")


def as_object(one: RateDiagnosis) -> Mapping[str, Any]:
    """Return a diagnosis in plain JSON types; times are seconds since 1970, rates and shares 0 to 1."""
    found = one.found
    return {
        "app": one.app,
        "evaluator": one.evaluator,
        "window": one.window,
        "until": one.until,
        "answers": one.answers,
        "unread": one.unread,
        "state": found.state,
        "onset": _plain(found.onset, "at", "earliest", "latest"),
        "judged": found.judged,
        "bad": found.bad,
        "rate_before": _plain(found.rate_before, *_RATE),
        "rate_since": _plain(found.rate_since, *_RATE),
        "visible": found.visible,
        "factors": [_object(*pair) for pair in zip(found.factors, one.examples, strict=True)],
        "switched": [_named(factor) for factor in found.switched],
    }


_RATE: Final = ("rate", "lower", "upper")


def _object(one: FoundFactor, examples: Sequence[ExampleAnswer]) -> Mapping[str, Any]:
    return {
        **_named(one.factor),
        "how": one.how,
        "share": _plain(one.share, "value", "lower", "upper"),
        "inside": _plain(one.inside, *_RATE),
        "outside": _plain(one.outside, *_RATE),
        "before": one.before,
        "onset": _plain(one.onset, "at", "earliest", "latest"),
        "cases": one.cases,
        "bad": one.bad,
        "part_now": one.part_now,
        "part_before": one.part_before,
        "likewise": [_named(factor) for factor in one.likewise],
        "examples": [_plain(example, "request_id", "at", "score") for example in examples],
    }


def _named(factor: Factor) -> Mapping[str, str]:
    return {"kind": factor.kind, "name": factor.name, "value": factor.value}


def _plain(value: object, *names: str) -> Mapping[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in names}
