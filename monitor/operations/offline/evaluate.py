"""Evaluates the cases of a Python program: in a notebook, in a test, in a job.

result = evaluate(cases, ["groundedness"], judge="openai/gpt-4o-mini")
assert result["groundedness"].defect_rate.upper <= 0.05
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from pydantic import ValidationError

from monitor import registry
from monitor.config.entries import check_judge, read_evaluator
from monitor.errors import ConfigError, InvalidData
from monitor.errors.explanation import explain
from monitor.extraction import compose, rows
from monitor.extraction.rows.delivery import parse
from monitor.extraction.settings import ExtractionSettings, Turns
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case, Document, ReadingStatus, Request
from monitor.model.outcome import DefectRule, EvaluationResult, Score, Unscored
from monitor.operations.event_loop import run_async, unwrap_errors
from monitor.operations.gate import Report
from monitor.operations.offline.limits import DefectLimit, check_limits
from monitor.operations.offline.scoring import score_cases
from monitor.operations.offline.summary import ContentRisk, EvaluatorSummary, content_risk, sessions_of, summarize
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer, open_scorer
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Judge, Runtime
from monitor.storage.history.rows import as_json
from monitor.telemetry.metrics import total

Row: TypeAlias = Mapping[str, Any]
"""A case as a dictionary, in any shape that docs/rows.md lists."""

_DECLARED: Final = ("name", "version", "scale", "default_defect")
_EXPLANATION_LENGTH: Final = 300
_MOST_UNREAD: Final = 100
_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of `evaluate`.

    `results` has one result for each case and evaluator, in the order in which these were given. A row with a
    conversation is several cases; `positions` has the position of each case's row. `summaries` has the summary of each
    evaluator by name, as `result["groundedness"]` returns it. `content_risk` is over the four kinds of harm, None
    unless all of them were run. `excluded` has the rows that cannot be scored because a text is missing: the reason, by
    position. `dollars` is the cost of all calls, including those without a result. `unread_fields` has the fields of
    rows that are not read, with the number of rows, for the first hundred names.
    """

    results: Sequence[EvaluationResult] = field(repr=False)
    summaries: Mapping[str, EvaluatorSummary]
    content_risk: ContentRisk | None
    excluded: Mapping[int, str]
    dollars: float
    positions: Sequence[int] = field(repr=False, default=())
    unread_fields: Mapping[str, int] = field(repr=False, default_factory=dict)

    def __getitem__(self, evaluator: str) -> EvaluatorSummary:
        """Return the summary of one evaluator. Raises `KeyError`."""
        if evaluator not in self.summaries:
            raise KeyError(f"{evaluator!r} was not run; there are: {', '.join(self.summaries)}")
        return self.summaries[evaluator]

    @property
    def problems(self) -> list[str]:
        """A sentence for everything except good scores: defects, results without a score, and rows left out."""
        found = {at: [f"case {at} is left out: {why}"] for at, why in self.excluded.items()}
        for at, result in self._located():
            if result.defect or not isinstance(result.outcome, Score):
                found.setdefault(at, []).append(f"case {at}: {_problem(result, self[result.evaluator].rule)}")
        return [sentence for at in sorted(found) for sentence in found[at]]

    def records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary for each result, for `pandas.DataFrame`. `case` is its case's position."""
        return [{"case": at, **_record(result)} for at, result in self._located()]

    def gate(self, *limits: str) -> Report:
        """Check defect rates: `evaluation.gate("groundedness:5%", "violence:high:0.1%").answer` is `pass`, `fail`, ...

        Each limit is `EVALUATOR:RATE`, by the evaluator's own defect rule, or `EVALUATOR:LEVEL:RATE`, by scores of that
        level or a worse one. `pass`: the 95 % interval of every rate is below its limit; `fail`: the interval of one is
        above; `not_judged`: an evaluator has no score because every judgement failed; else `not_enough_data`. As text,
        the report says why. Raises `ConfigError` for an evaluator that was not run, an unknown level, or an invalid
        rate.
        """
        if not limits:
            raise ConfigError("gate: name an evaluator and its highest defect rate, such as groundedness:5%")
        scales = {name: one.scale for name, one in self.summaries.items()}
        read = [DefectLimit.read(text, scales) for text in limits]
        rows = [as_json(one, texts=False) for one in self.results]
        return check_limits(read, self.summaries.values(), rows, sessions_of(one.case for one in self.results))

    def _located(self) -> Iterator[tuple[int, EvaluationResult]]:
        """Yield each result with the position of its case."""
        each = len(self.summaries)
        return ((self.positions[number // each], result) for number, result in enumerate(self.results))


def evaluate(
    cases: Iterable[Case | Row],
    evaluators: Iterable[str | Row | Evaluator],
    *,
    judge: str | Mapping[str, Any] | JudgeSettings | Judge | None = None,
    turns: Turns = "all",
    row_prompt: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Score every case with every evaluator.

    A failure in an evaluator or of a judge is a result without a score, never an exception. Nothing is sampled, and
    nothing is stored. Fields of rows that are not read cause a `UserWarning`.

    Args:
        cases: cases, or rows as dictionaries in any shape of docs/rows.md.
        evaluators: names; dictionaries like the entries of the configuration, such as
            `{"type": "groundedness", "defect": {"below": 4}}`, whose `sample` is ignored; or your own evaluators.
        judge: the model that judged evaluators ask, as LiteLLM names it; a dictionary with the options of `judge` in
            the configuration; or your own judge, such as `monitor.testing.ScriptedJudge`.
        turns: which answers of a row with a conversation are scored: `all`, or the `last`.
        row_prompt: the prompt that the service builds from a row, such as
            `"Answer by the context. {context} {question}"`; `trustworthiness` needs it for rows without a field
            `prompt`.
        progress: called after each case with the number of cases done and the number of all cases.

    Raises:
        ConfigError: an evaluator does not exist, is wrongly configured, is given twice, or needs a judge.
        InvalidData: a case is neither a `Case` nor a row.
        RuntimeError: an event loop runs in this thread, as in Jupyter: use `await aevaluate(...)` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        found = run_async(
            partial(_evaluate, cases, evaluators, judge=judge, turns=turns, row_prompt=row_prompt, progress=progress)
        )
        _warn_of_unread(found)
        return found
    raise RuntimeError("evaluate() cannot wait inside a running event loop: use `await aevaluate(...)` there")


async def aevaluate(
    cases: Iterable[Case | Row],
    evaluators: Iterable[str | Row | Evaluator],
    *,
    judge: str | Mapping[str, Any] | JudgeSettings | Judge | None = None,
    turns: Turns = "all",
    row_prompt: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Do the same as `evaluate`, for programs with an event loop: services, Jupyter, async tests."""
    found = await _evaluate(cases, evaluators, judge=judge, turns=turns, row_prompt=row_prompt, progress=progress)
    _warn_of_unread(found)
    return found


def _warn_of_unread(found: Evaluation) -> None:
    """Warn of fields that are not read, at the line that called `evaluate` or `aevaluate`."""
    if found.unread_fields:
        names = [f"{name!r} ({count} row{'s' if count > 1 else ''})" for name, count in found.unread_fields.items()]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        warnings.warn(f"these fields are not read: {', '.join(names[:_NAMES_SHOWN])}{more}", stacklevel=3)


async def _evaluate(
    cases: Iterable[Case | Row],
    evaluators: Iterable[str | Row | Evaluator],
    *,
    judge: str | Mapping[str, Any] | JudgeSettings | Judge | None,
    turns: Turns,
    row_prompt: str | None,
    progress: Callable[[int, int], object] | None,
) -> Evaluation:
    settings, lent = _judge(judge)
    configured = _configured(evaluators, settings, can_ask=lent is not None or settings.model is not None)
    found, positions, excluded, unread = _read(cases, _extraction(turns, row_prompt))
    results: dict[int, list[EvaluationResult]] = {}

    def scored(at: int, of_case: list[EvaluationResult]) -> None:
        by_name = {one.evaluator: one for one in of_case}
        results[at] = [by_name[one.evaluator.name] for one in configured]
        if progress is not None:
            progress(len(results), len(found))

    runtime = Runtime.standalone()
    with unwrap_errors():
        async with _open_scorer(configured, settings, lent, runtime) as scorer:
            await score_cases(scorer, found, max_concurrency=settings.max_concurrency, scored=scored)
    ordered = tuple(one for at in range(len(found)) for one in results[at])
    written, sessions = [as_json(result, texts=False) for result in ordered], sessions_of(found)
    summaries = {
        one.evaluator.name: summarize(one, [row for row in written if row["evaluator"] == one.evaluator.name], sessions)
        for one in configured
    }
    paid = total(runtime.metrics.judge_cost) if lent is None else sum(one.cost.dollars for one in ordered)
    return Evaluation(
        ordered, summaries, content_risk(configured, written, sessions), excluded, paid, positions, unread
    )


@asynccontextmanager
async def _open_scorer(
    configured: Sequence[ConfiguredEvaluator], settings: JudgeSettings, lent: Judge | None, runtime: Runtime
) -> AsyncIterator[Scorer]:
    if lent is not None:
        yield Scorer(configured, {DEFAULT_JUDGE: lent}, runtime=runtime)
        return
    async with open_scorer(configured, {DEFAULT_JUDGE: settings}, runtime=runtime) as scorer:
        yield scorer


def _judge(given: str | Mapping[str, Any] | JudgeSettings | Judge | None) -> tuple[JudgeSettings, Judge | None]:
    """Return the settings of the judge, and the judge if one was passed: then the settings have no model."""
    if given is None:
        return JudgeSettings(), None
    if isinstance(given, JudgeSettings):
        return given, None
    if isinstance(given, str | Mapping):
        options = {"model": given} if isinstance(given, str) else dict(given)
        try:
            return JudgeSettings.model_validate(options), None
        except ValidationError as error:
            raise ConfigError(explain(error, JudgeSettings, options, place="judge")) from None
    if not callable(getattr(given, "ask", None)) or isinstance(given, type):
        raise ConfigError(f"judge: must be the name of a model or a dictionary of options, not {_kind(given)}")
    return JudgeSettings(), given


def _configured(
    given: Iterable[str | Row | Evaluator], settings: JudgeSettings, *, can_ask: bool
) -> list[ConfiguredEvaluator]:
    if isinstance(given, str | Mapping | Evaluator) or not isinstance(given, Iterable):
        raise ConfigError(f"evaluators: must be a list, such as ['groundedness'], not {_kind(given)}")
    found: dict[str, ConfiguredEvaluator] = {}
    for at, each in enumerate(given):
        place = f"evaluators[{at}]"
        one = _one(each, place)
        name = one.evaluator.name
        if name in found:
            raise ConfigError(f"{place}: {name!r} is given twice")
        check_judge(one, {DEFAULT_JUDGE: settings}, place)
        if one.evaluator.cost == "judge" and not can_ask:
            raise ConfigError(f"{place}: {name} asks a judge: name a model, such as judge='openai/gpt-4o-mini'")
        found[name] = one
    if not found:
        raise ConfigError("evaluators: name at least one evaluator to score with")
    return list(found.values())


def _one(given: object, place: str) -> ConfiguredEvaluator:
    if isinstance(given, str):
        return read_evaluator({"type": given}, place)
    if isinstance(given, Mapping):
        return read_evaluator({key: value for key, value in given.items() if key != "sample"}, place)
    if not isinstance(given, Evaluator):
        raise ConfigError(f"{place}: must be a name, a dictionary or an instance of `Evaluator`, not {_kind(given)}")
    lacks = [name for name in _DECLARED if not hasattr(given, name)]
    if lacks:
        raise ConfigError(f"{place}: the class {type(given).__name__} does not set {', '.join(lacks)}")
    return ConfiguredEvaluator(given, Uniform(rate=1.0), given.default_defect.on(given.scale))


def _extraction(turns: Turns, row_prompt: str | None) -> ExtractionSettings:
    try:
        return ExtractionSettings(turns=turns, row_prompt=row_prompt)
    except ValidationError as error:
        options = {"turns": turns, "row_prompt": row_prompt}
        raise ConfigError(explain(error, ExtractionSettings, options)) from None


class _ReadCases(NamedTuple):
    """Cases that can be scored, with their positions; reasons why others cannot, by position; fields not read."""

    cases: list[Case]
    positions: list[int]
    excluded: dict[int, str]
    unread: dict[str, int]


def _read(given: Iterable[Case | Row], settings: ExtractionSettings) -> _ReadCases:
    if hasattr(given, "to_dict"):
        raise InvalidData('cases: must be a list; for a pandas DataFrame, pass `df.to_dict("records")`')
    if isinstance(given, str | bytes | Mapping | Case) or not isinstance(given, Iterable):
        raise InvalidData(f"cases: must be a list of cases or rows, not {_kind(given)}")
    found, positions, excluded, unread = list[Case](), list[int](), dict[int, str](), dict[str, int]()
    read_trace = partial(compose.read, conventions=registry.conventions(), settings=settings)
    for at, one in enumerate(given):
        if isinstance(one, Case):
            found.append(_checked(one, f"cases[{at}]"))
            positions.append(at)
            continue
        if not isinstance(one, Mapping):
            raise InvalidData(f"cases[{at}]: must be a `Case` or a row (a dictionary), not {_kind(one)}")
        try:
            row = rows.recognise(_as_json_values(one))
        except InvalidData as error:
            raise InvalidData(f"cases[{at}]: {error}") from None
        for name in row.unused:
            if name in unread or len(unread) < _MOST_UNREAD:
                unread[name] = unread.get(name, 0) + 1
        read = settings.with_prompt(rows.read(row, read_trace, source="python", turns=settings.turns))
        answered = [one.case for one in read.readings if one.status is ReadingStatus.READY]
        found += answered
        positions += [at] * len(answered)
        if not answered:
            excluded[at] = read.last.error or str(read.last.status)
    return _ReadCases(found, positions, excluded, unread)


def _checked(case: Case, place: str) -> Case:
    """Return the case if its fields have the types that evaluators rely on."""
    texts = (case.request_id, case.response, case.app)
    if not isinstance(case.request, Request) or not all(isinstance(one, str) for one in (*texts, case.request.query)):
        raise InvalidData(
            f"{place}: `request` must be a `Request`, and texts a str; `Case.from_texts` builds such a case"
        )
    if not all(isinstance(one, Document) for one in case.retrieved_context):
        raise InvalidData(f"{place}: `retrieved_context` must be a tuple of `Document`")
    return case


def _as_json_values(row: Row) -> object:
    """Convert the row to JSON: lists for arrays, null for NaN, a replacement character for an unpaired surrogate."""
    try:
        return orjson.loads(orjson.dumps(dict(row), default=_plain))
    except TypeError as error:
        if "surrogates" not in str(error):
            raise InvalidData(f"the row cannot be written as JSON: {error}") from None
    written = json.dumps(dict(row), default=_plain, ensure_ascii=False)
    return parse(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode(), "the row")


def _plain(value: Any) -> Any:
    """Convert a value of numpy or pandas, or another collection, to one that JSON has."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(_kind(value))


def _problem(result: EvaluationResult, rule: DefectRule) -> str:
    outcome = result.outcome
    if isinstance(outcome, Score):
        return f"{result.evaluator} is {outcome.value:g} ({rule}): {outcome.explanation[:_EXPLANATION_LENGTH]}"
    detail = f": {outcome.detail}" if isinstance(outcome, Unscored) and outcome.detail else ""
    return f"{result.evaluator} is {outcome.kind}: {outcome.reason}{detail}"


def _record(result: EvaluationResult) -> dict[str, Any]:
    score = result.outcome if isinstance(result.outcome, Score) else None
    return {
        "request_id": result.case.request_id,
        "app": result.case.app,
        "query": result.case.request.query,
        "response": result.case.response,
        "evaluator": result.evaluator,
        "version": result.version,
        "outcome": result.outcome.kind,
        "reason": None if isinstance(result.outcome, Score) else str(result.outcome.reason),
        "detail": result.outcome.detail if isinstance(result.outcome, Unscored) else None,
        "score": score.value if score else None,
        "label": score.label if score else None,
        "level": result.level if score else None,
        "defect": result.defect if score else None,
        "explanation": score.explanation if score else None,
        "judge": result.cost.model,
        "dollars": result.cost.dollars,
        "input_tokens": result.cost.input_tokens,
        "output_tokens": result.cost.output_tokens,
        "seconds": result.cost.seconds,
        "cached": result.cost.cached,
    }


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__}"
