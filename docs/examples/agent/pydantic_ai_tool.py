"""A tool for Pydantic AI: Agent(model, tools=[order_tool(agent, shop_url)])"""

from pydantic_ai import RunContext, Tool, ToolFailed

from deputize.agent import Agent, AgentError, ToolCall


def order_tool(agent: Agent, shop_url: str) -> Tool[None]:
    async def send(order: dict[str, object], call: ToolCall) -> object:
        response = await call.fetch_async(f"{shop_url}/orders", body=order)
        return response.json()

    place = agent.tool(send, "data:read")

    async def order(context: RunContext[None], item: str, amount: int) -> object:
        """Orders an item from the shop."""
        try:
            return await place({"item": item, "amount": amount}, invocation_id=context.tool_call_id)
        except AgentError as error:
            # Any other exception ends the run.
            raise ToolFailed(str(error)) from error

    return Tool(order)
