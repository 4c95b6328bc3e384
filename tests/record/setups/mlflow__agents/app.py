"""Agents under MLflow: LangChain's with a tool, autologged, and one of MLflow's own class for agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import mlflow
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from library import CASES, asked, search
from mlflow.entities import SpanType
from mlflow.pyfunc import ResponsesAgent
from mlflow.types.responses import ResponsesAgentRequest, ResponsesAgentResponse, ResponsesAgentStreamEvent
from openai import OpenAI

mlflow.openai.autolog()
mlflow.langchain.autolog()
client = OpenAI(max_retries=0)
SYSTEM = "Answer from what the search finds."


@tool
def search_help(query: str) -> str:
    """Search the help pages."""
    return "\n\n".join(hit["text"] for hit in search(query)) or "No results."


def langgraph(case: dict[str, Any]) -> None:
    """An agent of LangChain that searches with a tool, once or several times."""
    agent = create_agent(ChatOpenAI(model="gpt-4o-mini", max_retries=0), [search_help], system_prompt=SYSTEM)
    agent.invoke({"messages": [*case["history"], {"role": "user", "content": case["question"]}]})


@mlflow.trace(span_type=SpanType.TOOL)
def look_up(query: str) -> list[dict[str, Any]]:
    """The tool of the agent below."""
    return [{"id": hit["id"], "content": hit["text"], "url": hit["uri"]} for hit in search(query)]


class Support(ResponsesAgent):
    """MLflow's class for agents traces `predict` and `predict_stream` on its own."""

    def sent(self, request: ResponsesAgentRequest) -> list[dict[str, Any]]:
        """Let the model call the tool; the messages for its second turn."""
        messages = [
            {"role": "system", "content": SYSTEM},
            *(one.model_dump(exclude_none=True) for one in request.input),
        ]
        for one in messages:
            one.pop("type", None)
        parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        function = {"name": "look_up", "description": "Search the help pages.", "parameters": parameters}
        tools = [{"type": "function", "function": function}]
        chosen = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=tools).choices[0].message
        messages.append(chosen.to_dict())
        for call in chosen.tool_calls or ():
            found = json.dumps(look_up(**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
        return messages

    def predict(self, request: ResponsesAgentRequest) -> ResponsesAgentResponse:
        """Answer at once."""
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=self.sent(request))
        text = completion.choices[0].message.content or ""
        return ResponsesAgentResponse(output=[self.create_text_output_item(text=text, id="msg_1")])

    def predict_stream(self, request: ResponsesAgentRequest) -> Iterator[ResponsesAgentStreamEvent]:
        """Answer word by word, and then as a whole."""
        text = ""
        for chunk in client.chat.completions.create(model="gpt-4o-mini", messages=self.sent(request), stream=True):
            if chunk.choices and (delta := chunk.choices[0].delta.content):
                text += delta
                yield ResponsesAgentStreamEvent(**self.create_text_delta(delta=delta, item_id="msg_1"))
        item = self.create_text_output_item(text=text, id="msg_1")
        yield ResponsesAgentStreamEvent(type="response.output_item.done", item=item)


def responses(case: dict[str, Any]) -> None:
    """A request to the class above."""
    sent = [*case["history"], {"role": "user", "content": case["question"]}]
    request = ResponsesAgentRequest(input=sent, context={"conversation_id": case["session"]})
    if case.get("stream"):
        list(Support().predict_stream(request))
    else:
        Support().predict(request)


def main() -> None:
    """To LangChain's agent each result of its tool is one text; both agents call the model twice."""
    few = [one for one in CASES if one["name"] in ("plain", "empty", "two_retrievals")]
    for flavour, cases in ((langgraph, few), (responses, CASES)):
        for case in cases:
            try:
                flavour(case)
            except Exception as error:  # the model refuses one of the cases
                print(type(error).__name__)
            queries = [one["query"] for one in case.get("searches", ())] or [case["question"]]
            whole = flavour is langgraph and case["documents"]
            contexts = {"contexts": [search_help.func(query) for query in queries]} if whole else {}
            session = case["session"] if flavour is responses else None
            asked(case, flavour=flavour.__name__, session_id=session, total_tokens=230, **contexts)


main()
