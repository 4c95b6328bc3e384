"""LangChain under OpenLIT: an LCEL chain, a LangGraph and an agent with a retriever for a tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import openlit
from langchain import agents
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from library import CASES, asked, search
from opentelemetry import trace

REWRITTEN = {case["question"]: case.get("search_query") or case["question"] for case in CASES}
QUERIES = {case["question"]: [one["query"] for one in case.get("searches", ())] for case in CASES}

prices = Path("prices.json")  # else it fetches a list from the network
prices.write_text("{}")
openlit.init(
    application_name="harbour-bikes-openlit-langchain",
    pricing_json=str(prices),
    disable_metrics=True,
    disabled_instrumentors=["urllib"],  # the facts are posted by it: no traces of that
)


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


class State(TypedDict, total=False):
    question: str
    history: list[dict[str, str]]
    documents: list[Document]
    answer: str


def retrieve(state: State) -> State:
    return {"documents": flat([retriever.invoke(query) for query in to_queries(state)])}


def generate(state: State) -> State:
    return {"answer": answer.invoke({**state, "context": joined(state["documents"])})}


graph = StateGraph(State)
graph.add_node("retrieve", retrieve)
graph.add_node("generate", generate)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "generate")
graph.add_edge("generate", END)
compiled = graph.compile()

tool = create_retriever_tool(retriever, "search_help", "Search the help pages of the bike rental.")
agent = agents.create_agent(model, tools=[tool], system_prompt="Answer from what the search finds only.")
trace.get_tracer_provider().force_flush()  # making the agent is a trace of its own


@openlit.trace
def answer_question(question: str, history: list[dict[str, str]], config: dict[str, Any], *, stream: bool) -> str:
    given = {"question": question, "history": history}
    return "".join(chain.stream(given, config)) if stream else chain.invoke(given, config)


def lcel(case: dict[str, Any], config: dict[str, Any]) -> None:
    """A chain has no span: retrieval and call would be two traces without the decorator around."""
    answer_question(case["question"], case["history"], config, stream=bool(case.get("stream")))


def langgraph(case: dict[str, Any], config: dict[str, Any]) -> None:
    compiled.invoke({"question": case["question"], "history": case["history"]}, config)


def tool_agent(case: dict[str, Any], config: dict[str, Any]) -> None:
    agent.invoke({"messages": [*case["history"], {"role": "user", "content": case["question"]}]}, config)


RUNS = {
    lcel: ("plain", "follow_up", "empty", "streaming", "two_retrievals"),
    langgraph: ("follow_up", "empty"),
    tool_agent: ("plain", "error", "two_retrievals"),
}
for flavour, names in RUNS.items():
    for case in (one for one in CASES if one["name"] in names):
        try:
            flavour(case, {"metadata": {"session_id": case["session"]}})
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        facts: dict[str, Any] = {"total_tokens": 230} if flavour is tool_agent else {}  # it calls the model twice
        if case.get("stream"):
            facts["status"] = "incomplete"  # the span of a streamed call never ends, only its log record comes
        asked(case, flavour=flavour.__name__, **facts)
trace.get_tracer_provider().shutdown()
