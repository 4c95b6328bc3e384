"""DSPy: a module around dspy.Retrieve, and one around a retriever of its own, which leaves no span."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import dspy
from library import CASES, asked, case, search
from openinference.instrumentation import using_session
from openinference.instrumentation.dspy import DSPyInstrumentor
from openinference.instrumentation.litellm import LiteLLMInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
DSPyInstrumentor().instrument(tracer_provider=provider)


def library_rm(query: str, k: int = 3) -> list[SimpleNamespace]:
    return [SimpleNamespace(long_text=hit["text"]) for hit in search(query)[:k]]


dspy.configure(
    lm=dspy.LM(
        "openai/gpt-4o-mini",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key="not-a-key",
        cache=False,
        num_retries=0,
        engine="litellm",
    ),
    rm=library_rm,
)


class OwnRetrieve(dspy.Retrieve):
    """A retriever that asks its store itself."""

    def forward(self, query: str, k: int | None = None) -> dspy.Prediction:
        return dspy.Prediction(passages=[hit["text"] for hit in search(query)[: k or self.k]])


class WithHistory(dspy.Signature):
    """Answer from the context only."""

    context: list[str] = dspy.InputField()
    history: dspy.History = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def queries(question: str) -> list[str]:
    chosen = next(one for one in CASES if one["question"] == question)
    return [one["query"] for one in chosen.get("searches", ())] or [chosen.get("search_query") or question]


class RAG(dspy.Module):
    def __init__(self, retrieve: dspy.Retrieve) -> None:
        super().__init__()
        self.retrieve = retrieve
        self.respond = dspy.ChainOfThought("context: list[str], question: str -> answer: str")

    def forward(self, question: str) -> dspy.Prediction:
        context = [text for query in queries(question) for text in self.retrieve(query).passages]
        return self.respond(context=context, question=question)


class Chat(dspy.Module):
    def __init__(self, retrieve: dspy.Retrieve) -> None:
        super().__init__()
        self.retrieve = retrieve
        self.respond = dspy.Predict(WithHistory)

    def forward(self, question: str, history: dspy.History) -> dspy.Prediction:
        context = [text for query in queries(question) for text in self.retrieve(query).passages]
        return self.respond(context=context, question=question, history=history)


def ask(case: dict, retrieve: dspy.Retrieve) -> None:
    if case["history"]:
        (asked_before, said) = case["history"]
        history = dspy.History(messages=[{"question": asked_before["content"], "answer": said["content"]}])
        Chat(retrieve)(question=case["question"], history=history)
    elif case.get("stream"):
        asyncio.run(stream(RAG(retrieve), case["question"]))
    else:
        RAG(retrieve)(question=case["question"])


async def stream(module: dspy.Module, question: str) -> None:
    listeners = [dspy.streaming.StreamListener(signature_field_name="answer")]
    async for _ in dspy.streamify(module, stream_listeners=listeners)(question=question):
        pass


def run(flavour: str, retrieve: dspy.Retrieve, name: str, **facts) -> None:
    with using_session(case(name)["session"]):
        try:
            ask(case(name), retrieve)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__, error)
    asked(case(name), flavour=flavour, **facts)


NO_TOKENS = {"total_tokens": None}  # DSPy's own spans do not count them

for name in ("plain", "follow_up", "empty", "error", "streaming"):
    run("rm", dspy.Retrieve(k=3), name, **NO_TOKENS)
for name in ("follow_up", "empty", "two_retrievals"):
    run("own_rm", OwnRetrieve(k=3), name, **NO_TOKENS)
LiteLLMInstrumentor().instrument(tracer_provider=provider)
run("with_litellm", OwnRetrieve(k=3), "two_retrievals", request_model="openai/gpt-4o-mini")
provider.shutdown()
