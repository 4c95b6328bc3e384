"""Langfuse's SDK, version 3: decorators that name no types, spans made by hand, the handler for LangChain.

OpenAI's client is the one that Langfuse wraps, so that a call through LangChain is recorded twice, the one inside the
other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk-lf-none", "LANGFUSE_SECRET_KEY": "sk-lf-none"}
os.environ["LANGFUSE_HOST"] = os.environ["CAPTURE_URL"]

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI
from langfuse import get_client, observe
from langfuse.langchain import CallbackHandler
from langfuse.openai import OpenAI
from library import CASES, asked, search

langfuse = get_client()
client = OpenAI(max_retries=0)
SYSTEM = "Answer from the context only."


def searches(case: dict[str, Any]) -> list[str]:
    """What is looked up for a case, one after the other."""
    return [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]


def messages(case: dict[str, Any], texts: list[str]) -> list[dict[str, str]]:
    """The messages for the model, with the context numbered."""
    context = "\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1))
    return [
        {"role": "system", "content": SYSTEM},
        *case["history"],
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {case['question']}"},
    ]


@observe()
def retrieve(query: str) -> list[dict[str, Any]]:
    """Look up documents: a mere span to Langfuse."""
    return search(query)


def observed(case: dict[str, Any]) -> None:
    """Functions with the decorator; arguments by position, as most calls are written."""

    @observe()
    def ask(question: str, history: list[dict[str, str]]) -> str:
        langfuse.update_current_trace(session_id=case["session"], user_id="user-1", tags=["web"])
        texts = [hit["text"] for query in searches(case) for hit in retrieve(query)]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages(case, texts))
        return completion.choices[0].message.content or ""

    @observe()
    def ask_streaming(question: str) -> Iterator[str]:
        langfuse.update_current_trace(session_id=case["session"], user_id="user-1", tags=["web"])
        texts = [hit["text"] for hit in retrieve(question)]
        for chunk in client.chat.completions.create(model="gpt-4o-mini", messages=messages(case, texts), stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    if case.get("stream"):
        list(ask_streaming(case["question"]))
    else:
        ask(case["question"], case["history"])


def manual(case: dict[str, Any]) -> None:
    """Spans made by hand, in shapes of the application's own; the texts of the documents are a bare list."""
    with langfuse.start_as_current_span(name="rag", input={"question": case["question"]}) as root:
        root.update_trace(session_id=case["session"], user_id="user-1", metadata={"tenant": "north"})
        texts = []
        for query in searches(case):
            with langfuse.start_as_current_observation(as_type="retriever", name="search", input=query) as found:
                hits = search(query)
                found.update(output={"documents": [hit["text"] for hit in hits], "ids": [hit["id"] for hit in hits]})
                texts += [hit["text"] for hit in hits]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages(case, texts))
        root.update(output={"answer": completion.choices[0].message.content})


class Library(BaseRetriever):
    """The knowledge base as LangChain's retriever."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = search(query)
        return [Document(id=h["id"], page_content=h["text"], metadata={"source": h["uri"]}) for h in hits]


def lcel(case: dict[str, Any]) -> None:
    """A chain in LangChain's expression language with Langfuse's handler; the session stands in the metadata."""
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
        | RunnablePassthrough.assign(context=lambda state: "\n\n".join(d.page_content for d in state["docs"]))
        | template
        | ChatOpenAI(model="gpt-4o-mini", max_retries=0)
        | StrOutputParser()
    )
    given = {
        "question": case["question"],
        "chat_history": [(m["role"], m["content"]) for m in case["history"]],
        "search_query": searches(case)[0],
    }
    metadata = {"langfuse_session_id": case["session"], "langfuse_user_id": "user-1"}
    config = {"callbacks": [CallbackHandler()], "metadata": metadata}
    if case.get("stream"):
        list(chain.stream(given, config))
    else:
        chain.invoke(given, config)


def main() -> None:
    """All cases by decorator; by hand nothing is streamed, and the chain searches once."""
    by_hand = [one for one in CASES if not one.get("stream")]
    chained = [one for one in CASES if "searches" not in one]
    for flavour, cases in ((observed, CASES), (manual, by_hand), (lcel, chained)):
        for case in cases:
            try:
                flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            langfuse.flush()
            asked(case, flavour=flavour.__name__)
    langfuse.shutdown()


main()
