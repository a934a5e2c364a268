"""An agent that calls a guarded bank: mcp_client.py mcp|mcp-old|fastmcp|session|langchain 'steps of JSON'.

`session` and `langchain` also work with `mcp` 1.x. Prints one line of JSON for each step.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from deputize.agent import Agent, AgentError, Ask, Question, Verifier
from deputize.mcp import AUTHORITY
from deputize.mcp.client import ToolScope, with_authority

Call = Callable[[str, dict[str, Any], Any], Awaitable[Any]]

SCOPES: dict[str, ToolScope] = {
    "send_payment": {"scope": "payments:send", "resource": "to"},
    "confirm_payment": "payments:send",
    "hidden": "payments:send",
}
env = os.environ


def show(question: Question) -> None:
    print(json.dumps({"asked": question.task_id}), flush=True)


agent = Agent(
    env["BASE_URL"],
    env["AGENT_KEY"],
    {"mcp:bank": Verifier(env["VERIFIER_ID"], env["WORKSPACE_ID"])},
    agent_id=env["AGENT_ID"],
    pauses=(),
    on_ask=show,
)


def proven(session: Any) -> Any:
    purpose = env.get("PURPOSE")
    ask = None if purpose is None else Ask(purpose, wait=30)
    return with_authority(session, agent, server="bank", scopes=SCOPES, ask=ask)


async def accept(*_: Any, **__: Any) -> Any:
    from mcp.types import ElicitResult  # noqa: PLC0415 (`mcp` 1.x)

    return ElicitResult(action="accept", content={"amount": 999_999})


def command() -> tuple[str, list[str]] | None:
    program = json.loads(env.get("MCP_COMMAND", "null"))
    return None if program is None else (program[0], program[1:])


@asynccontextmanager
async def client_of_mcp(kind: str) -> AsyncIterator[Call]:
    import mcp  # noqa: PLC0415

    program = command()
    at: Any = env.get("MCP_URL", "")
    if program is not None:
        at = mcp.StdioServerParameters(command=program[0], args=program[1], env=dict(env))
    mode: Any = "legacy" if kind == "mcp-old" else "auto"
    async with mcp.Client(at, mode=mode, elicitation_callback=accept) as client:
        proven(client.session)

        async def call(name: str, given: dict[str, Any], meta: Any) -> Any:
            return await client.call_tool(name, given, meta=meta)

        yield call


@asynccontextmanager
async def client_of_fastmcp() -> AsyncIterator[Call]:
    import fastmcp  # noqa: PLC0415
    from fastmcp.client.transports import StdioTransport  # noqa: PLC0415

    program = command()
    at: Any = env.get("MCP_URL", "")
    if program is not None:
        at = StdioTransport(program[0], program[1], env=dict(env), keep_alive=False)
    async with fastmcp.Client(at, elicitation_handler=accept) as client:
        proven(client.session)

        async def call(name: str, given: dict[str, Any], meta: Any) -> Any:
            return await client.call_tool_mcp(name, given, meta=meta)

        yield call


@asynccontextmanager
async def session_of() -> AsyncIterator[Any]:
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415
    from mcp.client.stdio import stdio_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    program = command()
    if program is None:
        transport: Any = streamable_http_client(env["MCP_URL"])
    else:
        server = StdioServerParameters(command=program[0], args=program[1], env=dict(env))
        transport = stdio_client(server)
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield proven(session)


@asynccontextmanager
async def client_of_session() -> AsyncIterator[Call]:
    async with session_of() as session:

        async def call(name: str, given: dict[str, Any], meta: Any) -> Any:
            return await session.call_tool(name, given, meta=meta)

        yield call


@asynccontextmanager
async def client_of_langchain() -> AsyncIterator[Call]:
    # Its types are not in the environment in which this program is checked.
    load_mcp_tools: Any = import_module("langchain_mcp_adapters.tools").load_mcp_tools
    async with session_of() as session:
        tools: dict[str, Any] = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name: str, given: dict[str, Any], _: Any) -> Any:
            return await tools[name].ainvoke(given)

        yield call


def clients(kind: str) -> Any:
    if kind == "session":
        return client_of_session()
    if kind == "langchain":
        return client_of_langchain()
    return client_of_fastmcp() if kind == "fastmcp" else client_of_mcp(kind)


def shown(result: Any) -> dict[str, Any]:
    if not hasattr(result, "meta"):
        # An adapter of LangChain returns only the content.
        return {"text": result[0]["text"] if isinstance(result, list) else result}
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", None) or False
    entry = (result.meta or {}).get(AUTHORITY)
    return {"text": result.content[0].text, "is_error": is_error, "entry": entry}


async def main(kind: str, steps: list[dict[str, Any]]) -> None:
    async with clients(kind) as call:
        for step in steps:
            try:
                result = await call(step["name"], step.get("arguments", {}), step.get("meta"))
            except AgentError as error:
                print(json.dumps({"error": f"{type(error).__name__} {error.code}"}), flush=True)
            else:
                print(json.dumps(shown(result)), flush=True)
    agent.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
