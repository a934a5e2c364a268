"""The parts of the guard that every ASGI application needs, such as one of Starlette or FastAPI."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from ..authority import Authority
from ..route import outcome_of_status
from .body import TOO_LARGE, too_large

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEY = "deputize.exchange"
_APP = "deputize.app"


class RefusedError(Exception):
    """Leaves the handler of a refused request. The middleware sends the refusal."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(slots=True)
class _Exchange:
    """A request's authorities, and how many bytes of its body may arrive."""

    authorities: list[Authority] = field(default_factory=list[Authority])
    limit: float = inf


class GuardMiddleware:
    """Sends refusals, and reports the outcome of each allowed request when its response ends.

    If the response never ends, the outcome is unknown and not reported. Add it to the application, and to
    each application that is mounted in it: `app.add_middleware(GuardMiddleware)`.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Starlette replaces `app` in each mounted application.
        scope[_APP] = scope.get("app")
        # Stays unused in a mounted application, whose requests the outer middleware limits and reports.
        exchange = _Exchange()
        scope.setdefault(_KEY, exchange)
        status, received = 0, 0

        async def limited_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > exchange.limit:
                raise RefusedError(TOO_LARGE, too_large())
            return message

        async def reporting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and not message.get("more_body", False):
                for authority in exchange.authorities:
                    authority.report(outcome_of_status(status), f"HTTP {status}")
            await send(message)

        try:
            await self._app(scope, limited_receive, reporting_send)
        except RefusedError as refused:
            if status != 0:
                raise
            await _respond(refused, reporting_send)
        except Exception as error:
            for authority in exchange.authorities:
                authority.report("failed", type(error).__name__)
            raise


def keep_authority(scope: Scope, authority: Authority) -> None:
    """Remembers the authority of a request, so that the middleware reports the outcome."""
    scope[_KEY].authorities.append(authority)


def limit_body(scope: Scope, max_bytes: int) -> None:
    """Makes the middleware refuse the request with 413 if more bytes of its body arrive."""
    scope[_KEY].limit = max_bytes


def demand_middleware(scope: Scope) -> None:
    """Raises TypeError if the application lacks the middleware, so that nothing runs without it.

    The middleware of an outer application is not enough, because a mounted one answers refusals with 500.
    """
    if _KEY not in scope or scope[_APP] is not scope.get("app"):
        raise TypeError(
            "the guard needs app.add_middleware(GuardMiddleware), in each mounted application too"
        )


async def _respond(refused: RefusedError, send: Send) -> None:
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(refused.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})
