"""Lets a scripted model call the tool of an example once, and prints the tool's result as the model reads it.

The arguments are a framework, the path of its example, and the id of the call.
"""

import json
import os
import runpy
import sys
from collections.abc import AsyncIterator
from typing import Any

import agents
from agents.items import ModelResponse as AgentsResponse
from agents.items import TResponseInputItem
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deputize.agent import Agent

ORDER = {"item": "coal", "amount": 3}


def run_pydantic_ai(tool: Any, call_id: str) -> object:
    read: list[object] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        read.append(messages[-1].parts[-1])
        call = ToolCallPart("order", ORDER, tool_call_id=call_id)
        return ModelResponse([call if len(read) == 1 else TextPart("done")])

    PydanticAgent(FunctionModel(answer), tools=[tool]).run_sync("Order coal")
    [_, returned] = read
    return getattr(returned, "content", None)


class ScriptedModel(agents.Model):
    def __init__(self, call_id: str) -> None:
        self.read: list[str | TResponseInputItem] = []
        self._call_id = call_id

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 (the runner passes it by this name)
        *_: Any,
        **__: Any,
    ) -> AgentsResponse:
        self.read.append(input if isinstance(input, str) else input[-1])
        call = ResponseFunctionToolCall(
            type="function_call", call_id=self._call_id, name="order", arguments=json.dumps(ORDER)
        )
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        done = ResponseOutputMessage(
            id="1", type="message", role="assistant", status="completed", content=[text]
        )
        output = call if len(self.read) == 1 else done
        return AgentsResponse([output], agents.Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def run_openai_agents(tool: Any, call_id: str) -> object:
    agents.set_tracing_disabled(True)
    model = ScriptedModel(call_id)
    agents.Runner.run_sync(agents.Agent("shopper", model=model, tools=[tool]), "Order coal")
    [_, returned] = model.read
    return None if isinstance(returned, str) else returned.get("output")


RUNS = {"pydantic_ai": run_pydantic_ai, "openai_agents": run_openai_agents}

if __name__ == "__main__":
    framework, path, call = sys.argv[1:]
    shop = os.environ["SHOP_URL"]
    agent_id = os.environ["AGENT_ID"]
    with Agent(os.environ["BASE_URL"], os.environ["AGENT_KEY"], {shop: "own"}, agent_id=agent_id) as agent:
        made = runpy.run_path(path)["order_tool"](agent, shop)
        print(RUNS[framework](made, call))
