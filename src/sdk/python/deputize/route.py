"""Guard settings of a route, for every framework."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .authority import Outcome
from .challenges import Challenge
from .enforcement import NO_AUTHORITY, Refusal
from .faults import shown_request
from .operation import Operation
from .proof import ProofSource
from .question import AuthorizeCall, Facts, demand_scope
from .settings import demand

MAX_BODY_BYTES = 1024 * 1024
_INVOCATION_ID = re.compile(r"[\x21-\x7e]{1,256}")


@dataclass(frozen=True, slots=True)
class Route:
    """Guard settings of a route. Raises TypeError for invalid settings.

    The functions get the framework's request.

    - `required_scope`: the scope that the route requires. If a function returns none, the request is refused
    - `proof`: returns the proof. By default, it is read from the header `X-Service-Proof`
    - `payload`: returns the input of the action, by default a body of JSON or bytes
    - `operation`: if set, requires proofs that were made for this one action. `True` names the action after
      the method, as agents do by default. `False` is the same as `None`. Omitted members are read from the
      request: the unchanged path and query, and the headers `X-Service-Invocation-ID` and
      `X-Service-Session-ID`. With a `proof_ref`, the agent id is in `X-Service-Agent-ID`
    - `context`: returns facts about the request. With an operation, leave out `resource_id` and `path`
    - `max_body_bytes`: the longest body that the guard reads. A framework can have another limit
    """

    required_scope: str | Callable[[Any], str | None]
    proof: Callable[[Any], ProofSource | None] | None = None
    payload: Callable[[Any], object] | None = None
    operation: Callable[[Any], Operation] | bool | None = None
    context: Callable[[Any], Facts] | None = None
    max_body_bytes: int = MAX_BODY_BYTES

    def __post_init__(self) -> None:
        if not callable(self.required_scope):
            demand_scope(self.required_scope)
        is_operation = isinstance(self.operation, bool | None) or callable(self.operation)
        demand(is_operation, "operation: must be True, or a function that returns an Operation")
        functions = {"proof": self.proof, "payload": self.payload, "context": self.context}
        for name, function in functions.items():
            demand(function is None or callable(function), f"{name}: must be a function")
        is_limit = type(self.max_body_bytes) is int and self.max_body_bytes >= 0
        demand(is_limit, "max_body_bytes: must be a whole number that is not negative")


def check_route(guard: object, route: object) -> None:
    """Raises TypeError unless a framework got a guard and a route, in this order."""
    demand(hasattr(guard, "authorize"), "guard: must be a Guard")
    demand(isinstance(route, Route), 'route: must be a Route, such as Route("data:read")')


@dataclass(frozen=True, slots=True)
class RequestView:
    """The parts of a request that every framework provides.

    `header` returns the value of a service header, such as `proof`. `target`: path and query, unchanged, or
    `None` if the server does not provide them. `address`: the IP address of the caller.
    """

    header: Callable[[str], str | None]
    method: str
    target: str | None
    address: str


@dataclass(frozen=True, slots=True)
class Body:
    """The parsed body of a request, or `ABSENT`.

    `is_unread`: whether the request has a body that is not in `value`.
    """

    value: object
    is_unread: bool


def proof_of(route: Route, request: object, view: RequestView) -> ProofSource | None:
    """Returns the proof of a request. Look for it first, so that a stranger's body is not read."""
    return view.header("proof") if route.proof is None else route.proof(request)


def unproven_call(route: Route, request: object) -> AuthorizeCall:
    """Returns the call for a request without a proof. The guard refuses it."""
    return AuthorizeCall(_scope_of(route, request), None)


def call_of(
    route: Route, request: object, view: RequestView, proof: ProofSource, body: Body
) -> AuthorizeCall:
    """Returns the call for one request of a route."""
    return AuthorizeCall(
        required_scope=_scope_of(route, request),
        proof=proof,
        payload=body.value if route.payload is None else route.payload(request),
        operation=_operation_of(route, request, view),
        context=None if route.context is None else route.context(request),
        unread_body=body.is_unread and route.payload is None,
        described=view.header("operation"),
        request=shown_request(view.method, view.target),
    )


def _scope_of(route: Route, request: object) -> str | None:
    scope = route.required_scope
    return scope(request) if callable(scope) else scope


def asks_for_challenge(view: RequestView, refusal: Refusal) -> bool:
    """Returns whether the caller has shown no authority and asks for a challenge."""
    return refusal.code == NO_AUTHORITY.code and view.header("challenge") == "wanted"


def refusal_body(view: RequestView, refusal: Refusal, challenge: Challenge | None) -> bytes:
    """Returns a refusal's body, in the form of the service's own errors.

    If an approval could resolve a denial, it contains the id with which the agent can ask. It never names the
    verifier or the service: an agent takes these names from its own settings. It repeats the request's
    invocation id, so that an agent does not mistake the relayed refusal of another call for one of its own.
    """
    error = {"code": refusal.code, "message": refusal.message, "status": refusal.status}
    body: dict[str, object] = {"error": error}
    invocation_id = view.header("invocation-id")
    if invocation_id is not None and _INVOCATION_ID.fullmatch(invocation_id):
        body["invocation_id"] = invocation_id
    if refusal.evaluation_id is not None:
        body["evaluation_id"] = refusal.evaluation_id
    if challenge is not None:
        body["challenge"] = {"challenge": challenge.challenge, "expires_at": challenge.expires_at}
    return json.dumps(body).encode()


def outcome_of_status(status: int) -> Outcome:
    """Returns the outcome that the status of a completed response implies."""
    if status >= 500:
        return "failed"
    return "refused_by_receiver" if status >= 400 else "executed"


def _operation_of(route: Route, request: object, view: RequestView) -> Operation | None:
    if route.operation is None or route.operation is False:
        return None
    given = Operation(action=view.method) if route.operation is True else route.operation(request)
    target = view.target if given.requested_path is None else given.requested_path
    if target is None:
        raise TypeError("operation: needs requested_path, because the server does not provide the raw path")
    return replace(
        given,
        invocation_id=given.invocation_id or view.header("invocation-id"),
        session_id=view.header("session-id") if given.session_id is None else given.session_id,
        agent_id=view.header("agent-id") if given.agent_id is None else given.agent_id,
        requested_path=target,
    )
