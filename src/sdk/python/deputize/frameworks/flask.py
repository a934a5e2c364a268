"""The guard in Flask 3.1 or newer."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from flask import Response, current_app, make_response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from ..authority import Authority
from ..payload import ABSENT
from ..route import Body, RequestView, Route, check_route, outcome_of_status
from .body import is_other_type, read_body
from .wsgi import NO_STORE, Rejection, authorize_request, target_of

if TYPE_CHECKING:
    from ..guard import Guard

__all__ = ["guard_flask"]

P = ParamSpec("P")
View = Callable[Concatenate[Authority, P], Any]


def guard_flask(guard: "Guard", route: Route) -> Callable[[View[P]], Callable[P, ResponseReturnValue]]:
    """Returns a decorator for a view. Put it below `@app.post(…)`.

    The view runs only after an explicit `allow` decision, and gets the authority as its first argument. Any
    other request gets 403 or 503. The view may be async. The functions of `route` get Flask's request.
    """
    check_route(guard, route)

    def decorate(view: View[P]) -> Callable[P, ResponseReturnValue]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            found = authorize_request(guard, route, request, _view_of(guard), lambda: _body_of(route))
            if isinstance(found, Rejection):
                return Response(found.body, found.status, NO_STORE, mimetype="application/json")
            return _run(found, lambda: current_app.ensure_sync(view)(found, *args, **kwargs))

        return guarded

    return decorate


def _run(authority: Authority, view: Callable[[], Any]) -> Response:
    try:
        response = make_response(view())
    except HTTPException as error:
        status = error.code or 500
        authority.report(outcome_of_status(status), f"HTTP {status}")
        raise
    except BaseException as error:
        authority.report("failed", type(error).__name__)
        raise
    authority.report(outcome_of_status(response.status_code), f"HTTP {response.status_code}")
    return response


def _view_of(guard: "Guard") -> RequestView:
    def header(name: str) -> str | None:
        return request.headers.get(guard.header(name))

    return RequestView(header, request.method, target_of(request.environ), request.remote_addr or "")


def _body_of(route: Route) -> Body:
    """Reads the body. Flask responds with 413 if it is too large."""
    content_type = request.headers.get("content-type")
    if is_other_type(content_type):
        return Body(ABSENT, is_unread=True)
    if request.max_content_length is None:
        request.max_content_length = route.max_body_bytes
    return read_body(content_type, request.get_data())
