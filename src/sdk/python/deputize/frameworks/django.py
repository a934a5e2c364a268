"""The guard in Django, for sync views."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from ..authority import Authority
from ..payload import ABSENT
from ..protocol.plain import is_object
from ..route import Body, RequestView, Route, check_route, outcome_of_status
from .body import is_other_type, read_body
from .wsgi import NO_STORE, Rejection, authorize_request, target_of

if TYPE_CHECKING:
    from ..guard import Guard

__all__ = ["guard_django"]

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Authority, P], HttpResponseBase]
GuardedView = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

# The statuses with which Django answers these exceptions of a view.
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (Http404, 404),
    (PermissionDenied, 403),
    (BadRequest, 400),
    (SuspiciousOperation, 400),
)


def guard_django(guard: "Guard", route: Route) -> Callable[[View[P]], GuardedView[P]]:
    """Returns a decorator for a sync view.

    The view runs only after an explicit `allow` decision, and gets the request and the authority as its first
    two arguments. Any other request gets 403 or 503. Django's `DATA_UPLOAD_MAX_MEMORY_SIZE` limits the body.
    Put `@csrf_exempt` above it: agents have no CSRF token. Raises TypeError for an async view.
    """
    check_route(guard, route)

    def decorate(view: View[P]) -> GuardedView[P]:
        if inspect.iscoroutinefunction(view):
            raise TypeError("guard_django: the view must be sync")

        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            found = authorize_request(
                guard, route, request, _view_of(guard, request), lambda: _body_of(request)
            )
            if isinstance(found, Rejection):
                return HttpResponse(
                    found.body, status=found.status, content_type="application/json", headers=NO_STORE
                )
            return _run(found, lambda: view(request, found, *args, **kwargs))

        return guarded

    return decorate


def _run(authority: Authority, view: Callable[[], Any]) -> HttpResponseBase:
    try:
        response: HttpResponseBase = view()
    except BaseException as error:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
        if status is None:
            authority.report("failed", type(error).__name__)
        else:
            authority.report(outcome_of_status(status), f"HTTP {status}")
        raise
    authority.report(outcome_of_status(response.status_code), f"HTTP {response.status_code}")
    return response


def _view_of(guard: "Guard", request: HttpRequest) -> RequestView:
    def header(name: str) -> str | None:
        return request.headers.get(guard.header(name))

    address = request.META.get("REMOTE_ADDR", "")
    return RequestView(header, request.method or "", _target_of(request), address)


def _target_of(request: HttpRequest) -> str:
    # Only a WSGI server makes the environment. Django's path has the prefix of the application already.
    environ = getattr(request, "environ", None)
    return target_of(environ) if is_object(environ) else request.get_full_path()


def _body_of(request: HttpRequest) -> Body:
    content_type = request.headers.get("content-type")
    if is_other_type(content_type):
        return Body(ABSENT, is_unread=True)
    return read_body(content_type, request.body)
