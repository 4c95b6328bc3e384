"""MLflow's tracing, sent over OTLP and kept in its own store (dual export): decorators, a chat agent, LangChain.

The same requests as MLflow's own trace JSON: give a folder in `TRACE_JSON`, then what the store returns
(`mlflow.get_trace(...).to_json()`) is written there as NAME.trace.json, with the facts in `expected.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ |= {"MLFLOW_TRACE_ENABLE_OTLP_DUAL_EXPORT": "true", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false"}

import mlflow
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document as LangChainDocument
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI
from library import CASES, asked, search
from mlflow.entities import Document, SpanType
from openai import OpenAI
from setups.mlflow__otlp.trace_json import keep

mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("harbour-bikes")
mlflow.openai.autolog()
mlflow.langchain.autolog()
client = OpenAI(max_retries=0)

KEPT = {("decorator", "follow_up"), ("decorator", "empty"), ("decorator", "error"), ("lcel", "plain")} | {
    ("chat_agent", "follow_up")
}
SYSTEM = "Answer from the context only."


def searches(case: dict[str, Any]) -> list[str]:
    """What is looked up for a case, one after the other."""
    return [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]


def numbered(texts: list[str]) -> str:
    """The context as it stands in the prompt."""
    return "\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1))


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(query: str) -> list[Document]:
    """Look up documents, in MLflow's own class for them."""
    hits = search(query)
    return [Document(h["text"], metadata={"doc_uri": h["uri"], "score": h["score"]}, id=h["id"]) for h in hits]


def prompt(case: dict[str, Any]) -> list[dict[str, str]]:
    """Retrieve, and write the messages for the model."""
    texts = [document.page_content for query in searches(case) for document in retrieve(query)]
    return [
        {"role": "system", "content": SYSTEM},
        *case["history"],
        {"role": "user", "content": f"Context:\n{numbered(texts)}\n\nQuestion: {case['question']}"},
    ]


def decorator(case: dict[str, Any]) -> None:
    """Functions with the decorator, and the span types said by hand."""

    @mlflow.trace(span_type=SpanType.CHAIN)
    def ask(question: str, chat_history: list[dict[str, str]]) -> str:
        mlflow.update_current_trace(session_id=case["session"], user="user-1")
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case))
        return completion.choices[0].message.content or ""

    @mlflow.trace(span_type=SpanType.CHAIN)
    def ask_streaming(question: str) -> Iterator[str]:
        mlflow.update_current_trace(session_id=case["session"], user="user-1")
        for chunk in client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case), stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    if case.get("stream"):
        list(ask_streaming(case["question"]))
    else:
        ask(case["question"], case["history"])


def chat_agent(case: dict[str, Any]) -> None:
    """An agent that takes and gives chat messages; it writes the session onto its span, where OTLP carries it."""

    @mlflow.trace(span_type=SpanType.AGENT)
    def predict(request: dict[str, Any]) -> dict[str, Any]:
        mlflow.get_current_active_span().set_attribute("session.id", case["session"])
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case))
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
    """A chain in LangChain's expression language, autologged; the calls of OpenAI's client inside it, too."""
    template = ChatPromptTemplate.from_messages(
        [
            ("system", f"{SYSTEM}\n\nContext:\n{{context}}"),
            MessagesPlaceholder("chat_history"),
            ("human", "{question}"),
        ]
    )
    look_up = (lambda state: state["search_query"]) | Library()
    chain = (
        RunnablePassthrough.assign(docs=look_up)
        | RunnablePassthrough.assign(context=lambda state: numbered([d.page_content for d in state["docs"]]))
        | template
        | ChatOpenAI(model="gpt-4o-mini", max_retries=0)
        | StrOutputParser()
    )
    given = {
        "question": case["question"],
        "chat_history": [(m["role"], m["content"]) for m in case["history"]],
        "search_query": searches(case)[0],
    }
    if case.get("stream"):
        list(chain.stream(given))
    else:
        chain.invoke(given)


def main() -> None:
    """All cases by decorator; the others, which are long on the wire, by some."""
    flavours = [(decorator, CASES), (chat_agent, CASES[:2]), (lcel, [one for one in CASES if "searches" not in one])]
    told: list[tuple[str, dict[str, Any], str]] = []
    for flavour, cases in flavours:
        for case in cases:
            try:
                flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            name = flavour.__name__
            asked(case, flavour=name, session_id=case["session"] if flavour is chat_agent else None)
            told.append((name, case, mlflow.get_last_active_trace_id() or ""))
    if os.environ.get("TRACE_JSON"):
        some = [one for one in told if (one[0], one[1]["name"]) in KEPT]
        keep(os.environ["TRACE_JSON"], some, prefix="", with_session={"decorator", "chat_agent"})


main()
