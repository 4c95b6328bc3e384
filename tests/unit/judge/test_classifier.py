"""Classifiers of pairs of texts in this process. Over HTTP: tests/integration/test_evaluators_http.py."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import pytest

from monitor.clock import SystemClock
from monitor.errors import ConfigError
from monitor.judge.classifier import HHEM, LONGEST_PAIR, InProcess, OverHTTP, check_classifier, open_classifier
from monitor.judge.provider import ModelCall
from monitor.judge.retry import CallFault
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import UnscoredReason

pytestmark = pytest.mark.anyio

PAIR = ({"role": "premise", "content": "Mars has two moons."}, {"role": "hypothesis", "content": "It has two."})


def settings(name: str = HHEM, **options: Any) -> JudgeSettings:
    return JudgeSettings.model_validate({"model": f"classifier/{name}", **options})


@pytest.fixture
def transformers(monkeypatch):
    """The two ways into the package, as its documentation and the model's card describe them."""
    made: list[tuple[Any, ...]] = []
    busy = threading.Lock()

    def predict(pairs: list[tuple[str, str]]) -> list[float]:
        assert busy.acquire(blocking=False), "two pairs at once"
        time.sleep(0.01)
        busy.release()
        return [0.0 if premise == hypothesis else 0.75 for premise, hypothesis in pairs]

    def from_pretrained(name: str, **options: Any) -> SimpleNamespace:
        made.append((name, options))
        return SimpleNamespace(predict=predict)

    def pipeline(task: str, **options: Any) -> Any:
        made.append((task, options))
        return lambda pair: [{"label": "entailment", "score": 0.5}, {"label": str(sorted(pair)), "score": 0.5}]

    package = ModuleType("transformers")
    package.AutoModelForSequenceClassification = SimpleNamespace(from_pretrained=from_pretrained)
    package.pipeline = pipeline
    monkeypatch.setitem(sys.modules, "transformers", package)
    return made


def test_a_missing_package_is_an_error_at_the_start_that_names_the_extra(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real("json", *rest)
    )
    with pytest.raises(
        ConfigError, match=r"^judges\.h\.model: .*torch is missing: install rag-monitor\[hhem\], or set"
    ):
        check_classifier(settings(), "judges.h")


def test_an_address_needs_no_package():
    assert isinstance(open_classifier(settings(api_base="http://127.0.0.1:9/predict"), SystemClock()), OverHTTP)


async def test_only_the_one_known_commit_of_hhem_may_run_its_own_code(transformers):
    judge = InProcess(settings())
    judge.load()
    ((name, options),) = transformers
    assert name == HHEM
    assert options["trust_remote_code"] is True
    assert len(options["revision"]) == 40
    assert options["revision"] == options["code_revision"]
    reply = await judge.complete(ModelCall(PAIR, max_tokens=1))
    assert json.loads(reply.text or "") == [{"label": "consistent", "score": 0.75}]


async def test_any_other_classifier_brings_no_code(transformers):
    judge = InProcess(settings("/models/nli"))
    judge.load()
    assert transformers == [("text-classification", {"model": "/models/nli", "top_k": None})]
    reply = await judge.complete(ModelCall(PAIR, max_tokens=1))
    assert [one["label"] for one in json.loads(reply.text or "")] == ["entailment", "['text', 'text_pair']"]


async def test_one_pair_at_a_time(transformers):
    judge = InProcess(settings())
    judge.load()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(lambda: judge.complete(ModelCall(PAIR, max_tokens=1)))


async def test_a_pair_that_could_take_all_memory_is_too_large(transformers):
    judge = InProcess(settings())
    judge.load()
    with pytest.raises(CallFault) as caught:
        await judge.complete(ModelCall((PAIR[0], {"role": "hypothesis", "content": "x" * LONGEST_PAIR}), max_tokens=1))
    assert caught.value.reason is UnscoredReason.TOO_LARGE


async def test_whatever_torch_raises_is_a_fault_without_its_text(transformers):
    judge = InProcess(settings())
    judge._model = SimpleNamespace(predict=lambda pairs: (_ for _ in ()).throw(RuntimeError(f"no memory for {pairs}")))
    with pytest.raises(CallFault) as caught:
        await judge.complete(ModelCall(PAIR, max_tokens=1))
    assert caught.value.reason is UnscoredReason.PROVIDER_ERROR
    assert str(caught.value) == "the classifier failed (RuntimeError)"


async def test_a_question_to_a_classifier_is_refused():
    judge = InProcess(settings())
    with pytest.raises(CallFault, match="cannot answer questions"):
        await judge.complete(ModelCall(({"role": "user", "content": "Score it."},), max_tokens=1))
