"""Tries an evaluator on one case, several times: what was sent, what came back, and how often the result flips.

case = find_case(config, "rows.jsonl")
trial = await try_evaluator(config, "groundedness", case)
"""

from __future__ import annotations

from pathlib import Path

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.trial import run
from monitor.jobs.trial.run import TrialResult, TrialRun, of_row
from monitor.model.case import Case, Reading, ReadingStatus
from monitor.operations.offline.files import CaseFiles
from monitor.operations.offline.scoring import choose_evaluators
from monitor.operations.progress import Report, ignore
from monitor.privacy import audit
from monitor.stages import Runtime
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader
from monitor.telemetry.events import Event

__all__ = ["TrialResult", "TrialRun", "find_case", "try_evaluator"]


async def try_evaluator(config: Config, evaluator: str, case: Case, *, times: int = 5) -> TrialResult:
    """Evaluate a case `times` times, one after another, without any cache.

    A configured evaluator keeps its options and judge, and is asked together with its group, as in production. The type
    of an evaluator that is not configured also works. No metric, cache or budget of a running monitor is touched.
    Raises `ConfigError` for an evaluator that does not exist, and if its judge cannot work.
    """
    (tried,) = choose_evaluators(config, [evaluator])
    together = run.group(tried, [one for one in config.configured_evaluators if config.works(one)])
    settings = config.judge_of(tried) if tried.evaluator.cost == "judge" else None
    return await run.run(together, case, times, settings=settings, runtime=Runtime.standalone())


def find_case(config: Config, name: str, number: int | None = None, *, report: Report = ignore) -> Case:
    """Return a case: `name` is the path of a file that exists, or the id of a trace in the history.

    `number` is the number of the case in the file, from 1; None: the first that can be evaluated. `report` gets
    messages about what cannot be read in the file. Raises `ConfigError` that says why there is no such case.
    """
    path = Path(name)
    return _in_file(config, path, number, report) if path.exists() else _in_history(config, name)


def _in_file(config: Config, path: Path, number: int | None, report: Report) -> Case:
    seen = 0
    why = "it has no case"
    for reading in CaseFiles([path], config.extraction, report=report).readings():
        seen += 1
        if number is None:
            if reading.status is ReadingStatus.READY:
                return reading.case
            why = f"none of its {seen} can be evaluated; the last one is {_status(reading)}"
        elif seen == number:
            if reading.status is ReadingStatus.READY:
                return reading.case
            raise ConfigError(f"case: number {number} of {path} cannot be evaluated: {_status(reading)}")
    if number is not None and seen:
        why = f"it has {seen}"
    raise ConfigError(f"case: there is no case {f'{number} ' if number else ''}to evaluate in {path}: {why}")


def _status(reading: Reading) -> str:
    return f"{reading.status}: {reading.error}" if reading.error else str(reading.status)


def _in_history(config: Config, trace_id: str) -> Case:
    path = config.storage.path / files.HISTORY
    if not path.exists():
        raise ConfigError(f"case: {trace_id!r} is not a file, and there is no history at {path} to look for a trace")
    try:
        found = HistoryReader(path).by_trace(trace_id)
    except MonitorError as error:
        raise ConfigError(f"case: {error}") from None
    if not found:
        raise ConfigError(f"case: {trace_id!r} is neither a file nor a trace in the history at {path}")
    row = next((one for one in found if "response" in one), None)
    if row is None:
        raise ConfigError(
            f"case: the history has trace {trace_id} without its texts; `storage.texts: all` stores those of new traces"
        )
    case = of_row(row)
    if case is None:
        raise ConfigError(f"case: the texts of trace {trace_id} in the history cannot be read")
    audit.record(config.storage.path, Event.TEXTS_VIEWED, by="try", requests=[trace_id])
    return case
