"""The guard of MCP servers with a service that answers as each test says."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import fastmcp
import mcp
import pytest
from conftest import ALLOW, RECEIPT_ID, Request, Service, http
from fastmcp.server.middleware import Middleware
from mcp.server.context import ServerMiddleware
from mcp.server.mcpserver import MCPServer

import deputize.mcp.fastmcp as for_fastmcp
import deputize.mcp.server as for_mcp
from deputize.guard import Guard
from deputize.mcp import AUTHORITY, ToolRules, current_authority

RULES: ToolRules = {"pay": {"scope": "payments:send"}, "health": {"open": True}}
META = {AUTHORITY: {"proof_ref": "AQ", "agent_id": "aa", "invocation_id": "i-1"}}
KINDS = ["mcp", "fastmcp"]


class Bank:
    """A bank with the tools of `RULES`. `runs`: the human of each payment."""

    def __init__(self, kind: str, guard: Guard, *, is_broken: bool = False, **settings: Any) -> None:
        self.runs: list[str | None] = []
        self.kind = kind
        self.server: Any
        if kind == "mcp":
            own: ServerMiddleware[Any] = for_mcp.Deputize(guard, RULES, server="bank", **settings)
            self.server = MCPServer("bank", middleware=[own])
        else:
            other: Middleware = for_fastmcp.Deputize(guard, RULES, server="bank", **settings)
            self.server = fastmcp.FastMCP("bank", middleware=[other])

        def pay(orders: list[object]) -> str:
            authority = current_authority()
            orders.append("changed")
            if is_broken:
                raise ValueError("broken")
            self.runs.append(authority.human_id)
            return str(authority.payload["arguments"]["orders"])

        for tool in (pay, self.health):
            self.server.add_tool(tool)

    def health(self) -> str:
        with pytest.raises(LookupError):
            current_authority()
        return "healthy"

    async def call(self, name: str, given: dict[str, object], meta: object = META) -> Any:
        client: Any = mcp.Client(self.server) if self.kind == "mcp" else fastmcp.Client(self.server)
        async with client:
            call = client.call_tool if self.kind == "mcp" else client.call_tool_mcp
            return await call(name, given, meta=meta)


async def until(happens: Callable[[], object]) -> None:
    """Waits for a thread of the stub service, which sets no event of this loop."""
    while not happens():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def allowing(request: Request) -> list[bytes]:
    return [http(200, {} if request.target.endswith("/outcome") else ALLOW)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_runs_on_a_copy_of_the_input_that_the_proof_covers(kind: str, service: Service) -> None:
    service.answer = allowing
    guard = service.guard()
    bank = Bank(kind, guard)
    result = asyncio.run(bank.call("pay", {"orders": ["coal"]}))
    guard.flush()
    assert result.content[0].text == "('coal',)"
    assert bank.runs == [ALLOW["human_id"]]
    [asked] = service.verified()
    assert asked["operation"]["action"] == "bank/pay"
    assert [report["outcome"] for report in service.reported()] == ["executed"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_without_a_scope_has_no_authority(kind: str, service: Service) -> None:
    result = asyncio.run(Bank(kind, service.guard()).call("health", {}))
    assert result.content[0].text == "healthy"
    assert service.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_that_raises_has_failed(kind: str, service: Service) -> None:
    service.answer = allowing
    guard = service.guard()
    result = asyncio.run(Bank(kind, guard, is_broken=True).call("pay", {"orders": []}))
    guard.flush()
    assert result.is_error
    assert [report["outcome"] for report in service.reported()] == ["failed"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_cancelled_before_it_runs_is_not_attempted_attack_12(
    kind: str, service: Service
) -> None:
    def slow(request: Request) -> list[bytes]:
        if request.target.endswith("/verify"):
            time.sleep(0.5)
        return allowing(request)

    service.answer = slow
    guard = service.guard()
    bank = Bank(kind, guard)

    async def cancel() -> None:
        calling = asyncio.ensure_future(bank.call("pay", {"orders": []}))
        await until(service.verified)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(service.reported)

    asyncio.run(asyncio.wait_for(cancel(), 10))
    guard.flush()
    [report] = service.reported()
    assert (report["outcome"], report["receipt_id"]) == ("not_attempted", RECEIPT_ID)
    assert bank.runs == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_guard_refuses_a_call_that_no_agent_has_proven(kind: str, service: Service) -> None:
    bank = Bank(kind, service.guard())
    result = asyncio.run(bank.call("pay", {"orders": []}, meta=None))
    assert result.is_error
    assert result.meta[AUTHORITY]["code"] == "no_authority_demonstrated"
    assert service.requests == []


def test_fastmcp_refuses_a_version_that_a_client_chooses_in_meta(service: Service) -> None:
    bank = Bank("fastmcp", service.guard())
    meta = {**META, "fastmcp": {"version": "1"}}
    result = asyncio.run(bank.call("pay", {"orders": []}, meta=meta))
    assert result.meta[AUTHORITY]["code"] == "call_unsupported"
    assert service.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_guard_closes_other_methods_unless_the_settings_open_them(kind: str, service: Service) -> None:
    async def read(bank: Bank) -> Any:
        client: Any = mcp.Client(bank.server) if kind == "mcp" else fastmcp.Client(bank.server)
        async with client:
            try:
                return await client.read_resource("bank://notes")
            except mcp.MCPError as error:
                return error.code

    def notes() -> str:
        return "secret"

    for methods in ([], ["resources/read"]):
        bank = Bank(kind, service.guard(), open_methods=methods)
        bank.server.resource("bank://notes")(notes)
        found = asyncio.run(read(bank))
        assert "secret" in repr(found) if methods else found == -32602


@pytest.mark.parametrize(
    "wrong",
    [
        {"server": "bank/pay"},
        {"rules": {"pay": "payments:send"}},
        {"guard": None},
        {"principals": ["0123456789abcdef0123456789abcdef"]},
        {"open_methods": ["tools/call"]},
        {"open_methods": "resources/read"},
    ],
)
def test_the_guard_refuses_invalid_settings(wrong: dict[str, Any], service: Service) -> None:
    settings: dict[str, Any] = {"guard": service.guard(), "rules": RULES, "server": "bank", **wrong}
    for kind in (for_mcp.Deputize, for_fastmcp.Deputize):
        with pytest.raises(TypeError):
            cast(Any, kind)(settings.pop("guard"), settings.pop("rules"), **settings)
        settings |= {"guard": service.guard(), "rules": RULES, **wrong}
