"""MLflow's tracing in the words of OpenTelemetry's GenAI conventions: its exporter translates, and says less.

A retriever keeps nothing but its kind, so the documents stand in the prompt alone.
"""

from __future__ import annotations

import os
from typing import Any

os.environ["MLFLOW_ENABLE_OTEL_GENAI_SEMCONV"] = "true"

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

mlflow.openai.autolog()
mlflow.langchain.autolog()
client = OpenAI(max_retries=0)


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(query: str) -> list[Document]:
    """Look up documents, in MLflow's own class for them."""
    return [Document(h["text"], metadata={"doc_uri": h["uri"]}, id=h["id"]) for h in search(query)]


def messages(case: dict[str, Any]) -> list[dict[str, str]]:
    """Retrieve, and write the messages for the model."""
    queries = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]
    texts = [document.page_content for query in queries for document in retrieve(query)]
    context = "\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1))
    return [
        {"role": "system", "content": "Answer from the context only."},
        *case["history"],
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {case['question']}"},
    ]


def decorator(case: dict[str, Any]) -> None:
    """A chain, of which nothing but the kind is sent."""

    @mlflow.trace(span_type=SpanType.CHAIN)
    def ask(question: str, chat_history: list[dict[str, str]]) -> str:
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages(case))
        return completion.choices[0].message.content or ""

    ask(case["question"], case["history"])


def chat_agent(case: dict[str, Any]) -> None:
    """An agent that takes and gives chat messages, which are sent."""

    @mlflow.trace(span_type=SpanType.AGENT)
    def predict(request: dict[str, Any]) -> dict[str, Any]:
        mlflow.get_current_active_span().set_attribute("session.id", case["session"])
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages(case))
        return {"choices": [{"index": 0, "message": completion.choices[0].message.to_dict()}]}

    predict({"messages": [*case["history"], {"role": "user", "content": case["question"]}]})


class Library(BaseRetriever):
    """The knowledge base as LangChain's retriever."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[LangChainDocument]:
        hits = search(query)
        return [LangChainDocument(id=h["id"], page_content=h["text"], metadata={"source": h["uri"]}) for h in hits]


def lcel(case: dict[str, Any]) -> None:
    """The usual chain: the question alone goes in."""
    template = ChatPromptTemplate.from_messages(
        [("system", "Answer from the context only.\n\nContext:\n{context}"), ("human", "{question}")]
    )
    together = Library() | (lambda found: "\n\n".join(document.page_content for document in found))
    model = ChatOpenAI(model="gpt-4o-mini", max_retries=0)
    chain = {"context": together, "question": RunnablePassthrough()} | template | model | StrOutputParser()
    chain.invoke(case["question"])


def main() -> None:
    """The chain takes no history and joins its documents without marks, so that they are one text in its prompt."""
    whole = [one for one in CASES if not one.get("stream")]
    simple = [one for one in CASES if one["name"] in ("plain", "empty", "error")]
    for flavour, cases in ((decorator, whole), (chat_agent, whole), (lcel, simple)):
        for case in cases:
            try:
                flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            joined = "\n\n".join(one["text"] for one in search(case["question"])) if flavour is lcel else ""
            contexts = {"contexts": [joined]} if joined else {}
            session = case["session"] if flavour is chat_agent else None
            asked(case, flavour=flavour.__name__, session_id=session, **contexts)


main()
