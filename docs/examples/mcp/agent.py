"""An agent that pays through a guarded MCP server: python agent.py"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters

from deputize.agent import Agent, Denied, Verifier
from deputize.mcp.client import with_authority

names = ("BASE_URL", "VERIFY_KEY", "PYTHONPATH")
server = StdioServerParameters(
    command=sys.executable,
    args=[os.path.join(os.path.dirname(__file__), "server.py")],
    env={name: os.environ[name] for name in names if name in os.environ},
)
agent = Agent(
    os.environ["BASE_URL"],
    os.environ["AGENT_KEY"],
    {"mcp:bank": Verifier(os.environ["VERIFIER_ID"], os.environ["WORKSPACE_ID"])},
    agent_id=os.environ["AGENT_ID"],
)


async def main() -> None:
    async with Client(server) as client:
        with_authority(
            client.session,
            agent,
            server="bank",
            scopes={"send_payment": {"scope": "payments:send", "resource": "to"}},
        )
        try:
            payment = {"to": "bob", "amount": 5, "currency": "EUR"}
            result = await client.call_tool("send_payment", payment)
            print(getattr(result.content[0], "text", ""))
        except Denied as error:
            print(type(error).__name__, error.code)


asyncio.run(main())
