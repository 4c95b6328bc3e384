"""The examples of docs/python.md do what the page says: the judge is real LiteLLM over HTTP, to a scripted model."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import anyio
import pytest

from monitor.statistics.rates import Sums, estimate
from tests.support import llm as say
from tests.support.llm import LLMServer
from tests.support.written import of_page

ANSWERS = [
    {"question": "How long?", "contexts": ["A book may be kept for three weeks."], "answer": "Three weeks."},
    {"question": "How long?", "contexts": ["A book may be kept for three weeks."], "answer": "Ten days."},
]


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    """A judge for whoever names a model of OpenAI and nothing else. It finds every answer as good as can be."""
    with LLMServer() as server:
        server.always(say.verdict(claims=[], explanation="scripted", score=5))
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


class Frame:
    """The little of a `pandas.DataFrame` that the page uses."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows

    def __getitem__(self, key: object) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def groupby(self, column: str) -> Self:
        assert all(column in row for row in self.rows)
        return self

    def mean(self) -> float:
        return sum(row["score"] for row in self.rows) / len(self.rows)


@pytest.fixture
def page(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the examples leave behind, run one after the other."""
    pandas = types.ModuleType("pandas")
    pandas.read_csv = lambda _path: Frame(ANSWERS)  # type: ignore[attr-defined]
    pandas.DataFrame = Frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    names: dict[str, Any] = {"__name__": "page"}
    for code in of_page("python.md", "python"):
        made = eval(compile(code, "python.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(made):

            async def run(example: Any = made) -> None:
                await example

            anyio.run(run)
    return names


def test_the_examples_run_and_their_tests_pass(
    page: dict[str, Any], llm: LLMServer, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = [name for name in page if name.startswith("test_")]
    assert len(tests) == 3
    for name in tests:
        page[name]()
    assert page["found"].mean() == pytest.approx((1.0 + 0.0) / 2, abs=0.5)


def test_the_tests_of_the_page_fail_when_answers_get_worse_and_when_there_are_no_scores(
    page: dict[str, Any], llm: LLMServer
) -> None:
    for reply in (say.verdict(claims=[], explanation="scripted", score=1), say.truncated()):
        llm.always(reply)
        for name in ("test_the_answer_is_grounded", "test_at_most_five_percent_of_the_answers_are_ungrounded"):
            with pytest.raises(AssertionError):
                page[name]()


@pytest.mark.lengthy
def test_a_failure_prints_what_the_evaluator_says(llm: LLMServer, tmp_path: Path) -> None:
    llm.always(say.verdict(claims=[], explanation="The documents say nothing of it.", score=1))
    (code,) = [one for one in of_page("python.md", "python") if "def test_the_answer_is_grounded" in one]
    (tmp_path / "test_answers.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path, "test_answers.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "case 0: groundedness is 1 (below 3): The documents say nothing of it." in ended.stdout


def test_the_numbers_of_answers_that_a_bound_needs_are_those_of_the_product() -> None:
    def upper(defects: int, cases: int) -> float:
        found = estimate(Sums.counted(cases, defects))
        assert found is not None
        return found.upper

    stated = "needs 72 answers without a defect, 109 with one, 142 with two"
    assert stated in (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    for defects, cases in ((0, 72), (1, 109), (2, 142)):
        assert upper(defects, cases) <= 0.05 < upper(defects, cases - 1)
