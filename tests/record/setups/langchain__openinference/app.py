"""LangChain as people write it: LCEL, `create_retrieval_chain`, a small LangGraph, an agent with a search tool."""

from __future__ import annotations

from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from library import CASES, asked, case, search
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)

SYSTEM = "Answer from the context only.\n\nContext:\n{context}"


class LibraryRetriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager) -> list[Document]:
        return [
            Document(id=hit["id"], page_content=hit["text"], metadata={"source": hit["uri"], "score": hit["score"]})
            for hit in search(query)
        ]


llm = ChatOpenAI(model="gpt-4o-mini", max_retries=0, stream_usage=True)
retriever = LibraryRetriever()
prompt = ChatPromptTemplate(
    [("system", SYSTEM), MessagesPlaceholder("chat_history", optional=True), ("human", "{input}")]
)


def queries(question: str) -> list[str]:
    """What to search for: a question that leans on the conversation is put into words of its own."""
    chosen = next(one for one in CASES if one["question"] == question)
    return [one["query"] for one in chosen.get("searches", ())] or [chosen.get("search_query") or question]


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


lcel = (
    RunnablePassthrough.assign(
        docs=RunnableLambda(lambda state: queries(state["input"]))
        | retriever.map()
        | RunnableLambda(lambda lists: [document for documents in lists for document in documents])
    )
    | RunnablePassthrough.assign(context=lambda state: joined(state["docs"]))
    | prompt
    | llm
    | StrOutputParser()
)

classic = create_retrieval_chain(
    RunnableLambda(lambda state: queries(state["input"])[0]) | retriever, create_stuff_documents_chain(llm, prompt)
)


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    context: list[Document]


def retrieve(state: State) -> dict:
    return {"context": [d for query in queries(state["messages"][-1].content) for d in retriever.invoke(query)]}


def generate(state: State) -> dict:
    *history, question = state["messages"]
    chat = prompt.invoke({"context": joined(state["context"]), "chat_history": history, "input": question.content})
    return {"messages": [llm.invoke(chat)]}


builder = StateGraph(State)
builder.add_node("retrieve", retrieve)
builder.add_node("generate", generate)
builder.add_edge(START, "retrieve")
builder.add_edge("retrieve", "generate")
builder.add_edge("generate", END)
langgraph = builder.compile(checkpointer=InMemorySaver())

agent = create_agent(
    llm,
    [create_retriever_tool(retriever, "search_help", "Searches the help pages of Harbour Bikes.")],
    system_prompt="Answer from what search_help finds.",
    checkpointer=InMemorySaver(),
)


def messages(case: dict) -> list[AnyMessage]:
    kinds = {"user": HumanMessage, "assistant": AIMessage}
    return [kinds[turn["role"]](turn["content"]) for turn in case["history"]]


def run_chain(chain, case: dict) -> None:
    given = {"input": case["question"], **({"chat_history": messages(case)} if case["history"] else {})}
    config = {"metadata": {"session_id": case["session"]}}
    if case.get("stream"):
        for _ in chain.stream(given, config):
            pass
    else:
        chain.invoke(given, config)


def run_graph(graph, case: dict) -> None:
    given = {"messages": [*messages(case), HumanMessage(case["question"])]}
    config = {"configurable": {"thread_id": case["session"]}}
    if case.get("stream"):
        for _ in graph.stream(given, config, stream_mode="messages"):
            pass
    else:
        graph.invoke(given, config)


ONE_CALL, TWO_CALLS = 115, 230  # tokens

FLAVOURS = (
    ("lcel", run_chain, lcel, ONE_CALL, ("plain", "error", "streaming")),
    ("classic", run_chain, classic, ONE_CALL, ("follow_up", "empty")),
    ("langgraph", run_graph, langgraph, ONE_CALL, ("follow_up", "two_retrievals")),
    ("agent", run_graph, agent, TWO_CALLS, ("streaming", "two_retrievals")),
)
for flavour, run, application, tokens, names in FLAVOURS:
    for name in names:
        try:
            run(application, case(name))
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        asked(case(name), flavour=flavour, total_tokens=tokens)
provider.shutdown()
