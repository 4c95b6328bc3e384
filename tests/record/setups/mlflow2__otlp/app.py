"""MLflow 2: decorators with a type given as text, and LangChain autologged. OTLP was then sent instead of being stored.

With a folder in `TRACE_JSON` it answers some requests a second time, into MLflow's store, for the trace JSON of that
version (schema 2); see `mlflow__otlp/app.py`.
"""

from __future__ import annotations

import os
from typing import Any

os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{os.environ['CAPTURE_URL']}/v1/traces"

import mlflow
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document as LangChainDocument
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI
from library import CASES, asked, search
from mlflow.entities import Document, SpanType
from openai import OpenAI
from setups.mlflow__otlp.trace_json import keep

mlflow.set_tracking_uri("./mlruns")
mlflow.set_experiment("harbour-bikes")
mlflow.openai.autolog()
mlflow.langchain.autolog()
client = OpenAI(max_retries=0)


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(query: str) -> list[Document]:
    """Look up documents, in MLflow's own class for them."""
    return [Document(h["text"], metadata={"doc_uri": h["uri"]}, id=h["id"]) for h in search(query)]


def decorator(case: dict[str, Any]) -> None:
    """Functions with the decorator."""

    @mlflow.trace(span_type="CHAIN")
    def ask(question: str, chat_history: list[dict[str, str]]) -> str:
        queries = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or question]
        texts = [document.page_content for query in queries for document in retrieve(query)]
        context = "\n\n".join(texts)
        messages = [
            {"role": "system", "content": f"Answer from the context only.\n\nContext:\n{context}"},
            *chat_history,
            {"role": "user", "content": question},
        ]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        return completion.choices[0].message.content or ""

    ask(case["question"], case["history"])


class Library(BaseRetriever):
    """The knowledge base as LangChain's retriever."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[LangChainDocument]:
        hits = search(query)
        return [LangChainDocument(id=h["id"], page_content=h["text"], metadata={"source": h["uri"]}) for h in hits]


def lcel(case: dict[str, Any]) -> None:
    """The usual chain: the question alone goes in."""
    template = ChatPromptTemplate.from_template("Use the context.\n\nContext:\n{context}\n\nQuestion: {question}")
    together = Library() | (lambda found: "\n\n".join(document.page_content for document in found))
    chain = (
        {"context": together, "question": RunnablePassthrough()}
        | template
        | ChatOpenAI(model="gpt-4o-mini", max_retries=0)
        | StrOutputParser()
    )
    if case.get("stream"):
        list(chain.stream(case["question"]))
    else:
        chain.invoke(case["question"])


def main() -> None:
    """The follow-up needs its history, which the chain does not take."""
    simple = [one for one in CASES if one["name"] in ("plain", "empty", "streaming")]
    for flavour, cases in ((decorator, CASES), (lcel, simple)):
        for case in cases:
            if case.get("stream") and flavour is decorator:
                continue
            try:
                flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            asked(case, flavour=flavour.__name__, session_id=None)
    if os.environ.get("TRACE_JSON"):
        del os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        mlflow.tracing.reset()
        told = []
        for flavour, case in ((decorator, CASES[1]), (lcel, CASES[0])):
            flavour(case)
            told.append((flavour.__name__, case, mlflow.get_last_active_trace_id() or ""))
        keep(os.environ["TRACE_JSON"], told, prefix="schema2_", with_session=set())


main()
