"""The components that docs/ shows how to write work as they are written."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor import config, registry
from monitor.errors import ConfigError
from monitor.extraction.compose import read
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case, Document, ReadingStatus, Request
from monitor.model.outcome import Score, Skipped
from monitor.model.row import RowBatch
from monitor.stages import Evaluator
from monitor.testing import ScriptedJudge
from tests.support import surface
from tests.support.components import TRIVIAL
from tests.support.intakes import RecordingIntake
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.tools import until
from tests.support.traces import Builder
from tests.support.written import module, of_page

WRITING = ("writing-a-dialect.md", "writing-a-source.md", "writing-an-evaluator.md")
CASE = Case(
    request_id="7" * 32,
    request=Request("How long is the warranty?"),
    response="Two years, see https://acme.test/warranty. We will call you tomorrow.",
    retrieved_context=(Document("The warranty is two years.", "https://acme.test/warranty"),),
)


def written(name: str, code: str) -> Any:
    return getattr(module(f"written_{name.lower()}", code), name)


def score(evaluator: Evaluator, judge: ScriptedJudge | None = None) -> Score:
    outcome = anyio.run(evaluator.evaluate, CASE, judge)
    assert isinstance(outcome, Score)
    assert evaluator.scale.holds(outcome.value)
    return outcome


def test_the_evaluator_that_is_an_algorithm_scores() -> None:
    made = written("CitesSources", of_page("writing-an-evaluator.md", "python")[0])
    assert score(made()).value == 1
    assert score(made(at_least=2)).value == 0


def test_the_evaluator_that_asks_a_judge_asks_and_scores() -> None:
    made = written("Promises", of_page("writing-an-evaluator.md", "python")[1])
    judge = ScriptedJudge([{"explanation": "It promises a call.", "promises": True}])
    assert score(made(), judge).value == 1
    assert judge.questions[0].material == {"response": CASE.response}


@pytest.mark.parametrize("response", TRIVIAL)
def test_the_evaluator_that_asks_a_judge_skips_a_response_without_content(response: str) -> None:
    made = written("Promises", of_page("writing-an-evaluator.md", "python")[1])
    judge = ScriptedJudge(lambda _: pytest.fail("the judge was asked"))
    assert isinstance(anyio.run(made().evaluate, replace(CASE, response=response), judge), Skipped)


def test_the_test_that_the_page_shows_passes() -> None:
    algorithm, asking, test = of_page("writing-an-evaluator.md", "python")
    module("written_test", f"{algorithm}\n{asking}\n{test}").test_a_promise_is_a_defect()


def test_the_rubric_is_an_evaluator_under_the_configuration_beside_it(tmp_path: Path) -> None:
    (rubric,) = of_page("writing-an-evaluator.md", "markdown")
    (entry,) = of_page("writing-an-evaluator.md", "yaml")
    (tmp_path / "tone.md").write_text(rubric)
    (tmp_path / "config.yaml").write_text(entry + "alerts: []\njudge: {model: openai/x}\n")
    (assignment,) = config.load(tmp_path / "config.yaml").configured_evaluators
    assert assignment.evaluator.name == "tone"
    judge = ScriptedJudge(lambda question: {"explanation": "'Do it yourself.'", "score": question.schema and 1})
    assert score(assignment.evaluator, judge).label in ("rude", "")


@pytest.mark.parametrize("page", ["python.md", "extending.md", *WRITING])
def test_a_page_imports_nothing_but_what_is_promised(page: str) -> None:
    for code in of_page(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "monitor":
                assert node.module in surface.MODULES
                assert {alias.name for alias in node.names} <= set(surface.names(node.module))


def test_the_sink_writes_the_defects_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made, lines = written("SystemLog", of_page("extending.md", "python")[0]), []
    monkeypatch.setattr("syslog.syslog", lambda _priority, line: lines.append(line))

    async def deliver() -> None:
        async with made().open(runtime()) as deliver_some:
            await deliver_some([judged(1), judged(2, 1.0)])

    anyio.run(deliver)
    assert lines == [f"groundedness: {2:032x}"]


def test_the_source_hands_on_what_is_appended_and_says_when_it_cannot_work(tmp_path: Path) -> None:
    made = written("AppendedFile", of_page("writing-a-source.md", "python")[0])
    path = tmp_path / "rows.jsonl"
    path.write_text('{"request": "before", "response": "it began"}\n')

    async def run(listening: Callable[[str], None], intake: RecordingIntake) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(made(path=path).run, intake, runtime(), listening)
            await until(lambda: said, "the source")
            with path.open("a") as file:
                file.write('{"request": "How long?", "response": "Two years."}\nnonsense\n{"request": "cut')
            await until(lambda: intake.batches, "a batch")
            beside.cancel_scope.cancel()

    said: list[str] = []
    intake = RecordingIntake()
    anyio.run(run, said.append, intake)
    (batch,) = intake.batches
    assert isinstance(batch, RowBatch)
    assert said == [str(path)]
    assert (len(batch.rows), batch.invalid) == (1, 1)
    with pytest.raises(ConfigError, match="cannot be read"):
        anyio.run(made(path=tmp_path / "none").run, RecordingIntake(), runtime(), said.append)


def test_the_dialect_reads_its_spans_into_a_case() -> None:
    acme = written("Acme", of_page("writing-a-dialect.md", "python")[0])()
    built = Builder()
    root = built.span("ask", {"acme.step": "ask", "acme.question": "How long?", "acme.answer": "Two years."})
    hits = '[{"text": "The warranty is two years.", "id": "w"}]'
    built.span("search", {"acme.step": "search", "acme.question": "warranty", "acme.hits": hits}, root)
    (reading,) = read(built.trace(), (*registry.conventions(), acme), ExtractionSettings()).readings
    assert reading.status is ReadingStatus.READY
    assert (reading.case.request.query, reading.case.response) == ("How long?", "Two years.")
    assert [one.content for one in reading.case.retrieved_context] == ["The warranty is two years."]
