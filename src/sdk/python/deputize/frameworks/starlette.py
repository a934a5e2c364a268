"""The guard in Starlette."""

from email.message import Message
from typing import TYPE_CHECKING

from starlette.requests import Request

from ..authority import Authority, Refused
from ..payload import ABSENT
from ..protocol.errors import ProtocolError
from ..protocol.strict_json import parse_body
from ..route import RequestView, Route, asks_for_challenge, call_of, refusal_body
from .asgi import GuardMiddleware, RefusedError, demand_middleware, keep_authority

if TYPE_CHECKING:
    from ..guard import Guard

__all__ = ["GuardMiddleware", "authorize_request"]


async def authorize_request(guard: "Guard", route: Route, request: Request) -> Authority:
    """Returns the authority of a request, or leaves the handler with a refusal of 403 or 503.

    Call it before anything else in the handler. The application needs `GuardMiddleware`.
    """
    demand_middleware(request.scope)
    view = await _view_of(guard, request)
    authorization = await guard.authorize_async(call_of(route, request, view))
    if isinstance(authorization, Refused):
        refusal = authorization.refusal
        address = "" if request.client is None else request.client.host
        challenge = await guard.challenge_async(address) if asks_for_challenge(view, refusal) else None
        raise RefusedError(refusal, refusal_body(refusal, challenge))
    keep_authority(request.scope, authorization)
    return authorization


async def _view_of(guard: "Guard", request: Request) -> RequestView:
    def header(name: str) -> str | None:
        values = request.headers.getlist(guard.header(name))
        return ", ".join(values) if values else None

    body, is_unread = await _body_of(request)
    return RequestView(header, request.method, _target_of(request), body, is_unread)


async def _body_of(request: Request) -> tuple[object, bool]:
    """Returns the parsed body, and whether there is a body that is not JSON."""
    content_type = request.headers.get("content-type")
    if content_type and not _is_json(content_type):
        return ABSENT, True
    body = await request.body()
    if body == b"":
        return ABSENT, False
    if not content_type:
        return ABSENT, True
    try:
        return parse_body(body), False
    except ProtocolError:
        return ABSENT, True


def _is_json(content_type: str) -> bool:
    """Returns whether FastAPI parses a body of this type as JSON."""
    message = Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    is_json = subtype == "json" or subtype.endswith("+json")
    return message.get_content_maintype() == "application" and is_json


def _target_of(request: Request) -> str | None:
    raw_path: bytes | None = request.scope.get("raw_path")
    if raw_path is None:
        return None
    query: bytes = request.scope["query_string"]
    return (raw_path + b"?" + query if query else raw_path).decode("latin-1")
