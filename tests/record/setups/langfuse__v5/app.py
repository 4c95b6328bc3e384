"""Langfuse's SDK, version 5: decorators that name their types, spans made by hand, the handler for LangChain.

Sessions and users are given once, around the request. OpenAI's client is the one that Langfuse wraps, so that a call
through LangChain is recorded twice, one inside the other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk-lf-none", "LANGFUSE_SECRET_KEY": "sk-lf-none"}
os.environ["LANGFUSE_BASE_URL"] = os.environ["CAPTURE_URL"]

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langfuse import get_client, observe, propagate_attributes
from langfuse.langchain import CallbackHandler
from langfuse.openai import AsyncOpenAI, OpenAI
from library import CASES, DOCUMENTS, asked, search

langfuse = get_client()
client = OpenAI(max_retries=0)
SYSTEM = "Answer from the context only."


def searches(case: dict[str, Any]) -> list[str]:
    """What is looked up for a case, one after the other."""
    return [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]


def prompt(case: dict[str, Any], texts: list[str]) -> list[dict[str, str]]:
    """The messages for the model, with the context numbered."""
    context = "\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1))
    return [
        {"role": "system", "content": SYSTEM},
        *case["history"],
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {case['question']}"},
    ]


@observe(as_type="retriever")
def retrieve(query: str) -> list[dict[str, Any]]:
    """Look up documents."""
    return search(query)


def observed(case: dict[str, Any]) -> None:
    """Functions with the decorator; arguments by name."""

    @observe(as_type="chain")
    def ask(question: str, history: list[dict[str, str]]) -> str:
        texts = [hit["text"] for query in searches(case) for hit in retrieve(query)]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case, texts))
        return completion.choices[0].message.content or ""

    @observe(as_type="chain")
    def ask_streaming(question: str) -> Iterator[str]:
        texts = [hit["text"] for hit in retrieve(question)]
        for chunk in client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case, texts), stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    if case.get("stream"):
        list(ask_streaming(question=case["question"]))
    else:
        ask(question=case["question"], history=case["history"])


def manual(case: dict[str, Any]) -> None:
    """Spans made by hand, in shapes of the application's own; the texts of the documents are a bare list."""
    given = {"question": case["question"]}
    with langfuse.start_as_current_observation(as_type="span", name="rag", input=given) as root:
        texts = []
        for query in searches(case):
            with langfuse.start_as_current_observation(as_type="retriever", name="search", input=query) as found:
                hits = search(query)
                found.update(output=[hit["text"] for hit in hits])
                texts += [hit["text"] for hit in hits]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=prompt(case, texts))
        root.update(output={"answer": completion.choices[0].message.content})


class Library(BaseRetriever):
    """The knowledge base as LangChain's retriever."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = search(query)
        return [Document(id=h["id"], page_content=h["text"], metadata={"source": h["uri"]}) for h in hits]


def lcel(case: dict[str, Any]) -> None:
    """A chain in LangChain's expression language with Langfuse's handler."""
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
    config = {"callbacks": [CallbackHandler()]}
    if case.get("stream"):
        list(chain.stream(given, config))
    else:
        chain.invoke(given, config)


@tool
def search_help(query: str) -> str:
    """Search the help pages."""
    return "\n\n".join(hit["text"] for hit in search(query)) or "No results."


def agent(case: dict[str, Any]) -> None:
    """An agent of LangChain that searches with a tool, once or several times."""
    made = create_agent(ChatOpenAI(model="gpt-4o-mini", max_retries=0), [search_help], system_prompt=SYSTEM)
    sent = [*case["history"], {"role": "user", "content": case["question"]}]
    made.invoke({"messages": sent}, {"callbacks": [CallbackHandler()]})


def of_agent(case: dict[str, Any]) -> dict[str, Any]:
    """What differs with an agent: each result of its tool is one text, and the model is called twice."""
    texts = [search_help.invoke(query) for query in searches(case)] if case["documents"] else []
    return {"contexts": texts, "total_tokens": 230}


class Assistant:
    """A service in a class, with asynchronous methods; what it finds is reranked before it is used."""

    def __init__(self) -> None:
        self.client = AsyncOpenAI(max_retries=0)

    @observe(as_type="retriever")
    async def find(self, query: str) -> list[Document]:
        """What is found, and one document more that does not matter."""
        hits = [*search(query), DOCUMENTS["doc-02"]]
        return [Document(id=h["id"], page_content=h["text"], metadata={"source": h["uri"]}) for h in hits]

    @observe(name="rerank")
    async def best(self, found: list[Document]) -> list[Document]:
        """All but the last."""
        return found[:-1]

    @observe(as_type="agent")
    async def answer(self, messages: list[dict[str, str]], case: dict[str, Any]) -> dict[str, Any]:
        """Answer the last message."""
        best = await self.best(await self.find(searches(case)[0]))
        sent = prompt(case, [document.page_content for document in best])
        completion = await self.client.chat.completions.create(model="gpt-4o-mini", messages=sent)
        return {"role": "assistant", "content": completion.choices[0].message.content}


def service(case: dict[str, Any]) -> None:
    """A request to the class above."""
    sent = [*case["history"], {"role": "user", "content": case["question"]}]
    asyncio.run(Assistant().answer(sent, {"search_query": searches(case)[0], **case}))


def main() -> None:
    """All cases by decorator; some of them by the other flavours, which are long on the wire."""
    by_hand = [one for one in CASES if not one.get("stream")]
    chained = [one for one in CASES if one["name"] in ("plain", "follow_up", "streaming")]
    few = [one for one in CASES if one["name"] in ("plain", "empty", "two_retrievals")]
    for flavour, cases in ((observed, CASES), (manual, by_hand), (lcel, chained), (agent, few), (service, CASES[:2])):
        for case in cases:
            around = {"session_id": case["session"], "user_id": "user-1", "metadata": {"tenant": "north"}}
            try:
                with propagate_attributes(**around):
                    flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            langfuse.flush()
            asked(case, flavour=flavour.__name__, **(of_agent(case) if flavour is agent else {}))
    langfuse.shutdown()


main()
