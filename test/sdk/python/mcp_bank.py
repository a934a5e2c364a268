"""A guarded bank: mcp_bank.py mcp|fastmcp stdio|http. Over HTTP, it prints its address to stderr."""

import asyncio
import json
import os
import socket
import sys
from typing import Any

import fastmcp
import mcp
import uvicorn
from fastmcp.server.auth import StaticTokenVerifier
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, InputResponses
from pydantic import AnyHttpUrl

import deputize.mcp.fastmcp as for_fastmcp
import deputize.mcp.server as for_mcp
from deputize.guard import Guard
from deputize.mcp import AUTHORITY, ToolRules, current_authority

RULES: ToolRules = {
    "send_payment": {
        "scope": "payments:send",
        "amount": "amount",
        "currency": "currency",
        "resource": "to",
    },
    "confirm_payment": {"scope": "payments:send", "amount": "amount", "resource": "to"},
    "health": {"open": True},
}
# The root ids of each user, by the bearer token.
USERS: dict[str, list[str]] = json.loads(os.environ.get("USERS", "null") or "null") or {}
guard = Guard(os.environ["BASE_URL"], os.environ["VERIFY_KEY"])


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        known = token in USERS
        return AccessToken(token=token, client_id=token, scopes=[], subject=token) if known else None


def principals(token: AccessToken | None) -> list[str]:
    return USERS.get(token.token, []) if token is not None else []


def paid(to: str, amount: float, currency: str) -> str:
    return f"paid {amount:g} {currency} to {to} for {current_authority().human_id}"


def asks_again(responses: InputResponses | None) -> InputRequiredResult | None:
    if responses is not None:
        return None
    schema: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "number"}}}
    asked = ElicitRequest(params=ElicitRequestFormParams(message="Sure?", requested_schema=schema))
    return InputRequiredResult(input_requests={"confirm": asked})


def passed_on(meta: Any) -> dict[str, Any]:
    """What a tool passes on if it calls another tool with its own `_meta`."""
    return {name: value for name, value in (meta or {}).items() if "modelcontextprotocol" not in name}


def code_in(result: Any) -> str:
    return f"nested: {(result.meta or {}).get(AUTHORITY, {}).get('code')}"


def bank_of_mcp() -> MCPServer[Any]:
    auth = AuthSettings(
        issuer_url=AnyHttpUrl("http://127.0.0.1:1"), resource_server_url=None, validate_token_resource=False
    )
    bank: MCPServer[Any] = MCPServer(
        "bank",
        middleware=[for_mcp.Deputize(guard, RULES, server="bank", principals=principals if USERS else None)],
        token_verifier=Verifier() if USERS else None,
        auth=auth if USERS else None,
    )

    @bank.tool()
    async def send_payment(
        ctx: Context, to: str = "mallory", amount: float = 999_999, currency: str = "EUR"
    ) -> str:
        if to == "nested":
            given = {"to": to, "amount": amount, "currency": currency}
            async with mcp.Client(bank) as client:
                meta: Any = passed_on(ctx.request_context.meta)
                return code_in(await client.call_tool("send_payment", given, meta=meta))
        return paid(to, amount, currency)

    @bank.tool()
    async def confirm_payment(ctx: Context, to: str, amount: float) -> str | InputRequiredResult:
        return asks_again(ctx.input_responses) or paid(to, amount, "EUR")

    @bank.tool()
    def hidden(to: str) -> str:
        return paid(to, 0, "EUR")

    @bank.tool()
    def health() -> str:
        return health_of()

    @bank.resource("bank://notes")
    def notes() -> str:
        return "secret"

    return bank


def bank_of_fastmcp() -> "fastmcp.FastMCP[Any]":
    bank: fastmcp.FastMCP[Any] = fastmcp.FastMCP(
        "bank",
        middleware=[
            for_fastmcp.Deputize(guard, RULES, server="bank", principals=principals if USERS else None)
        ],
        auth=StaticTokenVerifier({name: {"client_id": name, "scopes": []} for name in USERS})
        if USERS
        else None,
    )

    @bank.tool
    async def send_payment(
        ctx: fastmcp.Context, to: str = "mallory", amount: float = 999_999, currency: str = "EUR"
    ) -> str:
        given = {"to": to, "amount": amount, "currency": currency}
        if to == "nested":
            meta = passed_on(ctx.request_context and ctx.request_context.meta)
            async with fastmcp.Client(bank) as client:
                return code_in(await client.call_tool_mcp("send_payment", given, meta=meta))
        if to == "inside":
            return code_in(await bank.call_tool("send_payment", given))
        return paid(to, amount, currency)

    @bank.tool
    async def confirm_payment(ctx: fastmcp.Context, to: str, amount: float) -> str | InputRequiredResult:
        return asks_again(ctx.input_responses) or paid(to, amount, "EUR")

    @bank.tool
    def hidden(to: str) -> str:
        return paid(to, 0, "EUR")

    @bank.tool
    def health() -> str:
        return health_of()

    @bank.resource("bank://notes")
    def notes() -> str:
        return "secret"

    return bank


def health_of() -> str:
    try:
        return f"acts for {current_authority().human_id}"
    except LookupError:
        return "healthy"


async def serve(app: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])


def main(kind: str, transport: str) -> None:
    if kind == "mcp":
        bank = bank_of_mcp()
        if transport == "stdio":
            bank.run()
        else:
            asyncio.run(serve(bank.streamable_http_app()))
    elif transport == "stdio":
        bank_of_fastmcp().run(show_banner=False)
    else:
        asyncio.run(serve(bank_of_fastmcp().http_app()))
    guard.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
