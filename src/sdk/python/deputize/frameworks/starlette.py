"""The guard in Starlette."""

from typing import TYPE_CHECKING

from starlette.requests import Request

from ..authority import Authority, Refused
from ..payload import ABSENT
from ..protocol.errors import ProtocolError
from ..route import (
    Body,
    RequestView,
    Route,
    asks_for_challenge,
    call_of,
    proof_of,
    refusal_body,
    unproven_call,
)
from .asgi import GuardMiddleware, RefusedError, demand_middleware, keep_authority, limit_body
from .body import INVALID, invalid, is_other_type, read_body

if TYPE_CHECKING:
    from ..guard import Guard

__all__ = ["GuardMiddleware", "authorize_request"]


async def authorize_request(guard: "Guard", route: Route, request: Request) -> Authority:
    """Returns the authority of a request, or leaves the handler with a refusal.

    Call it before anything else in the handler. The application needs `GuardMiddleware`.
    """
    demand_middleware(request.scope)
    view = _view_of(guard, request)
    proof = proof_of(route, request, view)
    if proof:
        call = call_of(route, request, view, proof, await _body_of(request, route.max_body_bytes))
    else:
        call = unproven_call(route, request)
    authorization = await guard.authorize_async(call)
    if isinstance(authorization, Refused):
        refusal = authorization.refusal
        asks = asks_for_challenge(view, refusal)
        challenge = await guard.challenge_async(view.address) if asks else None
        raise RefusedError(refusal.status, refusal_body(view, refusal, challenge))
    keep_authority(request.scope, authorization)
    return authorization


def _view_of(guard: "Guard", request: Request) -> RequestView:
    def header(name: str) -> str | None:
        values = request.headers.getlist(guard.header(name))
        return ", ".join(values) if values else None

    address = "" if request.client is None else request.client.host
    return RequestView(header, request.method, _target_of(request), address)


async def _body_of(request: Request, max_bytes: int) -> Body:
    content_type = request.headers.get("content-type")
    if is_other_type(content_type):
        return Body(ABSENT, is_unread=True)
    # FastAPI has read the body before, if the handler has a parameter for it.
    limit_body(request.scope, max_bytes)
    body = await request.body()
    try:
        return read_body(content_type, body)
    except ProtocolError:
        raise RefusedError(INVALID, invalid()) from None


def _target_of(request: Request) -> str | None:
    raw_path: bytes | None = request.scope.get("raw_path")
    if raw_path is None:
        return None
    query: bytes = request.scope["query_string"]
    return (raw_path + b"?" + query if query else raw_path).decode("latin-1")
