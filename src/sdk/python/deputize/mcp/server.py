"""The guard in MCP servers of `mcp` 2.x: `MCPServer` and the low-level `Server`."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent
from mcp_types.methods import serialize_server_result

from ..guard import Guard
from ..payload import ABSENT
from ..principals import Principals
from ..protocol.plain import is_object
from .guarded_calls import GuardedCalls, ToolCall, acting, allowed_input, current_authority
from .refusals import CLOSED_METHOD, ToolRefusal
from .rules import ToolRules
from .wire import AUTHORITY, without_authority

__all__ = ["AUTHORITY", "Deputize", "current_authority"]


class Deputize:
    """Middleware that guards the tools of a server: `MCPServer("bank", middleware=[Deputize(…)])`.

    A call runs only after an explicit `allow` for exactly this server, tool and input. A tool without a rule
    is refused. Raises TypeError for invalid settings. Name it before other middleware, which would run
    without a decision.

    - `server`: the server's name, without `/`. The action of a call is `<server>/<tool>`
    - `principals`: returns the root ids that may act for the user of the bearer token: that user is not the
      person in the proof. The guard calls it after each `allow`, in addition to its own principals
    - `open_methods`: more methods that need no proof, such as `resources/read`. By default they return the
      error -32602
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

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._calls.is_open(ctx.method):
            return _with_capability(ctx.method, await call_next(ctx))
        if ctx.method != "tools/call":
            raise MCPError(*CLOSED_METHOD)
        return await self._call(ctx, call_next)

    async def _call(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params: Mapping[str, Any] = ctx.params or {}
        call = ToolCall(
            name=params.get("name"),
            arguments=params.get("arguments"),
            input_responses=params.get("inputResponses", ABSENT),
            params=params,
            meta=params.get("_meta"),
        )
        found = await self._calls.decide(call)
        if isinstance(found, ToolRefusal):
            return _result_of(found, ctx.protocol_version)
        authority = None if found == "open" else found
        own = dict(params)
        if authority is not None:
            arguments, responses = allowed_input(authority)
            replaced = {"arguments": arguments, "inputResponses": responses}
            own |= {name: value for name, value in replaced.items() if params.get(name) is not None}
        if "_meta" in own:
            own["_meta"] = without_authority(own["_meta"])
        meta = cast(Any, without_authority(ctx.meta))
        with acting(authority):
            result = await call_next(replace(ctx, params=own, meta=meta))
            if authority is not None:
                authority.report("failed" if is_object(result) and result.get("isError") else "executed")
            return result


def _with_capability(method: str, result: HandlerResult) -> HandlerResult:
    """Returns the answer to a client's first request, with the extension of this guard."""
    if method not in ("initialize", "server/discover") or not is_object(result):
        return result
    capabilities = cast(dict[str, Any], result.get("capabilities") or {})
    extensions = cast(dict[str, Any], capabilities.get("extensions") or {})
    return {**result, "capabilities": {**capabilities, "extensions": {**extensions, AUTHORITY: {}}}}


def _result_of(refusal: ToolRefusal, version: str) -> dict[str, Any]:
    # The SDK sends the result of a middleware as it is, so it must already have the form of the version.
    content = TextContent(type="text", text=refusal.text)
    result = CallToolResult(content=[content], is_error=True, _meta=refusal.meta)
    sent = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return serialize_server_result("tools/call", version, sent)
