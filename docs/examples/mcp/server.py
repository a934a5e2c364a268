"""An MCP server whose tools act with a person's authority: python server.py"""

import os

from mcp.server.mcpserver import MCPServer

from deputize.guard import Guard
from deputize.mcp.server import Deputize, current_authority

guard = Guard(os.environ["BASE_URL"], os.environ["VERIFY_KEY"])
bank = Deputize(
    guard,
    {
        "send_payment": {
            "scope": "payments:send",
            "amount": "amount",
            "currency": "currency",
            "resource": "to",
        },
        "health": {"open": True},
    },
    server="bank",
)
mcp = MCPServer("bank", middleware=[bank])


@mcp.tool()
async def send_payment(to: str, amount: float, currency: str) -> str:
    return f"{amount:g} {currency} to {to} for {current_authority().human_id}"


@mcp.tool()
async def health() -> str:
    return "healthy"


if __name__ == "__main__":
    mcp.run()
    guard.close()
