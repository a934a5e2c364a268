"""A tool for OpenAI Agents: Agent(name, model=model, tools=[order_tool(agent, shop_url)])"""

from typing import Any

from agents import FunctionTool, RunContextWrapper, function_tool
from agents.tool_context import ToolContext

from deputize.agent import Agent, AgentError, ToolCall


def refusal_of(_: RunContextWrapper[Any], error: Exception) -> str:
    """By default, the model reads only that an error occurred, and that it should try again."""
    return str(error) if isinstance(error, AgentError) else "The tool failed."


def order_tool(agent: Agent, shop_url: str) -> FunctionTool:
    async def send(order: dict[str, object], call: ToolCall) -> object:
        response = await call.fetch_async(f"{shop_url}/orders", body=order)
        return response.json()

    place = agent.tool(send, "data:read")

    @function_tool(failure_error_function=refusal_of)
    async def order(context: ToolContext[Any], item: str, amount: int) -> object:
        """Orders an item from the shop."""
        return await place({"item": item, "amount": amount}, invocation_id=context.tool_call_id)

    return order
