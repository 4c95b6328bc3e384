"""Judge the faithfulness of the cases on standard input with this product, or only make its calls with litellm.

python -m benchmarks.peers.with_ours ours|bare URL WARM
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.metadata
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx

import monitor
from monitor import registry
from monitor.clock import SystemClock
from monitor.judge import codec
from monitor.judge.client import open_judge
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.stages import Evaluator, Prompt, Question, Runtime, Verdict

MODEL: Final = "openai/gpt-4o-mini"
_EVALUATOR: Final = registry.read("evaluators", {"type": "faithfulness"}, Evaluator, "evaluators[0]")


def read_cases() -> list[Case]:
    """Return the cases on standard input."""
    return [Case.from_texts(one["question"], one["answer"], one["documents"]) for one in json.load(sys.stdin)]


class _Asked(Exception):  # noqa: N818 - it carries a question, it is no error
    pass


class _Recorder:
    """A judge that answers nothing and records its questions."""

    model = MODEL
    max_characters = 10**9

    def __init__(self) -> None:
        self.question: Question | Prompt | None = None

    async def ask(self, question: Question | Prompt) -> Verdict:
        self.question = question
        raise _Asked


async def timed(count: int, warm: int, one: Callable[[int], Awaitable[float]], version: str) -> None:
    """Print version, seconds of processor time for the cases after the first `warm`, and the scores."""
    scores, began = [], 0.0
    for number in range(count):
        if number == warm:
            gc.collect()
            gc.freeze()
            began = time.process_time()
        scores.append(await one(number))
    used = time.process_time() - began
    print(json.dumps({"version": version, "seconds": used, "scores": scores}))


async def ours(url: str, warm: int) -> None:
    """Evaluate the cases: the question, the call, parsing the answer, and the score."""
    cases = read_cases()
    settings = JudgeSettings.model_validate({"model": MODEL, "api_key": "none", "api_base": url})
    async with open_judge(settings, Runtime.standalone(SystemClock()), rng=random.Random(1)) as judge:
        await judge.loaded()

        async def one(number: int) -> float:
            found = await _EVALUATOR.evaluate(cases[number], judge)
            assert isinstance(found, Score)
            return found.value

        await timed(len(cases), warm, one, monitor.__version__)


async def bare(url: str, warm: int) -> None:
    """Send the same messages with litellm and nothing else, over the same HTTP client."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm  # noqa: PLC0415 - takes seconds

    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True
    litellm.aclient_session = httpx.AsyncClient()
    calls = [await _call(case) for case in read_cases()]

    async def one(number: int) -> float:
        call = calls[number]
        options: dict[str, Any] = {"max_tokens": call.max_tokens, "response_format": call.response_format}
        found = await litellm.acompletion(
            model=MODEL, messages=list(call.messages), temperature=0.0, api_base=url, api_key="none", **options
        )
        return float(bool(found.choices[0].message.content))

    await timed(len(calls), warm, one, importlib.metadata.version("litellm"))


async def _call(case: Case) -> codec.ModelCall:
    recorder = _Recorder()
    with contextlib.suppress(_Asked):
        await _EVALUATOR.evaluate(case, recorder)
    assert recorder.question is not None
    return codec.encode(recorder.question, bytes(32), codec.RequestForm(recorder.question.max_tokens))


if __name__ == "__main__":
    asyncio.run({"ours": ours, "bare": bare}[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
