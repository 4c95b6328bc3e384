"""Where a judge errs: what its labelled errors have in common, by the factors that a diagnosis compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from monitor.jobs.diagnosis.factors import FactorReader
from monitor.jobs.topics import read_topics, topic_factors
from monitor.model.label import Label
from monitor.statistics.judge_errors import JudgeErrors, LabelledAnswer, judge_errors
from monitor.statistics.review import truth_of
from monitor.storage import files
from monitor.storage.history.answers import AnswerReader

LABELS_AT_MOST: Final = 5_000
"""The most labelled results that are compared: the newest."""

_DAYS: Final = 2 * 86_400.0


def find_errors(
    folder: Path, slices: Sequence[str], app: str, evaluator: str, labels: Mapping[str, Sequence[Label]]
) -> JudgeErrors:
    """Compare the errors of the judge with its other labelled results of an app. Blocks; raises `MonitorError`.

    Only labels that measure the judge count, and only those whose answers are still in the history.

    Args:
        folder: the storage folder.
        slices: the configured ones, which are also examined in pairs.
        app: the app of the results.
        evaluator: the evaluator that judged.
        labels: labels of one of its versions, by result, oldest first.
    """
    told = [of_one for of_one in labels.values() if of_one[-1].app == app and of_one[-1].draw.measures]
    known = {of_one[-1].request_id: of_one for of_one in told[-LABELS_AT_MOST:] if truth_of(of_one) is not None}
    history = folder / files.HISTORY
    if not known or not history.exists():
        return JudgeErrors(answers=0, missed=0, alarmed=0)
    answers = AnswerReader(history).answers_of(app, evaluator, known)
    topics = read_topics(folder / files.STATE, app)
    times = [one.at for one in answers]
    reader = FactorReader(answers, slices, hours=bool(times) and max(times) - min(times) >= _DAYS)
    return judge_errors(
        LabelledAnswer(
            one.features.unit,
            known[one.request_id][-1].judged_defect,
            bool(truth_of(known[one.request_id])),
            known[one.request_id][-1].design_weight,
            (*reader.factors(one), *topic_factors(topics, one.features)),
        )
        for one in answers
    )
