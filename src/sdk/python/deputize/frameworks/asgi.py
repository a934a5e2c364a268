"""The parts of the guard that every ASGI application needs, such as one of Starlette or FastAPI."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..authority import Authority
from ..enforcement import Refusal
from ..route import outcome_of_status

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEY = "deputize.authorities"


class RefusedError(Exception):
    """Leaves the handler of a refused request. The middleware sends the refusal."""

    def __init__(self, refusal: Refusal, body: bytes) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal
        self.body = body


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
        # Stays empty in a mounted application, whose outcomes the outer middleware reports.
        authorities: list[Authority] = []
        scope.setdefault(_KEY, authorities)
        status = 0

        async def reporting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and not message.get("more_body", False):
                for authority in authorities:
                    authority.report(outcome_of_status(status), f"HTTP {status}")
            await send(message)

        try:
            await self._app(scope, receive, reporting_send)
        except RefusedError as refused:
            if status != 0:
                raise
            await _respond(refused, reporting_send)
        except Exception as error:
            for authority in authorities:
                authority.report("failed", type(error).__name__)
            raise


def keep_authority(scope: Scope, authority: Authority) -> None:
    """Remembers the authority of a request, so that the middleware reports the outcome."""
    scope[_KEY].append(authority)


def demand_middleware(scope: Scope) -> None:
    """Raises TypeError if the application lacks the middleware, so that nothing runs without it."""
    if _KEY not in scope:
        raise TypeError("the guard needs app.add_middleware(GuardMiddleware)")


async def _respond(refused: RefusedError, send: Send) -> None:
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(refused.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": refused.refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})
