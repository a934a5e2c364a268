"""The guard in servers of FastMCP 4."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, DiscoverResult, InitializeResult, TextContent

from ..guard import Guard
from ..payload import ABSENT
from ..principals import Principals
from .guarded_calls import GuardedCalls, ToolCall, acting, allowed_input, current_authority
from .refusals import CLOSED_METHOD, ToolRefusal
from .rules import ToolRules
from .wire import AUTHORITY, without_authority

__all__ = ["AUTHORITY", "Deputize", "current_authority"]

T = TypeVar("T")


class Deputize(Middleware):
    """Middleware that guards the tools of a server: `FastMCP("bank", middleware=[Deputize(…)])`.

    It has the guarantees and settings of `deputize.mcp.server.Deputize`. It also guards the calls that a tool
    makes with `call_tool` of the same server. They have no proof of their own, so they are refused unless the
    called tool is open.
    """

    def __init__(
        self,
        guard: Guard,
        rules: ToolRules,
        *,
        server: str,
        principals: Callable[[AccessToken | None], Principals | Awaitable[Principals]] | None = None,
        open_methods: Collection[str] = (),
    ) -> None:
        self._calls = GuardedCalls(guard, rules, server, principals, open_methods, get_access_token)

    async def __call__(self, context: MiddlewareContext[T], call_next: CallNext[T, Any]) -> Any:
        if context.type == "notification":
            return await call_next(context)
        if self._calls.is_open(context.method):
            return _with_capability(await call_next(context))
        message = context.message
        if context.method != "tools/call" or not isinstance(message, CallToolRequestParams):
            raise MCPError(*CLOSED_METHOD)
        found = await self._call(cast(Any, context), message, cast(Any, call_next))
        return _result_of(found) if isinstance(found, ToolRefusal) else found

    async def _call(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        message: CallToolRequestParams,
        call_next: CallNext[CallToolRequestParams, Any],
    ) -> Any:
        request = None if context.fastmcp_context is None else context.fastmcp_context.request_context
        # Only the raw parameters have all input, as the proof covers it.
        raw = None if request is None else request._srctx.params  # pyright: ignore[reportPrivateUsage]
        params: Mapping[str, Any] = raw or {}
        call = ToolCall(
            name=message.name,
            arguments=message.arguments,
            input_responses=params.get("inputResponses", ABSENT),
            # A client can choose the version of a tool in `_meta`, which no proof covers.
            params=params if message.meta is None else {**params, "version": message.meta},
            meta=None if request is None else request.meta,
        )
        found = await self._calls.decide(call)
        if isinstance(found, ToolRefusal):
            return found
        if request is not None:
            # A nested call, or a proxy that passes `_meta` on, must not have the proof.
            request.meta = without_authority(request.meta)
        authority = None if found == "open" else found
        update: dict[str, Any] = {}
        if authority is not None:
            update["arguments"], _ = allowed_input(authority)
        with acting(authority):
            result = await call_next(context.copy(message=message.model_copy(update=update)))
            if authority is not None:
                authority.report("failed" if getattr(result, "is_error", False) else "executed")
            return result


def _with_capability(result: Any) -> Any:
    """Returns the answer to a client's first request, with the extension of this guard."""
    if isinstance(result, InitializeResult | DiscoverResult):
        result.capabilities.extensions = {**(result.capabilities.extensions or {}), AUTHORITY: {}}
    return result


def _result_of(refusal: ToolRefusal) -> ToolResult:
    content = TextContent(type="text", text=refusal.text)
    return ToolResult(content=[content], meta=refusal.meta, is_error=True)
