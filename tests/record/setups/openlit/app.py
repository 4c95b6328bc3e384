"""OpenLIT: functions under its decorator around OpenAI's client, and `openlit.init()` with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openlit
from library import CASES, asked, search
from openai import OpenAI
from opentelemetry import trace

prices = Path("prices.json")  # else it fetches a list from the network
prices.write_text("{}")
openlit.init(
    application_name="harbour-bikes-openlit",
    pricing_json=str(prices),
    disable_metrics=True,
    disabled_instrumentors=["urllib"],  # the facts are posted by it: no traces of that
)
client = OpenAI(max_retries=0)


def prompt(question: str, history: list[dict[str, str]], found: list[dict[str, Any]]) -> list[dict[str, str]]:
    context = "\n".join(f"[{number}] {hit['text']}" for number, hit in enumerate(found, 1))
    return [
        {"role": "system", "content": "Answer from the context only."},
        *history,
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {question}"},
    ]


def complete(messages: list[dict[str, str]], *, stream: bool) -> str:
    if not stream:
        return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = client.chat.completions.create(model="gpt-4o-mini", messages=messages, **options)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@openlit.trace
def find_articles(query: str) -> list[dict[str, Any]]:
    return search(query)


@openlit.trace
def find_texts(query: str) -> list[str]:
    return [hit["text"] for hit in search(query)]


@openlit.trace
def answer_question(question: str, history: list[dict[str, str]], queries: list[str], *, stream: bool = False) -> str:
    found = [hit for query in queries for hit in find_articles(query)]
    return complete(prompt(question, history, found), stream=stream)


@openlit.trace
def answer_plainly(question: str, queries: list[str], *, stream: bool = False) -> dict[str, Any]:
    texts = [text for query in queries for text in find_texts(query)]
    answer = complete(prompt(question, [], [{"text": text} for text in texts]), stream=stream)
    return {"answer": answer, "contexts": texts}


class HelpDesk:
    """Methods: the object itself is the first of their arguments."""

    @openlit.trace
    def find(self, query: str) -> list[dict[str, Any]]:
        return search(query)

    @openlit.trace
    def ask(self, question: str, queries: list[str]) -> str:
        found = [hit for query in queries for hit in self.find(query)]
        return complete(prompt(question, [], found), stream=False)


def queries(case: dict[str, Any]) -> list[str]:
    searches = [one["query"] for one in case.get("searches", ())]
    return searches or [case.get("search_query") or case["question"]]


def function(case: dict[str, Any]) -> None:
    """The request and the retrieval under the decorator."""
    answer_question(case["question"], case["history"], queries(case), stream=bool(case.get("stream")))


def texts(case: dict[str, Any]) -> None:
    """Functions that put out bare texts and a mapping."""
    answer_plainly(case["question"], queries(case), stream=bool(case.get("stream")))


def method(case: dict[str, Any]) -> None:
    """Methods under the decorator."""
    HelpDesk().ask(case["question"], queries(case))


def session(case: dict[str, Any]) -> None:
    """A span around by OpenLIT's context manager, with the session as an attribute of the application's own."""
    with openlit.start_trace("help desk") as span:
        span.set_metadata({"session.id": case["session"]})
        found = [hit for query in queries(case) for hit in find_articles(query)]
        span.set_result(complete(prompt(case["question"], case["history"], found), stream=bool(case.get("stream"))))


def bare(case: dict[str, Any]) -> None:
    """No decorator: the call of the model is the whole trace."""
    found = [hit for query in queries(case) for hit in search(query)]
    complete(prompt(case["question"], case["history"], found), stream=bool(case.get("stream")))


for flavour in (function, texts, method, session, bare):
    for case in CASES:
        if (flavour is texts and case["history"]) or (flavour is method and case["name"] != "plain"):
            continue
        try:
            flavour(case)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        facts = {} if flavour is session else {"session_id": None}
        asked(case, flavour=flavour.__name__, **facts)
trace.get_tracer_provider().shutdown()
