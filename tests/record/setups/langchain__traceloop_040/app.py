"""LangChain 0.3 under OpenLLMetry 0.40: an LCEL chain and the retrieval chain of the library."""

from __future__ import annotations

from typing import Any

from langchain.chains import create_retrieval_chain
from langchain.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI
from library import CASES, asked, search
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

REWRITTEN = {case["question"]: case.get("search_query") or case["question"] for case in CASES}
QUERIES = {case["question"]: [one["query"] for one in case.get("searches", ())] for case in CASES}

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangchainInstrumentor().instrument(tracer_provider=provider)


class HelpRetriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(id=hit["id"], page_content=hit["text"], metadata={"source": hit["uri"], "score": hit["score"]})
            for hit in search(query)
        ]


def to_queries(given: dict[str, Any]) -> list[str]:
    question = given["question"]
    return QUERIES[question] or [REWRITTEN[question]]


def flat(found: list[list[Document]]) -> list[Document]:
    return [document for documents in found for document in documents]


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


retriever = HelpRetriever()
model = ChatOpenAI(model="gpt-4o-mini", max_retries=0, stream_usage=True)
template = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from the context only.\n\nContext:\n{context}"),
        MessagesPlaceholder("history"),
        ("human", "{question}"),
    ]
)
find = RunnableLambda(to_queries) | retriever.map() | RunnableLambda(flat)
answer = template | model | StrOutputParser()
chain = RunnablePassthrough.assign(context=find | RunnableLambda(joined)) | answer


stuffed = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from the context only.\n\nContext:\n{context}"),
        MessagesPlaceholder("chat_history"),
        ("human", "{input}"),
    ]
)
retrieval_chain = create_retrieval_chain(retriever, create_stuff_documents_chain(model, stuffed))


def lcel(case: dict[str, Any], config: dict[str, Any]) -> None:
    given = {"question": case["question"], "history": case["history"]}
    if case.get("stream"):
        for _ in chain.stream(given, config):
            pass
    else:
        chain.invoke(given, config)


def classic(case: dict[str, Any], config: dict[str, Any]) -> None:
    retrieval_chain.invoke({"input": case["question"], "chat_history": case["history"]}, config)


RUNS = {  # few of each: the spans are fat
    lcel: ("plain", "follow_up", "error", "streaming", "two_retrievals"),
    classic: ("plain", "empty"),
}
for flavour, names in RUNS.items():
    for case in (one for one in CASES if one["name"] in names):
        try:
            flavour(case, {"metadata": {"session_id": case["session"]}})
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        asked(case, flavour=flavour.__name__)
provider.shutdown()
